"""Every recipe from beginning to end, on a made-up folder of its set's own layout."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cxrtext.datasets.importing.formats import LAYOUTS
from cxrtext.errors import DataError
from cxrtext.evaluation.recipes import load_recipe, recipe_names
from cxrtext.evaluation.recipes.lists import read_list
from cxrtext.evaluation.rows import GROUNDING, MEAN_OF_SENTENCES, ZERO_SHOT
from tests.conftest import read_csv
from tests.datasets import public_sets
from tests.datasets.public_sets import mimic
from tests.evaluation.recipes.test_recipe_runs import go, made_up, nih
from tests.grids import some


def ms_cxr(root: Path) -> Path:
    """MIMIC-CXR-JPG with two images that MS-CXR has boxes on, of two splits."""
    mimic(root)
    size = {"width": 64, "height": 64}
    coco = {
        "images": [
            {"id": 7, "file_name": "aa-1.jpg", **size},
            {"id": 8, "file_name": "bb-1.jpg", **size},
        ],
        "categories": [{"id": 3, "name": "Edema"}],
        "annotations": [
            {"id": n, "image_id": 7 + n, "category_id": 3, "bbox": [8, 8, 30, 40],
             "label_text": f"Phrase {n}."}
            for n in range(2)
        ],
    }  # fmt: skip
    (root / "MS_CXR_Local_Alignment_v1.1.0.json").write_text(json.dumps(coco))
    return root


def chest_x_ray14(root: Path) -> Path:
    nih(root)
    return root


def rsna(root: Path) -> Path:
    """With a list of six of its forty images."""
    public_sets.rsna(root, 40)
    names = [path.stem for path in sorted((root / "stage_2_train_images").iterdir())]
    (root / "rsna_test.txt").write_text("\n".join(names[:6]) + "\n")
    return root


Made = tuple[Callable[[Path], Path], int, set[str]]
SETS: dict[str, Made] = {
    "chestx-det10": (lambda root: public_sets.chestxdet10(root, size=128), 8, {"36199.png"}),
    "chexpert-5x200": (public_sets.chexpert_5x200, 20, {"patient00001/study1/view1_frontal.jpg"}),
    "ms-cxr": (ms_cxr, 2, {"aa-1", "bb-1"}),
    "nih": (chest_x_ray14, 10, {"00000002_000.png"}),
    "nih-labels": (public_sets.nih_labels, 12, {"00000001_000.jpg"}),
    "openi": (public_sets.openi, 7, {"2_IM-0002-1001.dcm"}),
    "padchest": (public_sets.padchest, 8, {public_sets.padchest_name(1)}),
    "padchest-gr": (public_sets.padchest_gr, 3, {"251488034557732341_wigcpj.png"}),
    "rsna": (rsna, 6, set()),
    "siim": (public_sets.siim, 12, {public_sets.image_uid(3)}),
    "vindr-cxr": (public_sets.vindr, 8, {public_sets.vindr_name("test", 1)}),
}
"""By recipe: what makes its set, how many images are measured, and the names of some of them."""


def test_every_recipe_is_tried_and_has_its_layout() -> None:
    assert tuple(sorted(SETS)) == recipe_names()
    assert all(load_recipe(name).content.layout in LAYOUTS for name in SETS)


def test_lists_as_editors_and_unpackers_leave_them(checkpoint: Path, tmp_path: Path) -> None:
    """Byte order marks, ends of lines of Windows, endings in capitals, folders in folders."""
    root = tmp_path / "nih"
    names = nih(root)
    listed = root / "test_list.txt"
    listed.write_bytes(b"\xef\xbb\xbf" + listed.read_bytes().replace(b"\n", b"\r\n"))
    for path in list((root / "images_001/images").iterdir())[:4]:
        path.rename(path.with_suffix(".PNG"))
    found = read_list(load_recipe("nih"), root)
    assert found.test == set(names)
    run = go(made_up("nih", names, boxes=1), checkpoint, root, tmp_path / "out")
    assert (run.record["benchmark"], run.record["images"]) == (True, 10)

    root = rsna(tmp_path / "rsna")
    folder = root / "stage_2_train_images"
    (root / "aside").mkdir()
    folder.rename(root / "aside/stage_2_train_images")
    for path in list((root / "aside/stage_2_train_images").iterdir())[:4]:
        path.rename(path.with_suffix(".DCM"))
    found = read_list(load_recipe("rsna"), root)
    run = go(made_up("rsna", found.names), checkpoint, root, tmp_path / "out-rsna")
    assert (run.record["benchmark"], run.record["images"]) == (True, 6)

    root = ms_cxr(tmp_path / "ms-cxr")
    (boxes,) = root.glob("MS_CXR*.json")
    boxes.write_bytes(b"\xef\xbb\xbf" + boxes.read_bytes())
    assert read_list(load_recipe("ms-cxr"), root).test == {"aa-1", "bb-1"}


@pytest.mark.parametrize("name", some(list(SETS), 3))
def test_a_set_is_measured_and_refused_with_an_image_missing(
    checkpoint: Path, tmp_path: Path, name: str
) -> None:
    make, count, among = SETS[name]
    root = make(tmp_path / "set")
    found = read_list(load_recipe(name), root)
    assert (len(found.test), among <= found.test) == (count, True)
    recipe = made_up(name, found.names)
    run = go(recipe, checkpoint, root, tmp_path / "out")
    assert run.record["why_not"] == []
    assert run.record["images"] == count
    assert run.record["list"]["images"] == len(found.names)
    measured = run.evaluation
    takes = recipe.content.takes
    assert bool(measured.findings) == ("labels" in takes)
    if "boxes" in takes:
        assert measured.rows.value(GROUNDING, MEAN_OF_SENTENCES, "CNR") is not None
    if recipe.content.primary in ("CNR", "multi-class accuracy"):
        assert run.record["primary"]["value"] is not None
    for finding in measured.findings:
        known = measured.rows.of(ZERO_SHOT, finding)
        assert (known["with"] or 0) + (known["without"] or 0) == count
    missing = sorted(found.test)[0]
    files = [path for path in root.rglob("*") if path.is_file() and missing in str(path)]
    (image,) = (path for path in files if path.suffix not in (".csv", ".json", ".txt"))
    image.unlink()
    with pytest.raises(DataError, match=rf"^{name}: [\d,]+ of [\d,]+ images; missing {missing} "):
        go(recipe, checkpoint, root, tmp_path / "again")


def test_columns_of_a_table_beside_are_groups(checkpoint: Path, tmp_path: Path) -> None:
    root = public_sets.nih_labels(tmp_path / "set")
    recipe = made_up("nih-labels", read_list(load_recipe("nih-labels"), root).names)
    run = go(recipe, checkpoint, root, tmp_path / "out")
    rows = read_csv(tmp_path / "out/selected/nih-labels/manifest.csv")
    by_name = {Path(row["image"]).name: row["repository"] for row in rows}
    assert by_name["00000001_000.jpg"] == "a+y"
    assert sorted({row["repository"] for row in rows}) == ["a+x", "a+y", "a+z"]
    # Known as groups, each too small to be measured.
    (line,) = (line for line in run.evaluation.left_out if "repository" in line)
    assert line.startswith("slices: repository: no group has 10 images")
