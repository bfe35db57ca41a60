"""Recipes from beginning to end, on data folders imported from made-up sets.

A made-up folder cannot have the official list.  A copy of the recipe, with the count and the digest
of the made-up one, stands in for it.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cxrtext.datasets.importing import import_folder
from cxrtext.errors import DataError
from cxrtext.evaluation.recipes import Recipe, load_recipe, run_recipe
from cxrtext.evaluation.recipes.lists import digest_of_names
from cxrtext.evaluation.recipes.recipe import Expected, KnownList
from cxrtext.evaluation.report import ReportOptions
from cxrtext.evaluation.rows import GROUNDING, MEAN_OF_SENTENCES, ZERO_SHOT
from tests.conftest import draw


def made_up(name: str, names: Iterable[str], **expected: Any) -> Recipe:
    """The recipe, with another list as the official one."""
    recipe, names = load_recipe(name), set(names)
    images = recipe.content.images
    known = KnownList(
        title="a made-up list", count=len(names), sha256=digest_of_names(names), source="a test"
    )
    images = images.model_copy(update={"known": (known,)})
    changes = {"images": images, "expected": Expected(**expected)}
    if recipe.content.prompts:
        changes["prompts"] = recipe.content.prompts.model_copy(update={"more_than": 0})
    return replace(recipe, content=recipe.content.model_copy(update=changes))


def nih(root: Path, count: int = 12) -> list[str]:
    """A set in the layout of ChestX-ray14; all but the first two images are to be measured."""
    (root / "images_001/images").mkdir(parents=True)
    names = [f"{number:08d}_000.png" for number in range(count)]
    rows = [
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
        "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
    ]
    for number, name in enumerate(names):
        kind = "effusion" if number % 2 else "clear"
        Image.fromarray(draw(kind, number)).save(root / "images_001/images" / name)
        said = "Cardiomegaly|Effusion" if number % 2 else "No Finding"
        rows.append(f"{name},{said},0,{number},058Y,M,PA,2682,2749,0.143,0.143,")
    (root / "Data_Entry_2017.csv").write_text("\n".join(rows) + "\n")
    (root / "BBox_List_2017.csv").write_text(
        "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"
        "00000003_000.png,Effusion,525.0,547.0,386.7,379.1,,,\n"
        "00000001_000.png,Effusion,525.0,547.0,386.7,379.1,,,\n"
    )
    (root / "test_list.txt").write_text("\n".join(names[2:]) + "\n")
    return names[2:]


def imported(tmp_path: Path) -> tuple[Path, list[str]]:
    """Such a set as ``cxrtext import`` leaves it, and the names of the images to measure."""
    names = nih(tmp_path / "set")
    import_folder(tmp_path / "set", tmp_path / "data")
    return tmp_path / "data", names


go = partial(run_recipe, report=ReportOptions(sentences=False))


def test_a_benchmark(checkpoint: Path, tmp_path: Path) -> None:
    data, names = imported(tmp_path)
    out = tmp_path / "out"
    recipe = made_up("nih", names, positives={"Pleural Effusion": 5, "Hernia": 0}, boxes=1)
    run = go(recipe, checkpoint, data, out)
    record = json.loads((out / "recipe.json").read_text())
    assert run.record["benchmark"]
    assert (record["benchmark"], record["why_not"], record["images"]) == (True, [], 10)
    assert record["list"]["sha256"] == digest_of_names(names)
    assert record["list"]["official"]["title"] == "a made-up list"
    assert record["recipe_sha256"] == load_recipe("nih").sha256
    assert record["prompts"]["Mass"] == {"positive": ["lung mass"], "negative": ["no lung mass"]}
    assert record["preprocessing"]["crop"] == 64
    # No image has a hernia, so that there is no mean over all findings.
    assert (record["primary"]["measure"], record["primary"]["value"]) == ("AUC", None)
    assert json.loads((out / "evaluation.json").read_text())["recipe"] == record
    rows = run.evaluation.rows
    effusion = rows.of(ZERO_SHOT, "Pleural Effusion")
    assert (effusion["with"], effusion["without"]) == (5, 5)
    assert rows.value(GROUNDING, MEAN_OF_SENTENCES, "CNR") is not None
    assert "This is not the benchmark" not in (out / "report.html").read_text()
    (first, second) = json.loads((out / "documents/flow.json").read_text())["steps"][:2]
    assert (first["title"], first["counts"]["images"]) == ("Images that recipe nih asks for", 10)
    assert second["counts"]["images"] == 10
    told = json.loads((out / "documents/provenance.json").read_text())
    assert told["benchmark"]["list"] == record["list"]
    assert told["data"]["name"] == "data"
    assert str(tmp_path) not in (out / "recipe.json").read_text()


def test_lists_that_are_not_the_official_one(checkpoint: Path, tmp_path: Path) -> None:
    data, names = imported(tmp_path)
    out, recipe = tmp_path / "out", made_up("nih", names)
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join([*names[1:], "00000000_000.png"]))
    others = "lists 10 images, and not the 10 of a made-up list: the digest of the names differs"
    with pytest.raises(DataError, match=others):
        go(recipe, checkpoint, data, out, listed=listed)
    listed.write_text("\n".join(names))
    table = data / "manifest.csv"
    rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join(row for row in rows if names[3] not in row))
    (data / "SHA256SUMS").unlink()
    with pytest.raises(
        DataError,
        match=rf"^nih: 9 of 10 images; missing {names[3]}\. This is not the benchmark; import the "
        r"whole set .* import\.rejected\.csv .* try what is there with --subset$",
    ):
        go(recipe, checkpoint, data, out, listed=listed)
    with pytest.raises(DataError, match=r"manifest lists 9 images, and not the 10 of a made-up"):
        go(recipe, checkpoint, data, out)
    assert not (out / "recipe.json").exists()
    run = go(recipe, checkpoint, data, out, listed=listed, subset=True)
    assert not run.record["benchmark"]
    assert run.record["why_not"] == [f"9 of 10 images; missing {names[3]}"]
    assert run.record["images"] == 9
    (first, *_) = json.loads((out / "documents/flow.json").read_text())["steps"]
    assert first["left_out"]["not in the set that was given"]["images"] == 1
    assert "This is not the benchmark nih: 9 of 10" in (out / "report.html").read_text()


def test_annotations_that_are_not_the_official_ones(checkpoint: Path, tmp_path: Path) -> None:
    data, names = imported(tmp_path)
    for expected, says in (
        ({"positives": {"Cardiomegaly": 4}}, "labels are not the official ones: Cardiomegaly: 5"),
        ({"boxes": 2}, "boxes are not the official ones: 1 and not 2"),
    ):
        with pytest.raises(DataError, match=says):
            go(made_up("nih", names, **expected), checkpoint, data, tmp_path / "out")


def test_a_set_that_was_not_imported(checkpoint: Path, tmp_path: Path) -> None:
    names = nih(tmp_path / "set")
    with pytest.raises(DataError, match="cxrtext import SET --layout nih --keep age,sex --out"):
        go(made_up("nih", names), checkpoint, tmp_path / "set", tmp_path / "out")
