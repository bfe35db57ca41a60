from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.records import read_manifest


def write(folder: Path, text: str) -> Path:
    path = folder / "manifest.csv"
    path.write_text(text)
    return path


def test_columns_and_their_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, "image,study_id,age\nimages/a.png,s1,54\n")
    (record,) = read_manifest(path)
    assert record.path == (tmp_path / "images/a.png").resolve()
    assert (record.name, record.study_id, record.patient_id) == ("images/a.png", "s1", "s1")
    assert (record.split, record.metadata, record.row) == ("train", {"age": "54"}, 1)


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "a/../../b.png"])
def test_a_path_may_leave_the_folder_only_when_allowed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, f"image,study_id\n{name},s1\n")
    with pytest.raises(DataError, match="row 1.*outside the manifest's folder.*--allow-outside"):
        read_manifest(path)
    assert len(read_manifest(path, allow_outside=True)) == 1


def test_a_link_out_of_the_folder_is_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    with pytest.raises(DataError, match="outside"):
        read_manifest(write(inside, "image,study_id\nlink/a.png,s1\n"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("image,study\na.png,s1\n", "'study_id' is missing"),
        ("image,study_id\n,s1\n", "row 1 has an empty image"),
        ("image,study_id\na.png,\n", "row 1 has an empty study_id"),
        ("image,study_id,split\na.png,s1,valid\n", "row 1: split 'valid' is not one of train"),
        ("image,study_id\na.png,s1\na.png,s2\n", "'a.png' occurs in rows 1 and 2"),
        (
            "image,study_id,patient_id,split\na,1,p,train\nb,2,p,test\n",
            "patient 'p' is in two splits, test .row 2. and train .row 1.|train .row 1. and test",
        ),
    ],
)
def test_wrong_manifests(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_manifest(write(tmp_path, text))
