"""Box files, read from COCO JSON and from tables."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import DataError
from cxrtext.records import Box, LeftOut, iter_boxes, read_boxes, write_boxes

IMAGE = {"id": 1, "file_name": "a.jpg", "width": 100, "height": 80}
ANNOTATION = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "label_text": "Haze."}
KIND = {"id": 1, "name": "Edema"}


def coco(path: Path, **changes: Any) -> Path:
    value = {"images": [IMAGE], "annotations": [ANNOTATION], "categories": [KIND]}
    path.write_text(json.dumps({**value, **changes}))
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    boxes = [
        Box("a.png", 100, 80, "Pneumonia", "Opacity.", (1.0, 2.0, 3.5, 4.0)),
        Box("b.png", 90, 80, "Edema", "Haze.", (5.0, 6.0, 7.0, 8.0)),
    ]
    write_boxes(tmp_path / "b.json", boxes)
    assert read_boxes(tmp_path / "b.json") == boxes
    write_boxes(tmp_path / "b.json", [])
    assert read_boxes(tmp_path / "b.json") == []


def test_a_sentence_may_come_as_a_list(tmp_path: Path) -> None:
    path = coco(tmp_path / "b.json", annotations=[{**ANNOTATION, "label_text": ["Haze."]}])
    assert read_boxes(path) == [Box("a.jpg", 100, 80, "Edema", "Haze.", (1, 2, 3, 4))]
    path = coco(tmp_path / "b.json", categories=[])
    assert read_boxes(path)[0].finding == ""


@pytest.mark.parametrize(
    "table",
    [
        "image,label_text,finding,x,y,w,h,width,height\na.jpg,Haze.,Edema,1,2,3,4,100,80\n",
        "dicom_id,path,category_name,label_text,x,y,w,h,image_width,image_height,split\n"
        "a.jpg,files/a.jpg,Edema,Haze.,1,2,3,4,100,80,test\n",
    ],
)
def test_tables(tmp_path: Path, table: str) -> None:
    (tmp_path / "b.csv").write_text(table)
    assert read_boxes(tmp_path / "b.csv") == [Box("a.jpg", 100, 80, "Edema", "Haze.", (1, 2, 3, 4))]


def test_a_table_may_leave_size_and_finding_out(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("image,phrase,x,y,w,h\na.jpg,Haze.,1,2,3,4\n")
    assert read_boxes(tmp_path / "b.csv") == [Box("a.jpg", 0, 0, "Haze.", "Haze.", (1, 2, 3, 4))]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bbox": [1, 2, 3]}, "must be numbers"),
        ({"bbox": [1, 2, 3, "wide"]}, "must be numbers"),
        ({"bbox": [1, 2, 0, 4]}, "above 0"),
        ({"bbox": [1, 2, float("nan"), 4]}, "above 0"),
        ({"bbox": [500, 2, 3, 4]}, "outside its image"),
        ({"bbox": "here"}, "no bbox"),
        ({"image_id": 9}, "that of no image"),
        ({"image_id": [1]}, "that of no image"),
    ],
)
def test_a_wrong_box_is_rejected_without_quoting_its_text(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    path = coco(tmp_path / "b.json", annotations=[ANNOTATION, {**ANNOTATION, **change}])
    good, bad = iter_boxes(path)
    assert isinstance(good, Box)
    assert isinstance(bad, LeftOut)
    assert bad.where == "annotation 2"
    assert says in bad.why
    with pytest.raises(DataError, match=r"b\.json: annotation 2: ") as caught:
        read_boxes(path)
    assert "Haze" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not readable JSON"),
        ("[]", "no COCO JSON"),
        ('{"images": []}', "'images' or 'annotations' is missing"),
        ('{"images": {}, "annotations": []}', "no COCO JSON"),
        ("[" * 100_000, "not readable JSON"),
    ],
)
def test_what_is_no_box_file(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(DataError, match=says):
        read_boxes(tmp_path / "b.json")


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a box file ends in .json"):
        iter_boxes(tmp_path / "b.xml")
    with pytest.raises(DataError, match="cannot be read"):
        read_boxes(tmp_path / "none.json")
    (tmp_path / "b.csv").write_text("image,x,y,w,h\na.jpg,1,2,3,4\n")
    with pytest.raises(DataError, match="columns are image, label_text"):
        read_boxes(tmp_path / "b.csv")
    (tmp_path / "b.csv.gz").write_bytes(
        gzip.compress(b"image,label_text,x,y,w,h\na.jpg,Haze.,1,2,3,4\n")
    )
    assert read_boxes(tmp_path / "b.csv.gz")[0].label_text == "Haze."
    (tmp_path / "b.csv").write_text("image,label_text,x,y,w,h\na.jpg,Haze.,1,2,3,x\n")
    with pytest.raises(DataError, match="row 1: x, y, w, h"):
        read_boxes(tmp_path / "b.csv")
