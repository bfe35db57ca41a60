"""``cxrtext fit --encoder``: planned, killed while films are encoded, gone on with, moved."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.border.conftest import answer, killed_once, refusal
from tests.border.test_border_project import project
from tests.commands import cxrtext as command
from tests.conftest import Once
from tests.small_backbones import write
from tests.warm import Warm

__all__ = ["project"]


@pytest.fixture(scope="session")
def encoder(once: Once) -> Path:
    def make(folder: Path) -> None:
        write(folder / "tiny-dino", "dinov2")
        (folder / "tiny-dino/README.md").write_text("---\nlicense: mit\n---\n")

    return once("border-encoder", make) / "tiny-dino"


def test_a_plan_names_the_encoder_its_licence_and_the_features(
    drawn: Path, encoder: Path, tmp_path: Path
) -> None:
    done = command("fit", drawn, "--encoder", encoder, "--out", tmp_path / "project", "--plan")
    assert "its licence: mit" in done.stderr
    assert f"image encoder {encoder} at 28 px, as it is" in done.stdout
    assert "features" in done.stdout
    assert "image encoder  " not in done.stdout
    assert not (tmp_path / "project").exists()
    assert "--encoder" in command("fit", drawn, "--out", tmp_path / "project", "--plan").stderr


def test_what_is_no_encoder_is_refused_before_a_folder_is_made(
    drawn: Path, encoder: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(encoder, bad)
    (bad / "model.safetensors").write_bytes(b"x")
    for given in ("no-such-folder", bad, drawn):
        refusal("fit", drawn, "--encoder", given, "--out", tmp_path / "project")
    assert not (tmp_path / "project").exists()


@pytest.mark.slow
def test_films_pass_the_encoder_once_and_the_project_is_moved_and_searched(
    drawn: Path, project: Path, encoder: Path, tmp_path: Path, warm: Warm
) -> None:
    new, out = tmp_path / "new", tmp_path / "project"
    killed_once(warm, new / "recipe.yaml", "fit", drawn, "--out", new, "--encoder", encoder)
    chosen = yaml.safe_load((new / "recipe.yaml").read_text("utf-8"))
    # The rest of the work is that of a project that is there, whose recipe is changed.
    shutil.copytree(project, out)
    recipe = yaml.safe_load((out / "recipe.yaml").read_text("utf-8"))
    recipe["image_encoder"] = chosen["image_encoder"]
    (out / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), "utf-8")

    killed_once(warm, out / "features/job.json", "fit", out)
    begun = (out / "features/job.json").read_bytes()
    done = command("fit", out)
    assert (out / "features/job.json").read_bytes() == begun  # gone on with
    assert "72 films; the encoder's licence: mit" in done.stderr
    config = json.loads((out / "run/checkpoint-best/config.json").read_text("utf-8"))
    assert config["backbone"]["name"] == "tiny-dino"
    assert config["backbone"]["licence"] == "mit"

    moved = out.rename(tmp_path / "moved")
    assert "again" not in command("fit", moved).stderr
    assert len(answer("search", moved, "Left pleural effusion.", "-k", 5)) == 5
    alone = shutil.copytree(moved / "run/checkpoint-best", tmp_path / "alone")
    shutil.rmtree(moved / "encoder")
    assert answer("classify", alone, drawn / "images/s000001.png")
