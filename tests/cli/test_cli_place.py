"""A project's folder, a checkpoint or an index as the first argument of the commands."""

import json
import shutil
from pathlib import Path

import pytest

from cxrtext.project.layout import CHECKPOINT, DATA, DECODED, INDEX, RECIPE
from tests.cli.conftest import Refused, cxrtext

PROMPTS = "Pneumothorax: {positive: Right pneumothorax., negative: The lungs are clear.}\n"


@pytest.fixture(scope="module")
def project(
    checkpoint: Path,
    data_folder: Path,
    index_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A project that was moved here: its index notes a checkpoint elsewhere."""
    folder = tmp_path_factory.mktemp("made") / "project"
    parts = {CHECKPOINT: checkpoint, DATA: data_folder, INDEX: index_folder}
    for name, made in parts.items():
        shutil.copytree(made, folder / name)
    (folder / RECIPE).write_text("")
    return folder


def test_every_command_takes_a_project(project: Path, tmp_path: Path) -> None:
    image = project / DATA / "images/s01.png"
    hits = json.loads(cxrtext("search", project, "Left pleural effusion.", "--json").stdout)
    assert len(hits) == 10
    (row,) = json.loads(cxrtext("classify", project, image, "--json").stdout)
    whole = json.loads(cxrtext("classify", project, "--json").stdout)
    assert {one["image"]: one["Edema"] for one in whole}["images/s01.png"] == pytest.approx(
        row["Edema"], abs=1e-3
    )
    assert row["flagged"] == {}
    cxrtext("ground", project, image, "Effusion.", "--out", tmp_path / "map.png")
    assert (tmp_path / "map.png").is_file()
    assert "Effusion." in cxrtext("verify", project, image, "-", text=b"Effusion.").stdout
    assert "split 'test'" in cxrtext("evaluate", project).stdout
    assert (project / DECODED).is_dir()


def test_what_is_calibrated_is_asked_of_the_checkpoint_from_then_on(
    project: Path, tmp_path: Path
) -> None:
    mine = shutil.copytree(project, tmp_path / "project")
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text(PROMPTS)
    cxrtext("calibrate", mine, "--prompts", prompts)
    done = cxrtext("classify", mine, mine / DATA / "images/s02.png", "--json")
    (row,) = json.loads(done.stdout)
    assert set(row) == {"image", "Pneumothorax", "flagged", "threshold of", "unlike"}
    assert set(row["flagged"]) == {"Pneumothorax"}
    assert "calibrated: Pneumothorax" in done.stderr
    labels = json.loads(cxrtext("classify", mine, "--json").stdout)
    columns = {"image", "study_id", "patient_id", "Pneumothorax", "not calibrated"}
    assert set(labels[0]) == columns
    assert not labels[0]["not calibrated"]
    found = json.loads(cxrtext("evaluate", mine, "--json").stdout)
    measured = {one["group"] for one in found["results"] if one["measure"] == "AUC"}
    assert measured == {"Pneumothorax", "mean"}
    kept = json.loads((mine / CHECKPOINT / "calibration.json").read_text())
    cxrtext("calibrate", mine)
    assert json.loads((mine / CHECKPOINT / "calibration.json").read_text()) == kept


def test_an_index_whose_checkpoint_moved(
    refused: Refused, checkpoint_copy: Path, index_copy: Path, tmp_path: Path
) -> None:
    gone, home = checkpoint_copy, tmp_path / "home"
    noted = ("index", "build", "--out", index_copy, "--model")
    done = cxrtext(*noted, gone)
    assert f"48 images; their model is noted at {gone}" in done.stdout
    gone.rename(home)
    said = refused("search", index_copy, "Effusion.")
    assert f"no longer at '{gone}'; 'cxrtext index build --model DIR --out {index_copy}'" in said
    assert "no longer at" in refused("serve", index_copy)
    cxrtext(*noted, home)
    cxrtext("search", index_copy, "Effusion.")


def test_a_project_without_a_model_says_how_to_go_on(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / RECIPE).write_text("")
    assert "the project has no model yet; 'cxrtext fit'" in refused("search", tmp_path, "x")


def test_a_folder_above_a_checkpoint_names_the_best_one_in_it(
    refused: Refused, checkpoint: Path, language_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(language_model, tmp_path / "z")
    for name in ("checkpoint", "checkpoint-best"):
        shutil.copytree(checkpoint, tmp_path / "run" / name)
    for folder in (tmp_path, tmp_path / "run"):
        said = refused("classify", folder)
        assert f"give one of those in it, such as {tmp_path}/run/checkpoint-best" in said
