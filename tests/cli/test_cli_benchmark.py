"""``cxrtext evaluate --recipe`` as a user meets it."""

import json
from pathlib import Path

from cxrtext.evaluation.recipes import load_recipe, recipe_names
from tests.cli.conftest import Refused, cxrtext
from tests.evaluation.recipes.test_recipe_runs import imported


def test_recipes_are_shown_and_named(refused: Refused) -> None:
    shown = cxrtext("evaluate", "--recipe", "rsna").stdout
    assert shown == load_recipe("rsna").text
    assert ", ".join(recipe_names()) in refused("evaluate", "--recipe", "none")


def test_a_wrong_list_is_refused_and_can_be_tried(
    refused: Refused, checkpoint: Path, tmp_path: Path
) -> None:
    data, _ = imported(tmp_path)
    command = ("evaluate", checkpoint, "--recipe", "nih", "--data", data, "--no-sentences")
    line = refused(*command, "--out", tmp_path / "out")
    assert line.startswith(
        "nih: manifest lists 10 images, and not the 25,596 of the official test_list.txt. "
    )
    assert not (tmp_path / "out").exists()
    done = cxrtext(*command, "--out", tmp_path / "out", "--subset")
    assert "NOT THE BENCHMARK: manifest lists 10 images, and not the 25,596" in done.stdout
    assert json.loads((tmp_path / "out/recipe.json").read_text())["benchmark"] is False
