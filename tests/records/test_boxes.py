"""Box files and masks: read from COCO JSON and from tables, and written."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrtext.errors import DataError
from cxrtext.records import Absent, Box, LeftOut, iter_boxes, write_boxes
from cxrtext.records.masks import (
    box_of_mask,
    mask_of_polygons,
    mask_of_runs,
    read_segmentation,
    runs_of_mask,
)

IMAGE = {"id": 1, "file_name": "a.jpg", "width": 100, "height": 80}
ANNOTATION = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "label_text": "Haze."}
KIND = {"id": 1, "name": "Edema"}


def coco(path: Path, **changes: Any) -> Path:
    value = {"images": [IMAGE], "annotations": [ANNOTATION], "categories": [KIND]}
    path.write_text(json.dumps({**value, **changes}))
    return path


def boxes_in(path: Path) -> list[Box]:
    """The boxes of a file that holds nothing else."""
    found = list(iter_boxes(path))
    boxes = [one for one in found if isinstance(one, Box)]
    assert boxes == found
    return boxes


def test_what_was_written_is_read(tmp_path: Path) -> None:
    boxes = [
        Box("a.png", 100, 80, "Pneumonia", "Opacity.", (1.0, 2.0, 3.5, 4.0)),
        Box("a.png", 100, 80, "Edema", "Haze.", (5.0, 6.0, 7.0, 8.0)),
        Box("b.png", 90, 80, "Edema", "Haze.", (5.0, 6.0, 7.0, 8.0)),
    ]
    write_boxes(tmp_path / "b.json", boxes)
    assert boxes_in(tmp_path / "b.json") == boxes
    said = json.loads((tmp_path / "b.json").read_text())
    assert said["images"][0] == {"id": 1, "file_name": "a.png", "width": 100, "height": 80}
    assert [one["id"] for one in said["images"]] == [1, 2]
    assert [one["name"] for one in said["categories"]] == ["Pneumonia", "Edema"]
    write_boxes(tmp_path / "b.json", [])
    assert boxes_in(tmp_path / "b.json") == []


def test_a_sentence_may_come_as_a_list(tmp_path: Path) -> None:
    path = coco(tmp_path / "b.json", annotations=[{**ANNOTATION, "label_text": ["Haze."]}])
    assert boxes_in(path) == [Box("a.jpg", 100, 80, "Edema", "Haze.", (1, 2, 3, 4))]
    path = coco(tmp_path / "b.json", categories=[])
    assert boxes_in(path)[0].finding == ""


@pytest.mark.parametrize(
    ("columns", "row", "known"),
    [
        ("image,label_text,finding,width,height", "a.jpg,Haze.,Edema,100,80", (100, 80, "Edema")),
        (
            "dicom_id,path,category_name,label_text,image_width,image_height,split",
            "a.jpg,files/a.jpg,Edema,Haze.,100,80,test",
            (100, 80, "Edema"),
        ),
        ("image,phrase", "a.jpg,Haze.", (0, 0, "Haze.")),
    ],
    ids=["own columns", "MS-CXR", "without size and finding"],
)
def test_tables(tmp_path: Path, columns: str, row: str, known: tuple[int, int, str]) -> None:
    (tmp_path / "b.csv").write_text(f"{columns},x,y,w,h\n{row},1,2,3,4\n")
    assert boxes_in(tmp_path / "b.csv") == [Box("a.jpg", *known, "Haze.", (1, 2, 3, 4))]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bbox": [1, 2, 3, "wide"]}, "must be numbers"), ({"bbox": [1, 2, 0, 4]}, "1 pixel"),
        ({"bbox": [1, 2, float("nan"), 4]}, "be numbers"), ({"bbox": [1, 2, 1e-9, 4]}, "1 pixel"),
        ({"bbox": [500, 2, 3, 4]}, "outside its image"), ({"bbox": "here"}, "no bbox"),
        ({"image_id": 9}, "no image has"), ({"image_id": [1]}, "no image has"),
    ],
)  # fmt: skip
def test_a_wrong_box_is_rejected_without_quoting_its_text(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    path = coco(tmp_path / "b.json", annotations=[ANNOTATION, {**ANNOTATION, **change}])
    good, bad = iter_boxes(path)
    assert isinstance(good, Box)
    assert isinstance(bad, LeftOut)
    assert bad.where == "annotation 2"
    assert says in bad.why
    assert "Haze" not in bad.why


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not readable JSON"),
        ('{"images": []}', "'images' or 'annotations' is missing"),
        ('{"images": {}, "annotations": []}', "no COCO JSON"),
        ("[" * 100_000, "not readable JSON"),
    ],
)
def test_what_is_no_box_file(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(DataError, match=says):
        boxes_in(tmp_path / "b.json")


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a box file ends in .json"):
        iter_boxes(tmp_path / "b.xml")
    with pytest.raises(DataError, match="cannot be read"):
        boxes_in(tmp_path / "none.json")
    (tmp_path / "b.csv").write_text("image,x,y,w,h\na.jpg,1,2,3,4\n")
    with pytest.raises(DataError, match="columns are image, label_text"):
        boxes_in(tmp_path / "b.csv")
    packed = gzip.compress(b"image,label_text,x,y,w,h\na.jpg,Haze.,1,2,3,4\n")
    (tmp_path / "b.csv.gz").write_bytes(packed)
    assert boxes_in(tmp_path / "b.csv.gz")[0].label_text == "Haze."
    (tmp_path / "b.csv").write_text("image,label_text,x,y,w,h\na.jpg,Haze.,1,2,3,x\n")
    (bad,) = iter_boxes(tmp_path / "b.csv")
    assert bad == LeftOut("row 1", "x, y, w, h must be numbers; fix them")


SMALL = {"id": 1, "file_name": "a.png", "width": 4, "height": 3}
MASKED = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 0, 2, 2], "label_text": "Haze."}
RUNS = (3, 2, 1, 2, 4)  # of 3 x 4: the upper two pixels of the columns 1 and 2
SQUARE = [[False, True, True, False], [False, True, True, False], [False] * 4]


def masked(path: Path, **changes: Any) -> Path:
    return coco(path, images=[SMALL], annotations=[{**MASKED, **changes}])


def test_runs_go_down_the_columns() -> None:
    assert runs_of_mask(SQUARE) == RUNS
    assert mask_of_runs(RUNS, 3, 4).tolist() == SQUARE
    assert box_of_mask(np.array(SQUARE)) == (1, 0, 2, 2)
    assert runs_of_mask([[True, False]]) == (0, 1, 1)
    with pytest.raises(ValueError, match="not those of 3 x 5"):
        mask_of_runs(RUNS, 3, 5)


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6))
def test_what_is_folded_unfolds(mask: list[list[bool]]) -> None:
    assert mask_of_runs(runs_of_mask(mask), len(mask), 5).tolist() == mask


def test_polygons_cover_the_pixels_whose_centers_they_hold() -> None:
    assert mask_of_polygons([[1, 0, 3, 0, 3, 2, 1, 2]], 3, 4).tolist() == SQUARE
    # Below the diagonal from the lower left to the upper right: centers (x, y) with x + y > 3.
    triangle = mask_of_polygons([[3.1, 0, 3.1, 3.1, 0, 3.1]], 3, 3)
    assert triangle.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1]]
    two = mask_of_polygons([[0, 0, 1, 0, 1, 1, 0, 1], [-5, 2, 9, 2, 9, 9, -5, 9]], 3, 4)
    assert two.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    "segmentation",
    [
        {"size": [3, 4], "counts": list(RUNS)},
        {"size": [3, 4], "counts": [3, 1, 0, 1, 1, 2, 4]}, {"size": [3, 4], "counts": "32103"},
        [[1, 0, 3, 0, 3, 2, 1, 2]], [1, 0, 3, 0, 3, 2, 1, 2],
    ],
)  # fmt: skip
def test_every_form_of_a_segmentation(tmp_path: Path, segmentation: Any) -> None:
    (box,) = boxes_in(masked(tmp_path / "b.json", segmentation=segmentation))
    assert box == Box("a.png", 4, 3, "Edema", "Haze.", (1, 0, 2, 2), RUNS)
    (tmp_path / "b.csv").write_text(
        "image,label_text,finding,x,y,w,h,width,height,segmentation\n"
        'a.png,Haze.,Edema,,,,,4,3,"' + json.dumps(segmentation).replace('"', '""') + '"\n'
    )
    assert boxes_in(tmp_path / "b.csv") == [box]


@pytest.mark.parametrize(
    ("segmentation", "says"),
    [
        ({"size": [3, 5], "counts": [15]}, "of 5 x 3 pixels, its image of 4 x 3"),
        ({"size": [3, 4], "counts": [5, 5]}, "add up to 10, not to the 12"),
        ({"size": [3, 4], "counts": [12]}, "covers no pixel"),
        ({"size": [3, 4], "counts": [-1, 13]}, "list of polygons"),
        ({"size": [3, 4], "counts": "é"}, "list of polygons"),
        ([[1, 2, 3, 4, 5, float("nan")]], "list of polygons"),
    ],
)
def test_a_wrong_mask_is_rejected(tmp_path: Path, segmentation: Any, says: str) -> None:
    (bad,) = iter_boxes(masked(tmp_path / "b.json", segmentation=segmentation))
    assert isinstance(bad, LeftOut)
    assert says in bad.why


def test_runs_are_read_plain_or_compressed_and_never_unfolded_where_they_are_too_many() -> None:
    with pytest.raises(ValueError, match="too large to be right"):
        read_segmentation({"size": [10**6, 10**6], "counts": [1, 10**12 - 1]}, 0, 0)
    with pytest.raises(ValueError, match="polygons need the width and height"):
        read_segmentation([[1, 0, 3, 0, 3, 2, 1, 2]], 0, 0)
    assert read_segmentation({"size": [3, 4], "counts": list(RUNS)}, 0, 0) == (RUNS, 3, 4)
    assert read_segmentation([], 0, 0) is None
    # As rleToString of pycocotools' maskApi.c writes 1000, 300, 5, 70000, 3.
    found = read_segmentation({"size": [71308, 1], "counts": "Xo0\\95TRT2N"}, 0, 0)
    assert found == ((1000, 300, 5, 70000, 3), 71308, 1)


def test_a_phrase_without_a_box_and_the_smallest_box_of_a_mask_without_one(tmp_path: Path) -> None:
    path = masked(tmp_path / "b.json", bbox=None)
    absent = Absent("a.png", 4, 3, "Edema", "Haze.")
    assert list(iter_boxes(path)) == [absent]
    (tmp_path / "b.csv").write_text(
        "image,label_text,finding,x,y,w,h,width,height\na.png,Haze.,Edema,,,,,4,3\n"
    )
    assert list(iter_boxes(tmp_path / "b.csv")) == [absent]
    path = masked(tmp_path / "b.json", bbox=None, segmentation={"size": [3, 4], "counts": RUNS})
    assert boxes_in(path)[0].bbox == (1, 0, 2, 2)


def test_masks_that_were_written_are_read(tmp_path: Path) -> None:
    boxes: list[Box | Absent] = [
        Box("a.png", 4, 3, "Edema", "Haze.", (1, 0, 2, 2), RUNS),
        Absent("a.png", 4, 3, "Pneumonia", "No opacity."),
        Box("a.png", 4, 3, "Edema", "Haze.", (0, 0, 2, 2)),
    ]
    write_boxes(tmp_path / "b.json", boxes)
    assert list(iter_boxes(tmp_path / "b.json")) == boxes
    annotations = json.loads((tmp_path / "b.json").read_text())["annotations"]
    assert [one["area"] for one in annotations] == [4, 0, 4]
    assert [one["bbox"] for one in annotations] == [[1, 0, 2, 2], None, [0, 0, 2, 2]]
    assert annotations[0]["segmentation"] == {"size": [3, 4], "counts": list(RUNS)}
