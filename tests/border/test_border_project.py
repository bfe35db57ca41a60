"""``cxrtext fit``: planned, killed, changed, resumed; its project searched and opened."""

from pathlib import Path

import pytest
import yaml

import cxrtext
from tests.border.conftest import answer, killed_once, refusal, tree
from tests.commands import cxrtext as command
from tests.conftest import Once
from tests.warm import Warm


@pytest.fixture(scope="session")
def project(drawn: Path, warm: Warm, once: Once) -> Path:
    """A project whose ``fit`` was killed, given a recipe of seconds, and run again."""

    def make(folder: Path) -> None:
        out = folder / "project"
        recipe = out / "recipe.yaml"
        killed_once(warm, recipe, "fit", drawn, "--out", out)
        changed = yaml.safe_load(recipe.read_text("utf-8"))
        changed["language_model"]["epochs"] = changed["image_encoder"]["epochs"] = 1
        few = {"steps": 8, "validate_every": 8, "save_every": 8, "batch": 16, "warmup": 2}
        dropped = "unlock", "unlocked_lr"
        kept = {k: v for k, v in changed["train"]["training"].items() if k not in dropped}
        changed["train"]["training"] = {**kept, **few}
        changed["learning_curve"] = False
        recipe.write_text(yaml.safe_dump(changed, sort_keys=False), "utf-8")
        command("fit", out)

    return once("border-project", make) / "project"


def test_a_plan_starts_nothing(drawn: Path, tmp_path: Path) -> None:
    done = command("fit", drawn, "--out", tmp_path / "project", "--plan")
    assert "training" in done.stdout + done.stderr
    assert not (tmp_path / "project").exists()


def test_a_fitted_project_is_searched_and_says_how_good_it_is(project: Path) -> None:
    hits = answer("search", project, "Left pleural effusion.", "-k", 5)
    assert len(hits) == 5
    with cxrtext.open(project) as opened:
        assert len(opened.search("Left pleural effusion.", k=5)) == 5
        assert opened.summary


def test_a_finished_project_does_nothing_again(project: Path) -> None:
    kept = "run/checkpoint-best/model.safetensors"
    before = (project / kept).stat().st_mtime_ns
    command("fit", project)
    assert (project / kept).stat().st_mtime_ns == before


def test_a_wrong_recipe_is_refused_with_its_key_and_removes_nothing(
    project: Path, tmp_path: Path
) -> None:
    before = tree(project)
    recipe = project / "recipe.yaml"
    right = recipe.read_text("utf-8")
    try:
        recipe.write_text(right.replace("epochs: 1", "epochs: soon", 1), "utf-8")
        assert "epochs" in refusal("fit", project)
    finally:
        recipe.write_text(right, "utf-8")
    assert tree(project) == before


def test_an_archive_without_reports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    refusal("fit", tmp_path / "films", "--out", tmp_path / "project")
    assert not (tmp_path / "project/run").exists()
