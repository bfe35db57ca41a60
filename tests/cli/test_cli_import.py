"""``cxrtext import`` as a user meets it."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import cxrtext


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    """A tree of DICOM files and a table of reports beside it."""
    cxrtext("phantom", tmp_path / "set", "--studies", "4", "--size", "64", "--format",
                   "dicom")  # fmt: skip
    shutil.move(tmp_path / "set/images", tmp_path / "tree/ward")
    (tmp_path / "tree/readme.txt").write_text("no image")
    return tmp_path


def test_a_tree_of_dicom_files(hospital: Path) -> None:
    out = hospital / "data"
    command = ("import", hospital / "tree", "--out", out, "--keep", "age, sex",
               "--reports", hospital / "set/reports.csv")  # fmt: skip
    done = cxrtext(*command)
    said = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert {"images kept 4", "copied 4", "studies 4", "reports matched 4", "left out 1",
            "no DICOM file 1"} <= said  # fmt: skip
    assert f"what was left out, and why: {out}/import.rejected.csv" in done.stderr
    assert "PHANTOM^" not in done.stdout + done.stderr
    header = (out / "manifest.csv").read_text().splitlines()[0]
    assert header == "image,study_id,patient_id,split,view,age,sex,instance"


def test_tables_of_another_set_are_refused(hospital: Path) -> None:
    command = ("import", hospital / "tree", "--out", hospital / "data")
    (hospital / "r.csv").write_text("study_id,report\nX-77,Zebulon.\nX-78,Zebulon.\n")
    done = cxrtext(*command, "--reports", hospital / "r.csv", code=2)
    line = done.stderr.splitlines()[-1]
    assert "r.csv: no report matched: none of its 2 has the study_id or accession" in line
    assert "Zebulon" not in line
    assert "X-7" not in line
    assert not (hospital / "data/reports.csv").exists()
    (hospital / "b.csv").write_text(
        "image,finding,x,y,w,h,label_text\nother.png,Edema,1,1,2,2,Z.\n"
    )
    done = cxrtext(*command, "--boxes", hospital / "b.csv", code=2)
    assert "b.csv: no box matched: none of its 1 names an image" in done.stderr.splitlines()[-1]


def test_reports_alone(hospital: Path) -> None:
    done = cxrtext("import", hospital / "set/reports.csv", "--out", hospital / "texts")
    assert done.stdout.split()[-3:] == ["left", "out", "0"]
    assert "images" not in done.stdout
