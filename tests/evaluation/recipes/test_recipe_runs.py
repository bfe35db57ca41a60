"""Recipes from beginning to end, on made-up folders of the layout of their sets.

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
import yaml
from PIL import Image

from cxrtext.datasets.importing import import_folder
from cxrtext.errors import DataError
from cxrtext.evaluation.recipes import Recipe, load_recipe, run_recipe
from cxrtext.evaluation.recipes.lists import DRAWS, digest_of_names
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
    drawn = None
    if images.draw:
        test, _ = DRAWS[images.draw](names)
        drawn = known.model_copy(update={"count": len(test), "sha256": digest_of_names(test)})
    images = images.model_copy(update={"known": (known,), "drawn": drawn})
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


go = partial(run_recipe, report=ReportOptions(pictures=False))


def test_a_benchmark(checkpoint: Path, tmp_path: Path) -> None:
    root, out = tmp_path / "set", tmp_path / "out"
    names = nih(root)
    recipe = made_up("nih", names, positives={"Pleural Effusion": 5, "Hernia": 0}, boxes=1)
    run = go(recipe, checkpoint, root, out)
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
    assert told["data"]["name"] == "nih"
    assert str(tmp_path) not in (out / "recipe.json").read_text()
    # Only the images of the list were brought over, as copies.
    assert sorted(path.name for path in (out / "data").rglob("*.png")) == names
    assert (root / "images_001/images" / names[0]).stat().st_nlink == 1


def test_lists_that_are_not_the_official_one(checkpoint: Path, tmp_path: Path) -> None:
    root, out = tmp_path / "set", tmp_path / "out"
    names = nih(root)
    recipe = made_up("nih", names)
    (root / "images_001/images" / names[3]).unlink()
    with pytest.raises(
        DataError,
        match=rf"^nih: 9 of 10 images; missing {names[3]} \(why: .*import.rejected.csv\)\. This is "
        r"not the benchmark; complete the set .* or try what is there with --subset$",
    ):
        go(recipe, checkpoint, root, out)
    assert not (out / "recipe.json").exists()
    listed = root / "test_list.txt"
    listed.write_text("\n".join(names[1:]) + "\n")
    not_all = "lists 9 images, and not the 10 of a made-up list. This is not"
    with pytest.raises(DataError, match=not_all):
        go(recipe, checkpoint, root, out)
    listed.write_text("\n".join([*names[1:], "00000000_000.png"]) + "\n")
    others = "lists 10 images, and not the 10 of a made-up list: the digest of the names differs"
    with pytest.raises(DataError, match=others):
        go(recipe, checkpoint, root, out)
    run = go(recipe, checkpoint, root, out, subset=True)
    assert not run.record["benchmark"]
    missing = f"9 of 10 images; missing {names[3]}"
    assert run.record["why_not"] == [f"test_list.txt {others}", missing]
    assert run.record["images"] == 9
    (first, *_) = json.loads((out / "documents/flow.json").read_text())["steps"]
    assert first["left_out"]["not in the set that was given"]["images"] == 1
    assert "This is not the benchmark nih: test_list.txt lists" in (out / "report.html").read_text()


def test_annotations_that_are_not_the_official_ones(checkpoint: Path, tmp_path: Path) -> None:
    names = nih(tmp_path / "set")
    for expected, says in (
        ({"positives": {"Cardiomegaly": 4}}, "labels are not the official ones: Cardiomegaly: 5"),
        ({"boxes": 2}, "boxes are not the official ones: 1 and not 2"),
    ):
        with pytest.raises(DataError, match=says):
            go(made_up("nih", names, **expected), checkpoint, tmp_path / "set", tmp_path / "out")


def test_an_image_that_cannot_be_read(checkpoint: Path, tmp_path: Path) -> None:
    names = nih(tmp_path / "set")
    (tmp_path / "set/images_001/images" / names[4]).write_bytes(b"\x89PNG and no more")
    run = go(made_up("nih", names), checkpoint, tmp_path / "set", tmp_path / "out")
    assert run.record["why_not"] == [f"1 image cannot be read, the first {names[4]}"]


def test_a_folder_that_was_imported(checkpoint: Path, tmp_path: Path) -> None:
    root, data = tmp_path / "set", tmp_path / "data"
    names = nih(root)
    import_folder(root, data)
    recipe = made_up("nih", names, boxes=1)
    run = go(recipe, checkpoint, data, tmp_path / "out")
    assert (run.record["benchmark"], run.record["images"]) == (True, 10)
    assert not (tmp_path / "out/data").exists()
    table = data / "manifest.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    (data / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match="manifest lists 9 images.* give the set itself"):
        go(recipe, checkpoint, data, tmp_path / "out")


def test_a_recipe_of_ones_own(checkpoint: Path, tmp_path: Path) -> None:
    names = nih(tmp_path / "set")
    tree = yaml.safe_load(load_recipe("nih").text)
    tree |= {"name": "own", "expected": {}, "takes": ["labels"]}
    tree["images"]["known"] = [
        {"title": "ours", "count": 10, "sha256": digest_of_names(names), "source": "us"}
    ]
    tree["prompts"]["findings"] = {"Pleural Effusion": "pleural effusion"}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(tree))
    run = run_recipe(path, checkpoint, tmp_path / "set", tmp_path / "out", link=True)
    assert (run.record["benchmark"], run.record["recipe"]) == (True, "own")
    assert run.record["primary"]["value"] == run.evaluation.mean_auc is not None
    assert (tmp_path / "set/images_001/images" / names[0]).stat().st_nlink == 2
