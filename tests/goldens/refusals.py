"""Help texts, and wrong input."""

# ruff: noqa: E501 - tables of commands
import re
import shutil
import subprocess
import sys

from tests.goldens.run import Part


def help_texts(run: Part) -> None:
    waiting = [""]
    while waiting:
        command = waiting.pop(0)
        out = run.start(f"{command} --help").result()[1]
        commands = re.findall(r"(?m)^  ([a-z][\w-]*)  ", out.partition("\nCommands:")[2])
        waiting += [f"{command} {name}".strip() for name in commands]
        run(f"{command} --help")
    run("--version\n\nnone\n--none\nphantom --none\nkeys none")
    run.note("cxrtext, alone", str(run.start("").result()))
    for module in ("training", "experiments"):
        words = [sys.executable, "-m", f"cxrtext.{module}", "--help"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        run.note(
            f"python -m cxrtext.{module} --help -> {done.returncode}", done.stdout + done.stderr
        )


WRONG = """
phantom out --size 7 | phantom file | phantom --gallery out.txt | phantom | phantom out --studies 0
phantom out --format jpeg | import gone --out new | import DATA --out new --layout other
import DATA --out new --split 1,2 | import DATA --out new --hash-ids gone | import DATA --out file
import empty --out new | import DATA --out new --reports file | import DATA --out new --keep nothing
check-data gone | check-data empty | check-data DATA --out page.pdf | check-data DATA --labels gone
check-data head.csv | check-data zero.csv | check-data DATA --cache c --no-cache | check-files gone
check-files empty | check-files DATA/manifest.csv | pretrain-text gone --out new
pretrain-text DATA/reports.csv --out file | pretrain-text DATA/reports.csv --out empty --size huge
pretrain-text head.csv --out lm1 | pretrain-text columns.csv --out lm2 | pretrain-text DATA/reports.csv --out new --base DATA
score-text gone | score-text DATA/reports.csv --model DATA | score-text file.xlsx --model LM | score-text zero.csv --model LM
score-text head.csv --model LM --out new.csv | score-text columns.csv --model LM --out new.csv
score-text latin.csv --model LM --out new.csv | score-text empty --model LM --out new.csv
score-text DATA/reports.csv --model LM --out new.txt | score-text DATA/reports.csv --model LM --out file/new.csv
score-text DATA/reports.csv --model LM --out new.csv --a 2 | score-text DATA/reports.csv --model LM --out new.csv --k -1
score-text DATA/reports.csv --model LM --out new.csv --section none | score-text DATA/reports.csv --model cut-lm --out new.csv
score-text DATA/reports.csv --model no-such/model --out new.csv | score-text DATA/reports.csv --model LM --out /proc/new.csv
score-text DATA/reports.csv --model LM --out new.csv --precision float8 --device tpu
train | train gone | train bad.yaml | train list.yaml | train CONFIG --set training.batch=none | train CONFIG --set data.none=1
train CONFIG --set none | train CONFIG --set a.b.c=1 | train CONFIG --set objective.name=none | train CONFIG --set model.similarity=x
train CONFIG --set objective.eta=0.1 | train CONFIG --set objective.name=y-aware | train CONFIG --set objective.name=resample-by-text
train CONFIG --set objective.name=y-aware --set objective.condition=[none] --set out=o1
train CONFIG --set objective.name=y-aware --set objective.condition=[sex] --set objective.kernel=rbf --set out=o2
train CONFIG --set objective.name=supervised --set objective.findings=[None] --set out=o3
train CONFIG --set training.batch=9 --set training.accumulate=2 | train CONFIG --set data.manifest=gone | train CONFIG --set out=BASE/run
train CONFIG --set data.sentences=head.csv --set out=o4 | train CONFIG --set data.crop=99 | train CONFIG --set training.batch=4000 --set out=o5
train CONFIG --set model.text=gone/gone/gone | train --resume gone | train --resume empty | train --init CONFIG | train CONFIG --set training.lr=nan
train CONFIG --set data.manifest=head.csv --set out=o6 | train CONFIG --set training.device=cuda --set out=o7
evaluate gone --data DATA | evaluate DATA --data DATA | evaluate RUN --data gone | evaluate RUN --data empty | evaluate cut-run --data DATA
evaluate RUN --data DATA --split none | evaluate RUN --data DATA --average x | evaluate RUN --data DATA --prompts list.yaml
evaluate RUN --data DATA --compare | evaluate RUN --data DATA --boxes DATA/labels.csv | evaluate RUN --data DATA --slice none
evaluate RUN --data DATA --out file | evaluate RUN --data DATA --uncertain x | evaluate mixed-run --data DATA
index build gone --model RUN --out new | index build DATA --model RUN --out new | index build DATA/manifest.csv --out new | index build head.csv --model RUN --out new
index build outside.csv --model RUN --out new1 | index build DATA/manifest.csv --model BASE/run/checkpoint-best --out INDEX | index check empty
index check INDEX --compact | index build DATA/manifest.csv --model RUN --out file | index build gone.csv --model RUN --out new2
search x --index gone | search x --index empty | search --index INDEX | search ... --index INDEX | search x --index INDEX -k 0
search x --index INDEX --where age= | search x --index INDEX --image gone | search x --index INDEX --image-id none
search x --index INDEX --mode slow | search x --index INDEX --other-patients | search --index cut-index x | search x --index INDEX --out empty
classify gone --model RUN | classify PNG --model gone | classify PNG | classify file --model RUN | classify cut.png --model RUN
classify --index INDEX PNG | classify PNG --model RUN --prompts gone | classify PNG --model RUN --keep | classify PNG file --model RUN
ground PNG x --model gone | ground PNG ... --model RUN | ground PNG x --model RUN --out new.jpg | ground cut.png x --model RUN
verify PNG gone --model RUN | verify PNG --model RUN | verify PNG zero.csv --model RUN | verify --data DATA --model RUN --wording x
verify PNG DATA/reports.csv --model RUN --out new.pdf | verify PNG latin.csv --model RUN | serve | serve --model gone | serve --index cut-index
serve --model RUN --host 0.0.0.0 | serve --model RUN --cors-origin x | serve --model RUN --port 99999 | serve --model RUN --uploads file
experiment none | experiment table1 --scale huge | experiment table1 --rows none | experiment cifar10-r | experiment table1 --scale paper
experiment fair-cclk --data file | experiment table1 --data empty --scale smoke --out e1 | keys list gone | keys add file/keys name
keys add keys.txt 'a b' | keys add keys.txt x --scope none | keys add keys.txt x --expires soon | keys revoke gone name
"""


def wrong(run: Part) -> None:
    """Wrong input: what is said, and the exit code."""
    for name in ("run", "lm", "index"):
        run.copy(name if name != "run" else "run/checkpoint", f"cut-{name}")
    run.copy("run/checkpoint", "mixed-run")
    shutil.copy(run.work / "base/lm/config.json", run.folder / "mixed-run/config.json")
    for path in (
        *run.folder.glob("cut-*/model.safetensors"),
        run.folder / "cut-index/catalogue.sqlite",
    ):
        path.write_bytes(path.read_bytes()[:5000])
    rows = (run.work / "base/data/manifest.csv").read_text().splitlines()
    png = (run.work / "base/data/images/s000001.png").read_bytes()
    contents: dict[str, str | bytes] = {
        "file": "text\n", "file.xlsx": "text\n", "zero.csv": "", "head.csv": rows[0] + "\n",
        "columns.csv": "a,b\n1,2\n", "latin.csv": b"study_id,report\n1,caf\xe9\n2,\xff\n",
        "bad.yaml": "a: [", "list.yaml": "- a\n", "cut.png": png[:300], "empty/x": "",
        "gone.csv": "\n".join([rows[0], *(row.replace(".png", "-gone.png") for row in rows[1:4])]),
        "outside.csv": f"{rows[0]}\n../base/data/{rows[1]}\n",
    }  # fmt: skip
    for name, content in contents.items():
        run.write(name, content)
    (run.folder / "empty/x").unlink()
    places = {
        "DATA": "../base/data", "LM": "../base/lm", "RUN": "../base/run/checkpoint", "BASE": "../base",
        "INDEX": "../base/index", "CONFIG": "../base/config.yaml", "PNG": "../base/data/images/s000001.png",
    }  # fmt: skip
    for line in re.split(r"\s*[|\n]\s*", WRONG.strip()):
        run(re.sub(r"\b[A-Z]{2,}\b", lambda found: places.get(found[0], found[0]), line))
    code, _, err = run.start("--debug search x --index gone").result()
    run.note(f"cxrtext --debug search x --index gone -> {code}", err.splitlines()[-1])
