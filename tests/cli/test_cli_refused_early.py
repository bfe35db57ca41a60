"""Wrong paths and options are refused before what computes is imported, by every command."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cxrtext_cli.main import SECTIONS
from tests.models.feature_folders import drawn_regions, write_feature_folder

WRONG = """
demo --out FILE
phantom out --size 7
phantom FILE
import GONE --out new
import DATA --out new --reports GONE
import DATA --out new --boxes GONE
import DATA --out new --layout other
import DATA --out new --split 1,2
import DATA --out new --hash-ids GONE
import DATA --out new --merged-patients GONE
import DATA --out new --same-images none
import DATA --out FILE
check-data GONE
check-data DATA --out page.pdf
check-data DATA --reports GONE
check-data DATA --labels GONE
check-data DATA --boxes GONE
check-data DATA --cache DATA
backup EMPTY --out new
backup INDEX --out FILE
backup INDEX --out DATA
backup INDEX --out new --keys GONE
restore GONE --out new
restore FILE --out new
restore EMPTY --out FILE
restore EMPTY --out DATA
forget GONE --patient p1
forget FILE --patient p1
forget DATA
forget DATA --patient p1 --study s1
forget DATA --patient p1 --log DATA
check-files GONE
check-files FILE
check-files DATA --accept
pretrain-text GONE --out new
pretrain-text REPORTS --out FILE
pretrain-text REPORTS --out DATA
pretrain-text REPORTS --out new --size huge
pretrain-text REPORTS --out new --section none
pretrain-text REPORTS --out new --device tpu
pretrain-text REPORTS --out new --base GONE/GONE/GONE
pretrain-image GONE --out new
pretrain-image MANIFEST --out FILE
pretrain-image MANIFEST --out new --image vit
pretrain-image MANIFEST --out new --words GONE
pretrain-image MANIFEST --out new --resume
pretrain-image MANIFEST --out new --device tpu
encode GONE --backbone DATA --out new
encode DATA --backbone DATA --out new
encode MANIFEST --backbone GONE --out new
encode MANIFEST --backbone DATA --out new
encode MANIFEST --backbone LM
encode MANIFEST --backbone LM --out FILE
encode MANIFEST --backbone LM --out new --grid 0
encode MANIFEST --backbone LM --out new --precision int8
encode MANIFEST --backbone LM --out new --part 3/2
encode MANIFEST --backbone LM --out new --cache FILE
encode MANIFEST --backbone LM --out new --device tpu
probe GONE --data DATA
probe DATA --data DATA
probe FEATURES
probe FEATURES --data GONE
probe FEATURES --data EMPTY
probe FEATURES --data DATA --labels GONE
probe FEATURES --data DATA --out FILE
probe FEATURES --data DATA --export new.csv
probe FEATURES --data DATA --export EMPTY
probe FEATURES --data DATA --uncertain none
score-text GONE
score-text FILE.xlsx
score-text REPORTS --model GONE/GONE/GONE
score-text REPORTS --model DATA
score-text REPORTS --model LM --out new.txt
score-text REPORTS --model LM --out REPORTS
score-text REPORTS --model LM --out new.csv --tokens new.csv
score-text REPORTS --model LM --out new.csv --a 2
score-text REPORTS --model LM --out new.csv --section none
score-text REPORTS --model LM --out new.csv --precision float8
score-text REPORTS --model LM --out new.csv --plot new.txt
score-text REPORTS --model LM --out new.csv --device tpu
score-text REPORTS --model LM --out FILE/new.csv
train GONE
train
train CONFIG --set training.batch=none
train CONFIG --set data.none=1
train CONFIG --set training.batch=9 --set training.accumulate=2
train CONFIG --set data.manifest=GONE
train CONFIG --set data.sentences=GONE
train CONFIG --set model.image_weights=GONE
train CONFIG --set model.text=GONE/GONE/GONE
train CONFIG --set model.text=DATA
train CONFIG --set training.prompts=GONE
train CONFIG --set training.device=tpu
train CONFIG --set objective.name=supervised --set objective.labels=GONE
train CONFIG --set out=FILE
train CONFIG --set out=RUN
train --resume GONE
train --init CONFIG
evaluate GONE --data DATA
evaluate DATA --data DATA
evaluate CHECKPOINT --data GONE
evaluate CHECKPOINT --data EMPTY
evaluate CHECKPOINT --data DATA --prompts GONE
evaluate CHECKPOINT --data DATA --prompts REPORTS
evaluate CHECKPOINT --data DATA --boxes GONE
evaluate CHECKPOINT --data DATA --average none
evaluate CHECKPOINT --data DATA --uncertain none
evaluate CHECKPOINT --data DATA --split none
evaluate CHECKPOINT --data DATA --device tpu
evaluate CHECKPOINT --data DATA --out FILE
evaluate CHECKPOINT --data DATA --cache FILE
evaluate CHECKPOINT --data DATA --export new.csv
evaluate CHECKPOINT CHECKPOINT --data DATA --compare --export new.npz
evaluate CHECKPOINT --data DATA --compare
evaluate CHECKPOINT CHECKPOINT --data DATA
evaluate CHECKPOINT CHECKPOINT --data DATA --compare --calibrate
pull archive
pull archive --from 2005-01-01 --to 2004-13-01 --out new
pull archive --from 2005-01-01 --to 2005-12-31 --out FILE
pull archive --from 2005-01-01 --to 2005-12-31 --out new --peers GONE
follow archive
follow archive --inbox FILE
follow archive --inbox new --peers GONE
listen
listen FILE
listen new --index GONE
listen new --peers GONE
benchmark none CHECKPOINT --data DATA
benchmark nih --data DATA
benchmark nih CHECKPOINT
benchmark nih GONE --data DATA
benchmark nih CHECKPOINT --data GONE
benchmark nih CHECKPOINT --data DATA --out FILE
benchmark nih CHECKPOINT --data DATA --device tpu
benchmark GONE.yaml CHECKPOINT --data DATA
index MANIFEST --model CHECKPOINT --out new
index build GONE --model CHECKPOINT --out new
index build DATA --model CHECKPOINT --out new
index build MANIFEST --model GONE --out new
index build MANIFEST --model CHECKPOINT
index build MANIFEST --out new
index build MANIFEST --model CHECKPOINT --out FILE
index build MANIFEST --model CHECKPOINT --out new --reports GONE
index build MANIFEST --model CHECKPOINT --out new --prompts GONE
index build MANIFEST --model CHECKPOINT --out new --cache FILE
index build MANIFEST --model CHECKPOINT --out new --device tpu
index build GONE --out INDEX
index build MANIFEST --model GONE --out INDEX
index build --out new
index build --model GONE --out new
index check EMPTY
index compact EMPTY
index rebuild EMPTY
index rebuild INDEX --model GONE
index rebuild INDEX --cache FILE
index export EMPTY --out new
index export INDEX --out DATA
index delete EMPTY s01
index delete INDEX
index delete INDEX --from GONE
index move INDEX GONE
search x --index GONE
search x --index EMPTY
search --index INDEX
search x --index INDEX --image GONE
search --index INDEX --image IMAGE --image-id i
search x --index INDEX --model GONE
search x --index INDEX --out FILE/new.csv
search x --index INDEX --out EMPTY
search x --index INDEX --device tpu
search x --index INDEX --where age=
search x --index INDEX --other-patients
search ... --index INDEX
classify GONE --model CHECKPOINT
classify IMAGE --model GONE
classify IMAGE --model DATA
classify IMAGE
classify IMAGE --model CHECKPOINT --prompts GONE
classify IMAGE --model CHECKPOINT --out EMPTY
classify IMAGE --model CHECKPOINT --out DATA/labels.csv
classify IMAGE --model CHECKPOINT --out DATA/boxes.csv
classify IMAGE --model CHECKPOINT --keep
classify IMAGE --model CHECKPOINT --device tpu
classify IMAGE --index INDEX
classify --index GONE
classify MANIFEST IMAGE --model CHECKPOINT
ground GONE x --model CHECKPOINT
ground IMAGE x --model GONE
ground IMAGE x --model CHECKPOINT --out new.jpg
ground IMAGE x --model CHECKPOINT --out FILE/new.png
ground IMAGE ... --model CHECKPOINT
ground IMAGE x --model CHECKPOINT --device tpu
verify GONE REPORTS --model CHECKPOINT
verify IMAGE GONE --model CHECKPOINT
verify IMAGE --model CHECKPOINT
verify IMAGE REPORTS
verify IMAGE REPORTS --model GONE
verify IMAGE REPORTS --index GONE
verify IMAGE REPORTS --model CHECKPOINT --out new.pdf
verify --data GONE --model CHECKPOINT
verify --data DATA --model CHECKPOINT --wording none
verify --data DATA --model CHECKPOINT --split none
verify --data DATA --model CHECKPOINT --out new.html
verify --data DATA --model CHECKPOINT --cache FILE
verify IMAGE REPORTS --data DATA --model CHECKPOINT
verify IMAGE REPORTS --model CHECKPOINT --device tpu
serve
serve --model GONE
serve --model DATA
serve --index GONE
serve --model CHECKPOINT --prompts GONE
serve --model CHECKPOINT --host 0.0.0.0
serve --model CHECKPOINT --cors-origin x
serve --model CHECKPOINT --uploads FILE
serve --model CHECKPOINT --uploads new
serve --model CHECKPOINT --audit-log EMPTY
serve --model CHECKPOINT --device tpu
experiment none
experiment table1 --scale huge
experiment table1 --scale paper
experiment table1 --data GONE
experiment table1 --rows none
experiment table1 --out FILE
experiment hardneg-cclk --scale huge
experiment hardneg-cclk --rows none
experiment hardneg-cclk --out FILE
experiment cifar10-r
experiment fair-cclk --data GONE
peers check
peers check archive --peers GONE
peers check archive --peers DATA
hl7 listen
hl7 listen FILE
hl7 listen new --charset none
hl7 listen new --host 0.0.0.0
hl7 listen new --allow =name
inbox work GONE --index INDEX
inbox work EMPTY --index GONE
inbox status GONE
inbox status EMPTY
inbox retry GONE
inbox retry EMPTY
results IMAGE --sentence x --model CHECKPOINT
results GONE --sentence x --model CHECKPOINT --out new
results IMAGE --sentence x --model GONE --out new
results IMAGE --sentence x --out new
results IMAGE --model CHECKPOINT --out new
results IMAGE --sentence ... --model CHECKPOINT --out new
results IMAGE --sentence x --model CHECKPOINT --out FILE
results IMAGE --sentence x --model CHECKPOINT --out new --as pdf
results IMAGE --sentence x --model CHECKPOINT --out new --send archive --peers GONE
results IMAGE --sentence x --model CHECKPOINT --out new --prompts GONE
results IMAGE --sentence x --model CHECKPOINT --out new --device tpu
results list --out GONE
results list --out EMPTY
results send archive --out EMPTY --peers GONE
results revoke --all --out EMPTY
results revoke --out GONE
results answer --index GONE --out new --peers FILE
results answer --index INDEX --out new --peers GONE
job embed GONE --model CHECKPOINT --out new
job embed MANIFEST --model GONE --out new
job embed MANIFEST --model CHECKPOINT
job embed MANIFEST --model CHECKPOINT --out FILE
job embed MANIFEST --model CHECKPOINT --out new --device tpu
job score GONE --model LM --out new
job score REPORTS --model GONE/GONE/GONE --out new
job decode GONE --out new
job decode MANIFEST --out FILE
job status GONE
job status EMPTY
job finish GONE --out new
job finish EMPTY --out new
keys add FILE/keys name
keys list GONE
keys revoke GONE name
"""

SAYS = {
    "train --set training.stepz=5": "there is no key 'training.stepz'",
    "train --set training.lr=[": "--set training.lr=[: line 1: not readable YAML: ",
    "train --config CONFIG": "--config is no option; give it without: cxrtext train CONFIG",
    "classify IMAGE --model": "Option '--model' requires an argument.",
    "serve --read-only=yes": "Option '--read-only' does not take a value.",
    "classify IMAGE --as-json=3": "No such option: --as-json (Possible options: --json)",
    "index build --manifest MANIFEST": "give it without: cxrtext index build MANIFEST",
    "verify IMAGE Nothing.": "Nothing.: no such file; give one with the report's text, or - and",
    "ground Effusion. IMAGE --model CHECKPOINT": "is a file, where a sentence is to be; an image",
    "search IMAGE --index INDEX": "is a file, where a sentence is to be",
    "classify IMAGE --model RUN": "give one of those in it, such as ",
    "classify EMPTY --model CHECKPOINT": "give a file: images (PNG, JPEG, DICOM), or one manifest",
    "import EMPTY --out new": "give a table with the columns image and study_id",
}
"""What else is wrong, and what is said of it."""
LINES = [*WRONG.strip().splitlines(), *SAYS]


@pytest.fixture(scope="module")
def came(
    checkpoint: Path, index_folder: Path, data_folder: Path, language_model: Path,
    sentences_table: Path, run_folder: Path, tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """What each of the wrong commands came to, all in one folder, which nothing is written to."""
    here = tmp_path_factory.mktemp("wrong")
    (here / "file").write_text("text\n")
    (here / "file.xlsx").write_text("text\n")
    (here / "empty").mkdir()
    (here / "config.yaml").write_text(
        f"data: {{manifest: {data_folder / 'manifest.csv'}, sentences: {sentences_table}}}\n"
        f"model: {{text: {language_model}}}\nout: run\n"
    )
    named = {
        "GONE": "gone", "FILE": "file", "FILE.xlsx": "file.xlsx", "EMPTY": "empty",
        "CONFIG": "config.yaml", "DATA": data_folder, "MANIFEST": data_folder / "manifest.csv",
        "REPORTS": data_folder / "reports.csv", "IMAGE": data_folder / "images/s01.png",
        "LM": language_model, "CHECKPOINT": checkpoint, "INDEX": index_folder, "RUN": run_folder,
        "FEATURES": write_feature_folder(here / "features", drawn_regions(4, 1, 2, 3), "abcd"),
    }  # fmt: skip

    def filled(word: str) -> str:
        start, equals, value = word.rpartition("=")
        parts = [value] if value in named else value.split("/")
        return start + equals + "/".join(str(named.get(part, part)) for part in parts)

    lines = LINES
    before = sorted(here.rglob("*"))
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("refuse_commands.py")],
        input=json.dumps([[filled(word) for word in line.split()] for line in lines]),
        capture_output=True, text=True, timeout=600, cwd=here,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(here.rglob("*")) == before
    return dict(zip(lines, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("line", LINES)
def test_is_refused_before_anything_heavy_is_imported(
    came: dict[str, dict[str, Any]], line: str
) -> None:
    found = came[line]
    assert found["code"] == 2, found["said"]
    assert "Traceback" not in found["said"]
    assert "rror: " in found["said"]
    assert found["loaded"] == []


@pytest.mark.parametrize("line", SAYS)
def test_what_is_wrong_is_said_with_what_to_do(came: dict[str, dict[str, Any]], line: str) -> None:
    assert SAYS[line] in " ".join(came[line]["said"].split())


def test_every_command_is_tried() -> None:
    known = {name for entries in SECTIONS.values() for name in entries}
    tried = {line.split()[0] for line in WRONG.strip().splitlines()}
    assert tried == known
