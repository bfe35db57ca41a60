"""The data folder that is written: splits, names, reruns; and manifests as sets."""

import json
import os
import stat
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from cxrtext.datasets.checking import check_data
from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.evaluation.data import read_data_folder
from cxrtext.files import only_one
from cxrtext.records import read_table
from tests.datasets.imported import drawn_boxes


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_data_folder_comes_back_and_its_note_holds_no_path(
    data_folder: Path, tmp_path: Path
) -> None:
    summary = import_folder(data_folder, tmp_path / "out", ImportOptions(keep=("age",)))
    before, after = read_data_folder(data_folder), read_data_folder(tmp_path / "out")
    assert summary.layout == "generic"
    assert [(r.name, r.study_id, r.split) for r in before.records] == [
        (r.name, r.study_id, r.split) for r in after.records
    ]
    assert after.sentences == before.sentences
    assert after.labels == before.labels
    assert after.records[0].metadata == {"view": "", "age": "40"}
    noted = (tmp_path / "out/import.json").read_text()
    assert str(tmp_path) not in noted
    assert json.loads(noted)["layout"] == "generic"


def test_the_same_command_gives_the_same_bytes_and_moves_nothing(
    data_copy: Path, tmp_path: Path
) -> None:
    for link in (False, True):
        out = tmp_path / f"out{link}"
        first = import_folder(data_copy, out, ImportOptions(link=link))
        assert first.files == {"linked, read-only" if link else "copied": 48}
        image = out / "images/s00.png"
        kept, inode = contents(out), image.stat().st_ino
        (out / "images/s01.png").unlink()
        if not link:  # one that is damaged is made anew, whatever its times
            copy = out / "images/s02.png"
            times = copy.stat()
            copy.chmod(0o600)
            copy.write_bytes(copy.read_bytes()[:-1] + b"x")
            os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert import_folder(data_copy, out, ImportOptions(link=link)) == first
        assert contents(out) == kept
        assert image.stat().st_ino == inode
        assert image.samefile(data_copy / "images/s00.png") is link


def test_editing_an_imported_file_leaves_the_original(data_copy: Path, tmp_path: Path) -> None:
    before = contents(data_copy)
    import_folder(data_copy, tmp_path / "out")
    for path in (tmp_path / "out/images").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
        path.chmod(0o600)
        path.write_bytes(b"edited in place")
    assert contents(data_copy) == before
    # The next import brings back what the hospital has.
    import_folder(data_copy, tmp_path / "out")
    assert contents(tmp_path / "out/images") == contents(data_copy / "images")
    # A link is asked for, and then nobody may write to the original either.
    import_folder(data_copy, tmp_path / "linked", ImportOptions(link=True))
    for path in (data_copy / "images").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o222 == 0


def test_without_hard_links_images_are_copied(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(18, "Invalid cross-device link")))
    options = ImportOptions(link=True)
    assert import_folder(data_folder, tmp_path / "out", options).files == {"copied": 48}
    assert import_folder(data_folder, tmp_path / "out", options).files == {"copied": 48}


def test_only_the_owner_can_read_what_an_import_writes(data_folder: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        import_folder(data_folder, tmp_path / "out", ImportOptions())
    finally:
        os.umask(before)
    written = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert len(written) > 50
    for path in written:
        assert path.stat().st_mode & 0o077 == 0, path


def test_folders_of_others_are_left_alone(data_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="not empty and was not made by an import"):
        import_folder(data_folder, out)
    with pytest.raises(ConfigError, match="holds the set itself; name another folder"):
        import_folder(data_folder, data_folder)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is a file; name a folder"):
        import_folder(data_folder, tmp_path / "file")
    assert contents(out) == {"thesis.txt": b"years of work"}


def test_another_import_does_not_go_into_the_same_folder(data_folder: Path, tmp_path: Path) -> None:
    import_folder(data_folder, tmp_path / "out")
    with pytest.raises(DataError, match="was imported with another split"):
        import_folder(data_folder, tmp_path / "out", ImportOptions(split=(1, 1, 1)))
    with only_one(tmp_path / "out/manifest.csv"), pytest.raises(WorkError, match="another process"):
        import_folder(data_folder, tmp_path / "out")
    (tmp_path / "out/import.json").write_text("{")
    with pytest.raises(DataError, match="import.json: not readable"):
        import_folder(data_folder, tmp_path / "out")


def test_a_hashed_import_has_no_place_beside_the_originals(data_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdefghij")
    with pytest.raises(ConfigError, match="holds the set itself"):
        import_folder(data_copy, tmp_path, ImportOptions(hash_key=tmp_path / "key"))
    (tmp_path / "out").mkdir()
    (tmp_path / "key").rename(tmp_path / "out/key")
    with pytest.raises(ConfigError, match="the key would lie with the data"):
        import_folder(data_copy, tmp_path / "out", ImportOptions(hash_key=tmp_path / "out/key"))


def write_set(tmp_path: Path, table: str, *images: str) -> Path:
    folder = tmp_path / "set"
    for name in images:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x89PNG")
    (folder / "manifest.csv").write_text(table)
    return folder


def test_a_manifest_is_normalized(tmp_path: Path) -> None:
    folder = write_set(
        tmp_path,
        "image,study_id,patient_id,split,view,Edema,report\n"
        "a.png,s1,p1,Training,antero-posterior,1.0,Text.\n"
        "images/a.png,s2,p2,valid,PA,,\n"
        "b.png,s3,p2,test,PA,,\n"
        "b.png,s3,p3,test,Lateral,,\n"
        "../secret.png,s4,p4,test,PA,,\n"
        "/etc/passwd,s4,p4,test,PA,,\n"
        "a.png,s5,p1,train,PA,,\n"
        "c.png,s6,p6,later,PA,,\n"
        "c.png,s6,p6,test,PA,often,\n"
        "c.png,,p6,test,PA,,\n"
        "c.png,s7\n"
        "c.png,s9,p9,,PA,0,\n",
        "a.png", "images/a.png", "b.png", "c.png",
    )  # fmt: skip
    (tmp_path / "secret.png").write_bytes(b"\x89PNG")
    summary = import_folder(folder, tmp_path / "out")
    rows = read_table(tmp_path / "out/manifest.csv").rows
    assert [(row["image"], row["split"], row["view"]) for row in rows][:2] == [
        ("images/a.png", "train", "AP"),
        ("images/images/a.png", "val", "PA"),
    ]
    assert rows[2]["image"] == "images/c.png"
    assert len(rows) == 3
    assert summary.damaged == 8
    assert summary.set_aside["lateral view"] == 1
    assert summary.findings == {"Edema": 1}
    left = read_table(tmp_path / "out/import.rejected.csv").rows
    reasons = {row["item"]: row["reason"] for row in left}
    assert reasons["b.png"] == "its patient is in the split val too; keep one"
    assert "lies outside the folder" in reasons["manifest.csv row 5"]
    assert "lies outside the folder" in reasons["manifest.csv row 6"]
    assert "Edema: a label is 1, 0, -1 or blank" in reasons["manifest.csv row 9"]
    assert read_table(tmp_path / "out/reports.csv").rows[0] == {"study_id": "s1", "report": "Text."}


def test_a_table_is_a_set_too_and_boxes_may_come_from_elsewhere(tmp_path: Path) -> None:
    folder = write_set(tmp_path, "image,study_id\na.png,s1\nb.png,s2\n", "a.png", "b.png")
    (folder / "manifest.csv").rename(folder / "mine.csv")
    boxes = tmp_path / "boxes.csv"
    boxes.write_text(
        "image,label_text,x,y,w,h,width,height\na.png,Here.,1,2,3,4,9,9\nz.png,No.,1,2,3,4,9,9\n"
        "a.png,Wrong.,1,2,0,4,9,9\n"
    )
    options = ImportOptions(boxes=boxes, split=(100, 0, 0))
    summary = import_folder(folder / "mine.csv", tmp_path / "out", options)
    assert (summary.boxes, summary.boxes_without_image, summary.damaged) == (1, 1, 1)
    assert drawn_boxes(tmp_path / "out/boxes.json")[0].image == "images/a.png"
    assert summary.splits == {"train": 2, "val": 0, "test": 0}


def test_what_is_not_recognized_is_one_line_that_says_what_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set/notes.docx").write_bytes(b"x")
    with pytest.raises(DataError) as caught:
        import_folder(tmp_path / "set", tmp_path / "out")
    what = "no known set; files: 1 .docx; give a folder of DICOM, PNG or JPEG files"
    assert str(caught.value) == f"{tmp_path / 'set'}: {what}"
    with pytest.raises(DataError, match="no set with the layout nih"):
        import_folder(tmp_path / "set", tmp_path / "out", ImportOptions(layout="nih"))
    with pytest.raises(ConfigError, match="--layout 'mimik' is not one .*; --layout mimic[?]$"):
        import_folder(tmp_path / "set", tmp_path / "out", ImportOptions(layout="mimik"))
    with pytest.raises(DataError, match="no such folder"):
        import_folder(tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sentences_are_no_reports_and_shares_are_above_0(data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("sentence\nClear.\n")
    with pytest.raises(DataError, match="no column is known to name an image or a study"):
        import_folder(data_folder, tmp_path / "out", ImportOptions(reports=tmp_path / "s.csv"))
    for shares in ((0, 0, 0), (-1, 1, 1)):
        with pytest.raises(ConfigError, match="--split is"):
            import_folder(data_folder, tmp_path / "out", ImportOptions(split=shares))


def test_labels_that_contradict_those_before_are_listed(tmp_path: Path) -> None:
    folder = write_set(tmp_path, "image,study_id\na.png,s1\nb.png,s2\n", "a.png", "b.png")
    (folder / "labels.csv").write_text(
        "study_id,Edema,Pneumonia\ns1,1,\ns1,1.0,\ns1,0,\ns2,,0\ns9,1,1\n"
    )
    summary = import_folder(folder, tmp_path / "out")
    assert (summary.labelled, summary.damaged) == (2, 0)
    labels = read_table(tmp_path / "out/labels.csv").rows
    assert [row["Edema"] for row in labels] == ["1", ""]
    (left,) = read_table(tmp_path / "out/import.rejected.csv").rows
    assert (left["item"], left["of"]) == ("labels of s1", "labels")
    assert left["reason"] == "its study has other labels before, which count"


def test_nothing_of_an_archive_is_lost_silently(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks/images/archive.py"
    archive = SimpleNamespace(**run_path(str(script)))
    planted = archive.make(tmp_path, 30)
    found = archive.load(tmp_path, tmp_path / "data")
    for what, made, seen in archive.compare(planted, found):
        assert made == seen, what
    first = archive.digest(tmp_path / "data")
    assert archive.load(tmp_path, tmp_path / "data") == found
    assert archive.digest(tmp_path / "data") == first
    rejected = read_table(tmp_path / "data/import.rejected.csv").rows
    assert len(read_table(tmp_path / "data/manifest.csv").rows) == found.images
    assert len(rejected) == sum(found.set_aside.values())
    assert {row["of"] for row in rejected} <= {"image", "report"}
    assert len(read_table(tmp_path / "data/reports.csv").rows) == found.reports
    report = check_data(tmp_path / "data")
    assert report.summary["images listed"] == found.images
    text = "".join(p.read_text() for p in (tmp_path / "data").glob("import.*"))
    assert "Müller" not in text
    assert "Schmidt" not in text
