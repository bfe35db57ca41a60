"""The commands say what is unlike the data that the model was trained on."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.models.familiar import FAMILIAR
from tests.cli.conftest import cxrtext
from tests.conftest import read_csv


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "blank.png"
    Image.fromarray(np.full((80, 80), 128, np.uint8)).save(path)
    return path


def test_classify_says_which_images_are_unlike(
    checkpoint: Path, data_folder: Path, blank: Path, tmp_path: Path
) -> None:
    own, out = data_folder / "images/s00.png", tmp_path / "p.csv"
    done = cxrtext("classify", checkpoint, own, blank, "--json", "--out", out)
    flags = [row["unlike"]["flagged"] for row in json.loads(done.stdout)]
    assert flags == [False, True]
    said = [line for line in done.stderr.splitlines() if "unlike" in line]
    assert said == [
        f"{blank}: is unlike those that the model was trained on; its answers mean little"
    ]
    assert [row["unlike"] for row in read_csv(out)] == ["no", "yes"]


def test_ground_and_verify_say_it_of_image_and_sentence(
    checkpoint: Path, blank: Path, tmp_path: Path
) -> None:
    over = ("--out", tmp_path / "o.png")
    done = cxrtext("ground", checkpoint, blank, "asdf qwerty", *over)
    assert "is unlike those" in done.stderr
    assert "the sentence: resembles nothing" in done.stderr
    found = json.loads(cxrtext("ground", checkpoint, blank, "Effusion.", *over, "--json").stdout)
    assert found["unlike"]["flagged"]
    assert not found["unlike_sentence"]["flagged"]
    assert found["stands_out"] == (max(map(max, found["grid"])) > found["limits"][0])
    report = b"FINDINGS: The lungs are clear. The stock market fell."
    done = cxrtext("verify", checkpoint, blank, "-", text=report)
    assert "is unlike those" in done.stderr
    assert "sentence 2: resembles nothing" in done.stderr
    assert "sentence 1" not in done.stderr
    found = json.loads(cxrtext("verify", checkpoint, blank, "-", "--json", text=report).stdout)
    assert found["unlike"]["flagged"]
    assert [one["unlike"]["flagged"] for one in found["sentences"]] == [False, True]


def test_search_and_ground_say_how_they_read_a_sentence(
    judged_checkpoint: Path, index_copy: Path, data_folder: Path, tmp_path: Path
) -> None:
    cxrtext("index", "build", "--model", judged_checkpoint, "--out", index_copy)
    search = ("search", index_copy, "R PTX")
    typed, as_written = cxrtext(*search), cxrtext(*search, "--as-written")
    assert "read as: Right pneumothorax" in typed.stderr
    assert "verify" not in typed.stderr
    assert "read as" not in as_written.stderr
    unknown = cxrtext("search", index_copy, "Gout.")
    assert "verify would not judge this sentence: it names no finding" in unknown.stderr
    assert typed.stdout != as_written.stdout
    image, out = data_folder / "images/s01.png", tmp_path / "o.png"
    ground = ("ground", judged_checkpoint, image, "R PTX", "--out", out, "--json")
    done = cxrtext(*ground)
    assert "read as: Right pneumothorax" in done.stderr
    assert json.loads(done.stdout)["read_as"] == "Right pneumothorax"
    assert json.loads(cxrtext(*ground, "--as-written").stdout)["read_as"] is None


def test_a_checkpoint_that_does_not_know_what_is_familiar_says_so(
    checkpoint_copy: Path, blank: Path
) -> None:
    (checkpoint_copy / FAMILIAR).unlink()
    done = cxrtext("classify", checkpoint_copy, blank)
    assert "not known" in done.stdout
    assert "unlike those" not in done.stderr
