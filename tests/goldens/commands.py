"""The parts that are asked by the command line, in the order of the work."""

# ruff: noqa: E501 - tables of commands
import csv
import json
import re
import shlex
import signal
import sqlite3
import time

import pyarrow.parquet

from tests.goldens.run import REAL, Part, start_command

PROMPTS = """\
Pleural Effusion:
  positive: [Pleural effusions, There is a left pleural effusion.]
  negative: [No pleural effusions]
Fracture: {positive: [Rib fracture.], negative: [No fracture.]}
"""
CONFIG = """\
data: {manifest: data/manifest.csv, sentences: data/sentences.csv, resize: 64, crop: 64, cache: cache}
model: {image: resnet-narrow, text: lm, dimension: 16}
training: {steps: 8, batch: 8, sentences: 2, lr: 1e-3, warmup: 2, log_every: 2, validate_every: 4,
  save_every: 4, device: cpu}
out: run
"""


def base(run: Part) -> None:
    """What the other parts begin with."""
    run.write("config.yaml", CONFIG)
    run.write("prompts.yaml", PROMPTS)
    run("phantom data --studies 90 --size 64 --seed 3")
    run("pretrain-text data/reports.csv --out lm --size demo --epochs 2 --seed 1")
    run("score-text data/reports.csv --model lm --no-cache")
    run("train config.yaml")
    run("index build data/manifest.csv --model run/checkpoint --out index --cache cache")
    run.tree("data", "lm", "run", "index")
    run.show(
        "data/sentences.csv", "data/sentences.csv.meta.json", "lm/report.md", "lm/training.json"
    )
    run.show("run/metrics.jsonl", "run/checkpoint/training.json", "run/checkpoint/config.json")
    run.show("index/index.json")
    for name in ("index/catalogue.sqlite", "cache/decoded.sqlite"):
        with sqlite3.connect(run.folder / name) as base:
            tables = base.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        run.note(f"schema of {name}", "\n".join(sql for (sql,) in tables if sql))


def phantom(run: Part) -> None:
    run("""
        phantom png --studies 24 --size 64 --seed 5 --masks --gallery gallery.png
        phantom dicom --studies 12 --size 96 --seed 5 --format dicom --json
        phantom faint --studies 12 --size 64 --seed 1 --difficulty 2.5
        phantom plain --studies 6 --size 64 --seed 1 --difficulty 0
        phantom --gallery alone.png --size 64
    """)
    run("phantom png --studies 24 --size 64 --seed 5 --masks", "check-files png")
    run.tree("png", "dicom", "faint", "plain", "gallery.png", "alone.png")
    for name in ("manifest.csv", "reports.csv", "labels.csv", "truth.csv", "phantom.json"):
        run.show(f"png/{name}", lines=6)


def text(run: Part) -> None:
    """pretrain-text."""
    run.copy("data")
    reports = list(csv.DictReader((run.folder / "data/reports.csv").open()))
    for row in reports[:40]:
        said = f"FINDINGS: {row['findings']}\n\nIMPRESSION: {row['impression']}\n"
        run.write(f"files/p1/s{row['study_id']}.txt", said)
    run("""
        pretrain-text data/reports.csv --out tuned --base ../base/lm --epochs 1 --json
        pretrain-text data/reports.csv --out pieces --size demo --epochs 1 --masking piece
        pretrain-text files --out files-lm --size demo --epochs 2 --patience 1 --section findings
    """)
    run("pretrain-text data/reports.csv --out pieces --size demo --epochs 1")
    run.tree("tuned", "pieces", "files-lm")
    run.show("files-lm/report.md", "files-lm/report.json")


BROKEN = (
    b'study_id,findings,impression\n1,"The lungs are clear. No effusion.",Normal.\n'
    b'2,"Unclosed quote,here\n3,caf\xe9 without UTF-8,x\n4,,\n,No id.,Normal.\n'
    b'1,Another report of the same id.,x\n5,Fine.,"Two.\nLines."\n6,a,b,c,d\n'
)


def score(run: Part) -> None:
    """score-text."""
    run.copy("data")
    rows = list(csv.DictReader((run.folder / "data/reports.csv").open()))[:25]
    run.write("few.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    run.write("broken.csv", BROKEN)
    run.write("sentences.csv", "sentence\nThe lungs are clear.\nXyzzy qwrtz.\nNo effusion.\n")
    for row in rows:
        run.write(f"files/p1/s{row['study_id']}.txt", f"FINDINGS:\n{row['findings']}")
    run.write("files/p1/bad.txt", b"\xff\xfe\x00 not text")
    model = "--model ../base/lm"
    run(f"""
        score-text few.jsonl {model} --out all.parquet --tokens tokens.csv --a 0.3 --k 0.5 --json
        score-text few.jsonl {model} --out section.csv --section impression --no-cache
        score-text few.jsonl {model} --out l2r.csv --variant within-word-l2r --tokens l2r-tokens.csv
        score-text few.jsonl {model} --out int8.csv --precision int8
        score-text few.jsonl {model} --out half.csv --precision bfloat16 --batch-tokens 500
        score-text data/reports.csv {model} --out fit.csv --fit
        score-text few.jsonl {model} --out two.csv --workers 2
        score-text few.jsonl {model} --out long.csv --longest 6 --max-rejected 500
        score-text files {model} --out files.csv
        score-text broken.csv {model} --out broken-out.csv
        score-text broken.csv {model} --out strict.csv --max-rejected 0
        score-text sentences.csv {model} --out -
        score-text REAL/reports/reports.csv {model} --out real.csv --section impression --json
    """)
    run("score-text few.jsonl --model ../base/lm --out two.csv --json")
    said = "The lungs are clear.\nNo pneumothorax.\n\nXyzzy.\n"
    run(f"score-text - {model} --out -", f"score-text - {model} --out in.csv --json", given=said)
    run.show("section.csv", "l2r.csv", "int8.csv", "half.csv", "two.csv", "files.csv", "in.csv")
    run.show("broken-out.csv", "l2r-tokens.csv", "fit.csv.meta.json", "long.csv")
    if REAL:
        run.show("real.csv.meta.json")
    for path in sorted(run.folder.glob("*.rejected.csv")):
        run.show(path.name)
    found = pyarrow.parquet.read_table(run.folder / "all.parquet")
    run.note("all.parquet", f"{found.schema}\n" + "\n".join(map(str, found.to_pylist())))
    run.tree("")


OBJECTIVES = """
dcl-eta-lm | dcl-eta-lm symmetric=true | dcl-eta eta=0.1 | dcl-eta-true | info-nce
info-nce symmetric=true | remove-by-labels | remove-by-labels findings=[Edema] symmetric=true
remove-by-text threshold=0.5 | resample-by-text keep=4 | resample-by-text keep=3 symmetric=true
reweight-by-text beta=2 | hard-negative | hard-negative tau_plus=0.2 beta=2 symmetric=true
positive-debiased | positive-debiased symmetric=true | supervised | supervised symmetric=true
alignment-uniformity weight=0.5 | y-aware condition=[age] | y-aware condition=[age,sex] kernel=[laplacian,delta]
conditional-alignment-uniformity condition=[sex] kernel=delta symmetric=true
weaksup-info-nce condition=[sex] | weaksup-info-nce condition=[age] clusters=3 symmetric=true
fair-info-nce condition=[sex] | fair-info-nce condition=[age] clusters=2 symmetric=true
weaksup-cclk condition=[age] | weaksup-cclk condition=[age] ridge=0.5 symmetric=true
fair-cclk condition=[age] kernel=cosine | fair-cclk condition=[age] kernel={name:rbf,sigma:0.5} symmetric=true
hardneg-cclk | hardneg-cclk kernel=laplacian symmetric=true
"""
OPTIONS = """
model.similarity=global | model.similarity=max | model.similarity=lse model.lam=5
model.similarity=nl | model.similarity=nl model.query=mlp | model.query=none model.gamma_sq=5
training.mlm_weight=0.1 | training.ema=0.5 | training.lock=[image] | training.lock=[text]
training.batch=16 training.accumulate=2 | training.section_weights={impression:3}
data.sections=[impression] data.crop=48 training.rotation=5 | training.precision=bfloat16
training.checkpointing=true | training.best=val/auc training.patience=1 training.validate_every=1
training.seed=7 training.weight_decay=0.1 training.image_lr=0.5 training.text_lr=2 training.clip=0.1
model.image=resnet18 training.batch=4 training.steps=2 | training.sentences=1 training.keep=1
"""


def train(run: Part) -> None:
    """Every objective and option of training; a run that is stopped and goes on."""
    lines = []
    for table, prefix in ((OBJECTIVES, "objective."), (OPTIONS, "")):
        for words in [one.split() for one in re.split(r"\s*[|\n]\s*", table.strip())]:
            if prefix:
                words = [f"name={words[0]}", *words[1:]]
            name = re.sub(r"[^\w=.-]+", "-", "+".join(words))
            sets = " ".join(f"--set '{prefix}{word}'" for word in words)
            sets = f"--set training.steps=4 --set out=runs/{name} {sets}"
            lines.append(f"train ../base/config.yaml {sets}".replace(":", ": "))
    run(*lines)
    run("train ../base/config.yaml --set out=runs/json --json", "train --init")
    run.tree("cxrtext.yaml")
    straight = "train ../base/config.yaml --set training.save_every=5 --set training.steps=16"
    run(f"{straight} --set out=runs/straight")
    stopped = start_command(run, *shlex.split(straight), "--set", "out=runs/stopped")
    log = run.folder / "runs/stopped/metrics.jsonl"
    while stopped.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.02)
    stopped.send_signal(signal.SIGINT)
    stopped.communicate(timeout=300)
    run.note("stopped", f"-> {stopped.returncode}")
    run("train --resume runs/stopped")
    run("train --resume runs/stopped")
    for folder in sorted((run.folder / "runs").iterdir()):
        run.tree(f"runs/{folder.name}")
        run.show(f"runs/{folder.name}/metrics.jsonl")


def evaluate(run: Part) -> None:
    """evaluate, and what it keeps with a checkpoint."""
    run.copy("run")
    boxes = json.loads((run.work / "base/data/boxes.json").read_text())
    names = {one["id"]: one["file_name"] for one in boxes["images"]}
    rows = [[names[b["image_id"]], b["label_text"], *b["bbox"]] for b in boxes["annotations"]]
    with run.write("boxes.csv", "").open("w", newline="") as handle:
        csv.writer(handle).writerows([["image", "label_text", "x", "y", "w", "h"], *rows])
    data = "--data ../base/data --cache ../base/cache --resamples 30"
    last, best = "../base/run/checkpoint", "../base/run/checkpoint-best"
    run(f"""
        evaluate {last} {data} --split all --out all --slice sex --slice view
        evaluate {last} {data} --json --sigma 1.5 --exclude-same-patient --seed 4
        evaluate {last} {data} --split all --json --prompts ../base/prompts.yaml --average scores --boxes boxes.csv
        evaluate {last} {data} --split train --out plain --uncertain positive --no-pictures --probe --examples 0
        evaluate {last} {best} {data} --split all --compare --out compare
        evaluate {last} {best} {data} --split val --compare --json
        evaluate run/checkpoint {data} --calibrate --keep-reference --split test --out calibrated
        evaluate {last} --data ../base/data --split val --resamples 0
    """)
    run("classify ../base/data/images/s000001.png --model run/checkpoint")
    run("evaluate run/checkpoint --data ../base/data --split val --resamples 0 --json")
    run("check-files run")
    for name in ("all", "plain", "compare", "calibrated", "run"):
        run.tree(name)
    run.show(
        "all/report.md",
        "plain/report.md",
        "compare/comparison.md",
        "run/checkpoint/calibration.json",
        "run/checkpoint/verdicts.json",
    )
    run.show("all/metrics.json", "calibrated/metrics.json")


def ask(run: Part) -> None:
    """classify, ground, verify."""
    run.copy("index")
    run.write(
        "report.txt",
        "FINDINGS: The heart is normal. Left pleural effusion.\nIMPRESSION: No pneumothorax. Possible edema.",
    )
    data, model = "../base/data", "--model ../base/run/checkpoint"
    one, two = (f"{data}/images/s00000{number}.png" for number in (1, 2))
    run(f"""
        classify {one} {two} {model}
        classify {one} {two} {model} --json --prompts ../base/prompts.yaml --out two.csv
        classify {data}/manifest.csv {model} --out all.csv
        classify --index index --out index.csv --json
        classify --index index --keep --prompts ../base/prompts.yaml
        ground {one} "Left pleural effusion." {model} --out left.png
        ground {one} "Right pneumothorax." {model} --json
        verify {one} report.txt {model}
        verify {one} report.txt {model} --json --threshold 0.1 --out page.html
        verify {two} report.txt --index ../base/index --out verified.csv
        verify --data {data} {model} --split test -n 12 --out worst.csv
        verify --data {data} {model} --wording negated -n 5 --json --cache ../base/cache
        classify REAL/dicom/cr_chest_mono1_15bit_j2k.dcm REAL/dicom/mr_rle.dcm {model} --json
        classify REAL/dicom/sr_no_image.dcm {model}
        classify REAL/cxr/manifest.csv {model} --json
        ground REAL/grounding/images/tb0007.png "Obsolete tuberculosis." {model} --out tb.png --json
    """)
    run(f"verify {two} - {model}", given="The lungs are clear. Cardiomegaly.")
    run("search Fracture. --index index --where 'label.Fracture > 0.5' -k 3")
    run.tree("left.png", "s000001.ground.png", "tb.png", "page.html")
    run.show("two.csv", "all.csv", "index.csv", "verified.csv", "worst.csv")


WHERE = """
age > 60 | age >= 60 and sex = 'F' | age < 30 or view = 'AP' | age <= 30 | age <> 50 | age != 50
not split = 'train' | split in ('val', 'test') | split not in (val) | age between 40 and 50
age not between 20 and 80 | device is null | age is not null | view like 'P%' | patient_id = p000001
"label.Pleural Effusion" >= 0.5 | label.Edema < 0.5 and (sex = M or age > 70) | height = 64
image = 'images/s000001.png' | study_id = 's000002' | sex = 'O''Hara' | age > 'x' | nothing = 1 | age >
age > 60 and | (age > 60 | sex == F | 1 = 1 | age + 1 > 3
"""


def search(run: Part) -> None:
    i = "--index ../base/index"
    image = "../base/data/images/s000003.png"
    effusion = "'Large left pleural effusion.'"
    run(f"""
        search {effusion} {i}
        search {effusion} {i} --json -k 3
        search {effusion} {i} -k 1000 --out cohort.csv
        search {effusion} {i} -k 5 --offset 5 --min-score 0.01
        search {effusion} {i} --not Pneumothorax. --not Edema. --mode exact
        search {effusion} {i} --mode fast --unique patient
        search {effusion} {i} --unique study --json -k 4
        search {effusion} {i} --unique picture
        search {effusion} {i} --target sentences
        search {effusion} {i} --target sentences --where 'age > 60' --json -k 4
        search --image {image} {i} -k 4
        search --image {image} {i} --target sentences -k 4 --out sentences.csv
        search --image-id images/s000003.png {i} --other-patients -k 4 --json
        search Worse. --image {image} --image-weight 0.3 {i} -k 4
        search {effusion} {i} {i} -k 4
        search {effusion} {i} --model ../base/run/checkpoint-best
        search --image REAL/dicom/mr_rle.dcm {i} -k 3
    """)
    run.show("cohort.csv", "sentences.csv")
    filters = re.split(r"\s*[|\n]\s*", WHERE.strip())
    run(*[f"search Edema. {i} -k 3 --where {shlex.quote(where)}" for where in filters])


def index(run: Part) -> None:
    """An index that grows, shrinks and is mended."""
    for name in ("data", "index"):
        run.copy(name)
    rows = (run.folder / "data/manifest.csv").read_text().splitlines()
    run.write("data/first.csv", "\n".join(rows[:31]))
    gone = "\n".join([*rows[:4], rows[4].replace(".png", "-gone.png")])
    run.write("data/gone.csv", gone)
    run.write("data/wrong.csv", f"{gone}\nx")
    run.write("delete.txt", "s000005\ns000006\n")
    model = "--model ../base/run/checkpoint"
    run(f"""
        index build data/first.csv {model} --out small --storage int8 --pool 2 --candidates hnsw
        index build data/first.csv {model} --out pq --candidates ivfpq --target-recall 0.9 --json
        index build data/first.csv {model} --out labels --prompts ../base/prompts.yaml --reports data/reports.csv
        index build data/wrong.csv {model} --out wrong
        index build data/gone.csv {model} --out gone
        index build data/gone.csv {model} --out strict --max-rejected 0
    """)
    for lines in (
        "index check small\nindex check pq\nsearch Edema. --index small --json -k 3\n"
        "search Edema. --index pq --mode fast -k 3\nsearch Edema. --index labels -k 2 --json",
        "index build data/manifest.csv --out small\nindex add labels data/first.csv --replace",
        "index delete small s000001 s000002\nindex delete labels --from delete.txt",
        "index delete small s000003 none --json\nindex delete labels --from delete.txt",
        "index compact small\nindex rebuild labels --json",
        "index check small --json\nindex move labels ../base/data\nindex move pq /new --from /old",
        "search Edema. --index small -k 5\nsearch Edema. --index small --index labels --json -k 4",
        "check-files small\ncheck-files labels --json",
    ):
        run(lines)
    path = run.folder / "labels" / next(p.name for p in (run.folder / "labels").glob("regions*"))
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    run("index check labels\ncheck-files labels\nsearch Edema. --index labels")
    run.tree("small", "labels", "pq", "wrong")
    run.show("small/index.json", *[path.name for path in run.folder.glob("*.rejected.csv")])


def experiments(run: Part) -> None:
    """The papers' experiments at their smallest."""
    run("""
        experiment table1 --scale smoke --rows lse-nl,dcl-eta-lm --out table1
        experiment weaksup-cclk --scale smoke --rows info-nce --out weaksup
        experiment cifar10-r --scale smoke --rows cl-0.1,dcl-true-0.1 --data REAL/cifar10.npz --out cifar
        experiment fair-cclk --scale smoke --rows info-nce,fair-cclk-rbf --data REAL/mnist.npz --out fair
    """)
    run("experiment table1 --scale smoke --rows lse-nl --out table1 --json")
    run.tree(".")


def old(run: Part) -> None:
    """What the recorded code wrote, read by the code of today."""
    place = "../files"
    run(f"check-files {place}/lm\ncheck-files {place}/run\ncheck-files {place}/index")
    run(f"score-text {place}/data/reports.csv --model {place}/lm --out s.csv --json")
    run(f"classify {place}/data/images/s000001.png --model {place}/run/checkpoint --json")
    run(f"search Edema. --index {place}/index --model {place}/run/checkpoint -k 3")
    run(f"index check {place}/index")
    for state in (run.work / "files/run/state").glob("step-00000008*"):
        state.unlink()  # so that there is something to go on with
    run(f"train --resume {place}/run --set data.manifest={place}/data/manifest.csv "
        f"--set data.sentences={place}/data/sentences.csv --set data.cache={place}/cache "
        f"--set model.text={place}/lm --set out={place}/run")  # fmt: skip
    run(f"check-files {place}/run")
    run.show("../files/run/metrics.jsonl")
