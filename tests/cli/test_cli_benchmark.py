"""``cxrtext benchmark`` as a user meets it."""

import json
from pathlib import Path

import yaml

from cxrtext.evaluation.recipes import load_recipe, recipe_names
from cxrtext.evaluation.recipes.lists import digest_of_names
from tests.cli.conftest import Refused, cxrtext
from tests.evaluation.recipes.test_recipe_runs import nih


def own_recipe(path: Path, names: list[str]) -> Path:
    tree = yaml.safe_load(load_recipe("nih").text) | {"expected": {}}
    tree["images"]["known"] = [
        {"title": "ours", "count": len(names), "sha256": digest_of_names(names), "source": "us"}
    ]
    tree["prompts"]["findings"] = {"Pleural Effusion": "pleural effusion"}
    path.write_text(yaml.safe_dump(tree))
    return path


def test_recipes_are_listed_and_shown() -> None:
    listed = cxrtext("benchmark").stdout.splitlines()
    assert [line.split()[0] for line in listed[2:]] == list(recipe_names())
    assert "25,596" in next(line for line in listed if line.startswith("nih "))
    shown = cxrtext("benchmark", "rsna").stdout
    assert shown == load_recipe("rsna").text


def test_a_set_is_measured(checkpoint: Path, tmp_path: Path) -> None:
    names = nih(tmp_path / "set")
    recipe = own_recipe(tmp_path / "own.yaml", names)
    command = ("benchmark", recipe, checkpoint, "--data", tmp_path / "set", "--no-pictures")
    done = cxrtext(*command, "--out", tmp_path / "out")
    lines = done.stdout.splitlines()
    assert lines[1] == "list: 10 images in test_list.txt: ours, by digest"
    assert lines[2] == "measured: 10 images of 10 patients"
    assert lines[3].startswith("AUC: ")
    assert "NOT THE BENCHMARK" not in done.stdout
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"recipe.json", "results.csv", "report.html", "predictions.parquet"} <= found
    again = cxrtext(*command, "--out", tmp_path / "out", "--json")
    record = json.loads(again.stdout)
    before = json.loads((tmp_path / "out/recipe.json").read_text())
    assert {**record, "date": ""} == {**before, "date": ""}


def test_a_wrong_list_is_refused_and_can_be_tried(
    refused: Refused, checkpoint: Path, tmp_path: Path
) -> None:
    nih(tmp_path / "set")
    command = ("benchmark", "nih", checkpoint, "--data", tmp_path / "set", "--no-pictures")
    line = refused(*command, "--out", tmp_path / "out")
    assert line.startswith(
        "nih: test_list.txt lists 10 images, and not the 25,596 of the official test_list.txt. "
    )
    assert not (tmp_path / "out").exists()
    done = cxrtext(*command, "--out", tmp_path / "out", "--subset")
    assert "NOT THE BENCHMARK: test_list.txt lists 10 images, and not the 25,596" in done.stdout
    assert json.loads((tmp_path / "out/recipe.json").read_text())["benchmark"] is False
