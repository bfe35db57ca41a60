import os
from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.records import checked_manifest, read_manifest, stream_manifest


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
        ("image,study_id\n,s1\n", "row 1: it has an empty image"),
        ("image,study_id\na.png,\n", "row 1: it has an empty study_id"),
        ("image,study_id,split\na.png,s1,valid\n", "row 1: split 'valid' is not one of train"),
        ("image,study_id\na.png,s1\na.png,s2\n", "'a.png' occurs in rows 1 and 2"),
        (
            "image,study_id,patient_id,split\na,1,p,train\nb,2,p,test\n",
            "patient 'p' is in two splits, test .row 2. and train .row 1.|train .row 1. and test",
        ),
    ],
)
def test_wrong_manifests(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=says) as whole:
        read_manifest(path)
    with pytest.raises(DataError, match=says) as streamed:
        list(checked_manifest(path))
    assert str(streamed.value) == str(whole.value)


def test_a_manifest_is_read_the_same_in_a_stream(tmp_path: Path) -> None:
    rows = [
        f"f{i % 3}/{i}.png,s{i},p{i // 2},{'train' if i // 2 % 2 else 'val'}" for i in range(50)
    ]
    path = write(tmp_path, "\n".join(["image,study_id,patient_id,split", *rows]))
    whole = read_manifest(path)
    assert list(stream_manifest(path)) == list(checked_manifest(path)) == whole
    assert len(whole) == 50


def test_links_are_followed_and_may_not_lead_out(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    (outside / "x.png").touch()
    (inside / "a" / "up").symlink_to("..")
    (inside / "a" / "b" / "far.png").symlink_to(outside / "x.png")
    (inside / "a" / "b" / "near.png").symlink_to("c.png")
    names = ["a/b/c.png", "a/up/d.png", "a/b/../e.png", "a/b/near.png", "./f.png", "a//g.png"]
    path = write(inside, "image,study_id\n" + "".join(f"{name},s\n" for name in names))
    assert [r.path for r in read_manifest(path)] == [(inside / n).resolve() for n in names]
    for name in ("a/b/far.png", "a/up/../out/x.png", "a/up/../../out/x.png", ".."):
        path = write(inside, f"image,study_id\n{name},s\n")
        (record,) = read_manifest(path, allow_outside=True)
        assert record.path == (inside / name).resolve()
        if not record.path.is_relative_to(inside):
            with pytest.raises(DataError, match="outside the manifest's folder"):
                read_manifest(path)


def test_each_folder_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    plain = os.path.islink

    def islink(path: str) -> bool:
        looked.append(path)
        return plain(path)

    monkeypatch.setattr(os.path, "islink", islink)
    rows = "".join(f"a/b/{number}.png,s\n" for number in range(50))
    assert len(read_manifest(write(tmp_path, "image,study_id\n" + rows))) == 50
    assert len(looked) == 52  # 50 images, a, and a/b
