"""A data folder whose tables are of one data set, or are refused."""

import shutil
from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.evaluation.data import read_data_folder

OTHERS = {
    "reports.csv": "study_id,report\nother,Zebulon is well.\n",
    "labels.csv": "study_id,Edema\nother,1\nmore,0\n",
    "boxes.csv": "image,finding,x,y,w,h,label_text\nother.png,Edema,1,1,2,2,Zebulon.\n",
}


@pytest.fixture
def folder(data_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(data_folder, tmp_path / "set")


@pytest.mark.parametrize("name", OTHERS)
def test_a_table_of_other_studies_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text(OTHERS[name])
    what = name.removesuffix(".csv")
    with pytest.raises(DataError, match=f"{name}: none of its {what} belongs to") as told:
        read_data_folder(folder)
    assert "and 48 there have none in common" in str(told.value)
    assert "other" not in str(told.value).replace(str(folder), "")
    assert "Zebulon" not in str(told.value)


def test_a_table_that_belongs_in_part_is_taken(folder: Path) -> None:
    for name, text in OTHERS.items():
        own = text.splitlines()[-1].replace("other.png", "images/s01.png").replace("more", "s01")
        (folder / name).write_text(text + own.replace("other", "s01") + "\n")
    read = read_data_folder(folder)
    assert {sentence.study_id for sentence in read.sentences or ()} == {"other", "s01"}
    assert "s01" in (read.labels or {})
    assert [box.image for box in read.boxes or ()] == ["other.png", "images/s01.png"]


def test_a_box_file_of_other_images_is_named(folder: Path, tmp_path: Path) -> None:
    given = tmp_path / "others.csv"
    given.write_text(OTHERS["boxes.csv"])
    with pytest.raises(DataError, match=r"others.csv: none of its boxes belongs to .*manifest.csv"):
        read_data_folder(folder, boxes=given)
