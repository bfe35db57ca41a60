"""``cxrtext benchmark`` as a user meets it."""

import json
from pathlib import Path

from cxrtext.evaluation.recipes import load_recipe, recipe_names
from tests.cli.conftest import Refused, cxrtext
from tests.evaluation.recipes.test_recipe_runs import imported


def test_recipes_are_listed_and_shown() -> None:
    listed = cxrtext("benchmark").stdout.splitlines()
    assert [line.split()[0] for line in listed[2:]] == list(recipe_names())
    assert "25,596" in next(line for line in listed if line.startswith("nih "))
    shown = cxrtext("benchmark", "rsna").stdout
    assert shown == load_recipe("rsna").text


def test_a_wrong_list_is_refused_and_can_be_tried(
    refused: Refused, checkpoint: Path, tmp_path: Path
) -> None:
    data, _ = imported(tmp_path)
    command = ("benchmark", "nih", checkpoint, "--data", data, "--no-pictures")
    line = refused(*command, "--out", tmp_path / "out")
    assert line.startswith(
        "nih: manifest lists 10 images, and not the 25,596 of the official test_list.txt. "
    )
    assert not (tmp_path / "out").exists()
    done = cxrtext(*command, "--out", tmp_path / "out", "--subset")
    assert "NOT THE BENCHMARK: manifest lists 10 images, and not the 25,596" in done.stdout
    assert json.loads((tmp_path / "out/recipe.json").read_text())["benchmark"] is False
