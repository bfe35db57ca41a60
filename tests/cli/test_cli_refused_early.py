"""Wrong paths and options are refused before what computes is imported, by every command."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from cxrtext_cli import given
from cxrtext_cli.main import SECTIONS, app

VALID = """
fit DATA --out new
demo --out new
phantom new
import DATA --out new
check-data DATA
backup INDEX --out new
restore EMPTY --out new
forget DATA --patient p1
check-files DATA
label-reports REPORTS --out new.csv
pretrain-text REPORTS --out new
pretrain-image MANIFEST --out new
encode MANIFEST --backbone LM --out new
score-text REPORTS --model LM --out new.csv
evaluate CHECKPOINT --data DATA
compare DATA DATA
calibrate CHECKPOINT --data DATA
experiment table1
index build MANIFEST --model CHECKPOINT --out new
index check INDEX
index compact INDEX
index delete INDEX s01
search INDEX x
classify CHECKPOINT IMAGE
ground CHECKPOINT IMAGE x
verify CHECKPOINT IMAGE REPORTS
serve CHECKPOINT
gateway results approve FILE archive
"""
"""Commands that would run, each with one thing wrong in turn: see :func:`spoiled`."""

TABLE = {"new.txt": "a table ends in", "FILE/new.csv": "'file' is a file, not a folder"}
NEW = {"FILE": "file: is a file; name a folder", "s3://bucket/new": "is an address; name a folder"}
REFUSED = {
    given.FILE: {"GONE": "gone: no such file"},
    given.FOLDER: {"GONE": "gone: no such folder", "FILE": "file: is a file; give a folder"},
    given.FILE_OR_FOLDER: {"GONE": "gone: no such file or folder"},
    given.REPORT: {"GONE": "gone: no such file; give one with the report's text, or - and"},
    given.SOURCE: {"GONE": "gone: no such file or folder", "FILE.xls": "save the table as .xlsx"},
    given.CHECKPOINT: {"GONE": "no such checkpoint folder", "DATA": "not a cxrtext checkpoint"},
    given.BACKBONE: {"GONE": "gone: no such folder", "DATA": "has no config.json"},
    given.PLACE: {
        "GONE": "gone: no such folder; give a project, a checkpoint or an index first",
        "IMAGE": "is a file; give a project, a checkpoint or an index first",
        "EMPTY": "empty: neither a project nor a checkpoint nor an index",
        "RUN": "nor an index; give one of those in it, such as ", "LM": "not a cxrtext checkpoint",
    },
    given.INDEX: dict.fromkeys(("GONE", "EMPTY"), "not an index"),
    given.LANGUAGE_MODEL: {
        "GONE/GONE/GONE": "no such model folder", "EMPTY": "empty: not a language model",
    },
    given.DATA_FOLDER: {"GONE": "gone: no such folder", "EMPTY": "holds no manifest.csv"},
    given.PROMPTS: {"GONE": "gone: No such file", "REPORTS": "expected 'Finding: {positive"},
    given.NEW_FILE: {"EMPTY": "empty: is a folder; name a file"},
    given.NEW_TABLE: TABLE,
    given.ABSENT_TABLE: {**TABLE, "DATA/labels.csv": "is there already"},
    given.NEW_PREDICTIONS: {
        "EMPTY": "a table ends in", "DATA/labels.csv": "is there already",
        "DATA/boxes.csv": "would be taken for the data folder's own boxes",
    },
    given.NEW_TABLE_OR_STDOUT: TABLE,
    given.NEW_FOLDER: NEW,
    given.EMPTY_FOLDER: {**NEW, "DATA": "is not empty; name a new folder"},
    given.DEVICE: {"tpu": "--device: 'tpu' is not auto, cpu"},
    given.SPLIT: {"none": "--split: 'none' is not one of"},
    given.SENTENCE: {
        **dict.fromkeys(("...", "NOTHING"), "the sentence is empty"),
        "IMAGE": "is a file, not a sentence",
    },
    given.SECTION: {"none": "section 'none' is not one of"},
    given.ANY_PATH: {},
}  # fmt: skip
"""What a parameter of each kind refuses, and what is said of it."""


def spoiled(line: str) -> Iterator[tuple[str, str]]:
    """A command's lines, each with one parameter as its kind refuses it, and what is said of it."""
    words = line.split()
    command: Any = typer.main.get_command(app)
    named = []
    while hasattr(command, "commands"):
        named.append(words.pop(0))
        command = command.commands[named[-1]]
    kinds = given.kinds_of(command.callback)
    places = [one.name for one in command.params if one.param_type_name == "argument"]
    for parameter in command.params:
        refused = REFUSED[kinds[parameter.name]] if parameter.name in kinds else {}
        for wrong, says in refused.items():
            others = [*words]
            if parameter.name in places:
                others[places.index(parameter.name)] = wrong
            else:
                option = parameter.opts[0]
                if option in others:
                    del others[others.index(option) : others.index(option) + 2]
                others += [option, wrong]
            yield " ".join([*named, *others]), says


WRONG = """
phantom out --size 7
import DATA --out new --ids none
fit DATA --out new --ids none
forget DATA
forget DATA --patient p1 --study s1
check-files DATA --accept
pretrain-text REPORTS --out DATA
encode MANIFEST --backbone LM --out new --grid 0
encode MANIFEST --backbone LM --out new --precision int8
train
train CONFIG --set training.batch=none
train CONFIG --set data.none=1
train CONFIG --set training.batch=9 --set training.accumulate=2
train CONFIG --set data.manifest=GONE
train CONFIG --set model.image_weights=GONE
train CONFIG --set model.text=GONE/GONE/GONE
train CONFIG --set model.text=DATA
train CONFIG --set training.device=tpu
train CONFIG --set objective.name=supervised --set objective.labels=GONE
train CONFIG --set out=FILE
train CONFIG --set out=RUN
train --resume GONE
train --init CONFIG
evaluate CHECKPOINT --data DATA --uncertain none
evaluate CHECKPOINT CHECKPOINT --data DATA
compare DATA
calibrate CHECKPOINT
gateway run
gateway run DATA
gateway check GONE
gateway held GONE
gateway results revoke GONE
gateway results approve GONE archive
evaluate CHECKPOINT --data DATA --recipe none
evaluate --recipe nih --data DATA
evaluate CHECKPOINT --recipe nih
evaluate CHECKPOINT --data DATA --recipe GONE.yaml
evaluate CHECKPOINT --data DATA --subset
index build MANIFEST --model CHECKPOINT
search INDEX --image IMAGE --image-id i
search INDEX x --where age=
classify CHECKPOINT MANIFEST IMAGE
serve CHECKPOINT --host 0.0.0.0
serve CHECKPOINT --uploads new
experiment hardneg-cclk --rows none
keys add FILE/keys name
gateway held accept FILE 3
"""
"""What else each command refuses."""

SAYS = {
    "train --set training.stepz=5": "there is no key 'training.stepz'",
    "train --set training.lr=[": "--set training.lr=[: line 1: not readable YAML: ",
    "train --config CONFIG": "pass it as an argument: cxrtext train CONFIG",
    "train CONFIG --columns a=b": "cxrtext train has no --columns: import the table first",
    "classify CHECKPOINT IMAGE --allow-outside": "put a link to the images' folder beside",
    "classify CHECKPOINT --out": "Option '--out' requires an argument.",
    "serve --read-only=yes": "Option '--read-only' does not take a value.",
    "encoders --as-json": "No such option: --as-json",
    "fit DATA --encoder GONE": "no such folder, and not a hub name such as owner/model",
    "fit DATA --encoder CheXzero": "CheXzero: is a finished pair",
    "fit DATA --encoder LM --model CHECKPOINT": "leave --encoder or --model out",
    "fit DATA --weights FILE": "--weights is now --encoder",
    "classify CHECKPOINT --as-json=3": "No such option: --as-json (Possible options: --json)",
    "ground CHECKPOINT Effusion. IMAGE": "is a file, not a sentence; give an image before",
    "classify CHECKPOINT EMPTY": "give a file: images (PNG, JPEG, DICOM), or one manifest",
    "import EMPTY --out new": "give a folder of DICOM, PNG or JPEG files",
    "import DATA --out new --split 80,20": "--split is '80,20'; give three shares such as 80,10,10",
    "import DATA --out new --hash-ids GONE": "gone: the key file cannot be read",
    "import DATA --out new --layout x": "--layout 'x' is not one that 'cxrtext import -h' lists",
    "import DATA --out new --layout nih": "no set with the layout nih",
    "check-data DATA --out page.pdf": "ends in .html or .json",
    "check-data IMAGE": "a table ends in",
    "pretrain-text REPORTS --out new --size huge": "huge",
    "pretrain-image MANIFEST --out new --image vit-narrow": "image: 'vit-narrow' is not one of",
    "pretrain-image MANIFEST --out new --resume": "holds no run to resume",
    "pretrain-image MANIFEST --out new --words-only": "every run writes words.txt",
    "score-text FILE.docx": "a file ending in .docx is not read: give .csv",
    "score-text REPORTS --model LM --a 1.5": "a is 1.5; it must lie between 0 and 1",
    "score-text REPORTS --model LM --precision float8": "precision 'float8' is not one of float32",
    "score-text REPORTS --model LM --out REPORTS": "is the input; name another file to write",
    "search INDEX": "give a query, --image or --image-id",
    "search INDEX x --where weight>3": "no column 'weight'; there are image, study_id",
    "search INDEX x --target sentences --unique study --image-weight 0": "--image-weight, --unique",
    "search INDEX --image-id a.png --target sentences --other-patients": "--other-patients: only",
    "search INDEX x -k 0": "-k",
    "index MANIFEST": "'cxrtext index build MANIFEST --model DIR --out DIR'",
    "index INDEX": "is not a command of 'cxrtext index'",
    "index build MANIFEST --out new": "with --model DIR",
    "index build --out INDEX": "give the manifest of the images, or --model DIR",
    "index delete INDEX": "Missing argument 'STUDY...'",
    "search CHECKPOINT x": "has no index; make one with 'cxrtext index build'",
    "search x --index INDEX": "--index: no such option; pass it as an argument: ",
    "classify CHECKPOINT": "has no index; make one with 'cxrtext index build'",
    "classify CHECKPOINT IMAGE --keep": "--keep takes no images",
    "ground CHECKPOINT IMAGE x --out new.jpg": "ends in .png",
    "verify CHECKPOINT IMAGE": "Missing argument 'report'",
    "verify INDEX Effusion. IMAGE": "Effusion.: no such file",
    "verify CHECKPOINT IMAGE REPORTS --out a.pdf": "ends in .csv or .html",
    "verify CHECKPOINT IMAGE IMAGE": "not UTF-8 text",
    "serve": "Missing argument 'place'",
    "serve CHECKPOINT --gateway FILE": "--gateway needs an index",
    "index build MANIFEST --model CHECKPOINT --out new --workers 2 --replace": "--replace cannot",
    "evaluate CHECKPOINT --data DATA --recipe nih --split val": "'split': the recipe sets it",
    "evaluate CHECKPOINT --data DATA --boxes FILE": "--boxes was removed: put the file into",
    "experiment table9": "there is no experiment 'table9'; there is when-it-helps: when a",
    "experiment cifar10-r": "give cifar10 with --data: an .npz of x_train",
    "experiment cifar10-r --features .": "--features: small images take none; table1 does",
    "experiment table1 --data nowhere": "nowhere: no such folder",
}
"""What else is wrong, and what is said of it."""
LINES = dict(wrong for line in VALID.strip().splitlines() for wrong in spoiled(line))
LINES |= dict.fromkeys(WRONG.strip().splitlines(), "") | SAYS
COMMANDS = sorted({line.split()[0] for line in LINES})


@pytest.fixture(scope="module")
def came(
    checkpoint: Path, index_folder: Path, data_folder: Path, language_model: Path,
    sentences_table: Path, run_folder: Path, tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """What each of the wrong commands came to, all in one folder, which nothing is written to."""
    here = tmp_path_factory.mktemp("wrong")
    (here / "file").write_text("text\n")
    for ending in ("xls", "docx"):
        (here / f"file.{ending}").write_text("text\n")
    (here / "empty").mkdir()
    (here / "config.yaml").write_text(
        f"data: {{manifest: {data_folder / 'manifest.csv'}, sentences: {sentences_table}}}\n"
        f"model: {{text: {language_model}}}\nout: run\n"
    )
    named = {
        "GONE": "gone", "FILE": "file", "FILE.xls": "file.xls", "FILE.docx": "file.docx",
        "NOTHING": "", "EMPTY": "empty",
        "CONFIG": "config.yaml", "DATA": data_folder, "MANIFEST": data_folder / "manifest.csv",
        "REPORTS": data_folder / "reports.csv", "IMAGE": data_folder / "images/s01.png",
        "LM": language_model, "CHECKPOINT": checkpoint, "INDEX": index_folder, "RUN": run_folder,
    }  # fmt: skip

    def filled(word: str) -> str:
        start, equals, value = word.rpartition("=")
        parts = [value] if value in named else value.split("/")
        return start + equals + "/".join(str(named.get(part, part)) for part in parts)

    before = sorted(here.rglob("*"))
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("refuse_commands.py")],
        input=json.dumps([[filled(word) for word in line.split()] for line in LINES]),
        capture_output=True, text=True, timeout=600, cwd=here,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(here.rglob("*")) == before
    return dict(zip(LINES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_is_refused_with_what_to_do_before_anything_heavy_is_imported(
    came: dict[str, dict[str, Any]], command: str
) -> None:
    for line, says in LINES.items():
        if line.split()[0] == command:
            found = came[line]
            said = " ".join(found["said"].split())
            assert found["code"] == 2, (line, said)
            assert "Traceback" not in said, line
            assert "rror: " in said, line
            assert says in said, line
            assert found["loaded"] == [], line


def test_every_command_is_tried() -> None:
    known = {name for entries in SECTIONS.values() for name in entries}
    assert set(COMMANDS) == known
