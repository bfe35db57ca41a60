"""Every recipe from beginning to end, on what is imported from a made-up set of its layout."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.datasets.importing.formats import LAYOUTS
from cxrtext.evaluation.recipes import load_recipe, recipe_names
from cxrtext.evaluation.recipes.lists import name_of, read_list
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


Made = tuple[Callable[[Path], Path], int, set[str]]
SETS: dict[str, Made] = {
    "chestx-det10": (lambda root: public_sets.chestxdet10(root, size=128), 8, {"36199.png"}),
    "chexpert-5x200": (public_sets.chexpert_5x200, 20, {"patient00001/study1/view1_frontal.jpg"}),
    "ms-cxr": (ms_cxr, 2, {"aa-1", "bb-1"}),
    "nih": (chest_x_ray14, 10, {"00000002_000.png"}),
    "nih-labels": (public_sets.nih_labels, 12, {"00000001_000.jpg"}),
    "openi": (public_sets.openi, 7, {"2_IM-0002-1001.dcm"}),
    "padchest": (public_sets.padchest, 8, set()),
    "padchest-gr": (public_sets.padchest_gr, 3, {"251488034557732341_wigcpj.png"}),
    "rsna": (lambda root: public_sets.rsna(root, 40), 6, set()),
    "siim": (public_sets.siim, 12, {public_sets.image_uid(3)}),
    "vindr-cxr": (public_sets.vindr, 8, {public_sets.vindr_name("test", 1)}),
}
"""By recipe: what makes its set, how many images are measured, and the names of some of them."""


def test_every_recipe_is_tried_and_has_its_layout() -> None:
    assert tuple(sorted(SETS)) == recipe_names()
    assert all(load_recipe(name).content.layout in LAYOUTS for name in SETS)


@pytest.mark.parametrize("name", some(list(SETS), 3))
def test_a_set_is_imported_and_measured(checkpoint: Path, tmp_path: Path, name: str) -> None:
    make, count, among = SETS[name]
    root, recipe = make(tmp_path / "set"), load_recipe(name)
    content = recipe.content
    import_folder(root, data := tmp_path / "data", ImportOptions(content.layout, content.keep))
    rows = read_csv(data / "manifest.csv")
    listed = None
    if content.images.listed == "file":
        listed = tmp_path / "list.txt"
        names = sorted(name_of(content.images.name, row["image"]) for row in rows)
        listed.write_text("\n".join(sorted(among) or names[:count]))
    found = read_list(recipe, rows, listed)
    assert (len(found.test), among <= found.test) == (count, True)
    recipe = made_up(name, found.names)
    run = go(recipe, checkpoint, data, tmp_path / "out", listed=listed)
    assert run.record["why_not"] == []
    assert run.record["images"] == count
    assert run.record["list"]["images"] == len(found.names)
    figures = run.evaluation.rows
    assert bool(run.evaluation.findings) == ("labels" in content.takes)
    if "boxes" in content.takes:
        assert figures.value(GROUNDING, MEAN_OF_SENTENCES, "CNR") is not None
    for finding in run.evaluation.findings:
        known = figures.of(ZERO_SHOT, finding)
        assert (known["with"] or 0) + (known["without"] or 0) == count
