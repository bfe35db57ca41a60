import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from cxrtext.evaluation.how_good import HowGood
from cxrtext.models import load_model
from cxrtext_cli.gone import gone
from cxrtext_cli.main import main
from tests.cli.conftest import Refused, cxrtext
from tests.conftest import read_csv


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['cxrtext', '--help']\n"
        "from cxrtext_cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'transformers', 'faiss', 'fastapi', 'pydicom', 'pyarrow'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert "HEAVY []" in done.stdout


def test_where_memory_ends_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB."))
    monkeypatch.setattr("cxrtext_cli.main.app", ended)
    monkeypatch.setattr("cxrtext_cli.ending.signal.signal", Mock())
    with pytest.raises(SystemExit, match="1"):
        main()
    said = "error: the memory of the GPU is used up; stop other programs, or use smaller batches"
    assert capsys.readouterr().err.splitlines() == [said]


def completing(*arguments: str, **variables: str) -> str:
    command = [str(Path(sys.executable).with_name("cxrtext")), *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment).stdout


def test_short_help_and_shell_completion() -> None:
    for command in ((), ("keys",), ("keys", "add"), ("train",)):
        assert cxrtext(*command, "-h").stdout == cxrtext(*command, "--help").stdout
    for shell in ("bash", "zsh", "fish"):
        shown = completing(
            "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
        )
        assert "_CXRTEXT_COMPLETE" in shown
    typed = {"_CXRTEXT_COMPLETE": "complete_bash", "COMP_WORDS": "cxrtext sc", "COMP_CWORD": "1"}
    assert completing(**typed).split() == ["score-text"]


def test_classify_file_and_manifest(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    one = cxrtext("classify", checkpoint, data_folder / "images/s01.png", "--json")
    (row,) = json.loads(one.stdout)
    assert 0 <= row["Pneumothorax"] <= 1
    out = tmp_path / "p.csv"
    cxrtext("classify", checkpoint, data_folder / "manifest.csv", "--out", out)
    rows = read_csv(out)
    assert len(rows) == 48
    assert float(rows[1]["Pneumothorax"]) == pytest.approx(row["Pneumothorax"], abs=1e-4)


def test_train_init(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cxrtext("train", "--init")
    assert "objective:" in (tmp_path / "cxrtext.yaml").read_text()
    assert "cxrtext.yaml: exists already" in refused("train", "--init")
    cxrtext("train", "--init", "ssd-mimic-cxr.yaml")
    assert "steps: 100000" in (tmp_path / "ssd-mimic-cxr.yaml").read_text()


def test_an_unreachable_hub_names_the_two_ways_out(tmp_path: Path, data_folder: Path) -> None:
    done = cxrtext("score-text", data_folder / "reports.csv", "--out", tmp_path / "s.csv", code=1)
    assert "error: " in done.stderr
    assert "BiomedVLP-CXR-BERT-general" in done.stderr
    assert "pass the path" in done.stderr
    assert "cxrtext pretrain-text" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    ["search PLACE TEXT", "search PLACE x --not TEXT", "search PLACE x --where TEXT",
     "ground PLACE IMAGE TEXT", "index delete PLACE TEXT", "keys add PLACE TEXT"],
)  # fmt: skip
def test_text_that_is_not_utf8_is_refused(words: str, refused: Refused, index_folder: Path) -> None:
    places = {"PLACE": index_folder, "TEXT": os.fsdecode(b"Erg\xfcsse."), "IMAGE": __file__}
    said = refused(*(places.get(word, word) for word in words.split()))
    assert said.startswith(r"'Erg\xfcsse.' is not UTF-8")


def test_a_path_may_have_any_bytes(
    data_folder: Path, checkpoint_copy: Path, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"Erg\xfcsse")
    shutil.copytree(data_folder, odd / "data")
    data, model = odd / "data", checkpoint_copy
    cxrtext("check-data", data)
    cxrtext("import", data, "--out", odd / "imported")
    cxrtext("label-reports", data / "reports.csv", "--out", odd / "labels.csv")
    cxrtext("evaluate", model, "--data", data, "--out", tmp_path / "evaluation")
    cxrtext("classify", model, data / "images/s01.png", "--json")
    cxrtext("ground", model, data / "images/s01.png", "Effusion.", "--out", odd / "a.png")
    manifest = data / "manifest.csv"  # whose place an index notes as text
    done = cxrtext("index", "build", manifest, "--model", model, "--out", odd / "index", code=2)
    assert done.stderr.rstrip().endswith("not UTF-8; rename the folder or file")


def test_commands_say_that_a_model_is_at_chance_or_was_never_measured(
    checkpoint_copy: Path, data_folder: Path, image: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    built = ("index", "build", data_folder / "manifest.csv", "--model", checkpoint_copy)
    asked = (
        (*built, "--out", index),
        ("search", index, "Left pleural effusion."),
        ("classify", checkpoint_copy, image),
        ("classify", index),
    )
    unknown = HowGood(fingerprint=load_model(checkpoint_copy).fingerprint)
    for warning, kept in (
        (unknown.warning, None),
        ("This model is at chance.", {"at_chance": True, "warning": "This model is at chance."}),
        ("", {"warning": ""}),
    ):
        if kept is not None:
            unknown.model_copy(update={"measured": True, **kept}).save(checkpoint_copy)
        for command in asked:
            said = cxrtext(*command).stderr.splitlines()
            assert said.count(warning) == (1 if warning else 0), command
            assert sum("This model" in line for line in said) == (1 if warning else 0), command


def test_a_command_that_is_gone_says_what_became_of_it(refused: Refused) -> None:
    for name, became in gone().items():
        if "--" not in name:
            assert refused(*name.split(), "x", "--any") == f"'cxrtext {name}' {became}"


def test_what_became_of_an_option_is_said(refused: Refused) -> None:
    assert refused("fit", "x", "--weights", "half") == f"--weights {gone()['fit --weights']}"
