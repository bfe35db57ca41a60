"""Archives become data folders: public sets, DICOM files, pictures with a table."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.border.conftest import answer, refusal, rows_of, tree
from tests.commands import cxrtext
from tests.datasets import public_sets as sets
from tests.datasets.written import save_radiograph, save_table

LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "rsna": partial(sets.rsna, count=6), "siim": partial(sets.siim, count=6),
    "vindr": partial(sets.vindr, count=6, tested=4), "mimic": sets.mimic, "nih": sets.nih,
    "chestxdet10": partial(sets.chestxdet10, count=4, tested=3),
    "padchest": partial(sets.padchest, count=6), "padchest-gr": partial(sets.padchest_gr, count=6),
    "chexpert": partial(sets.chexpert_5x200, each=2), "openi": partial(sets.openi, count=6),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_public_set_is_recognized_and_becomes_a_data_folder(layout: str, tmp_path: Path) -> None:
    root = LAYOUTS[layout](tmp_path / "set")
    before = tree(root)
    summary = answer("import", root, "--out", tmp_path / "out")
    rows = rows_of(tmp_path / "out/manifest.csv")
    assert (summary["layout"], summary["images"]) == (layout, len(rows))
    assert rows
    assert all((tmp_path / "out" / row["image"]).is_file() for row in rows)
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row["patient_id"], set()).add(row["split"])
    assert all(len(of_patient) == 1 for of_patient in splits.values())
    assert tree(root) == before
    # The same again gives the same.
    made = tree(tmp_path / "out")
    assert answer("import", root, "--out", tmp_path / "out") == summary
    assert tree(tmp_path / "out").keys() == made.keys()
    assert rows_of(tmp_path / "out/manifest.csv") == rows


def test_labels_and_boxes_of_nih_are_those_of_its_tables(tmp_path: Path) -> None:
    root = sets.nih(tmp_path / "set")
    (root / "test_list.txt").write_text("00000002_000.png\n")
    cxrtext("import", root, "--out", tmp_path / "out", "--keep", "age")
    rows = rows_of(tmp_path / "out/manifest.csv")
    assert [(row["patient_id"], row["view"], row["age"]) for row in rows] == [
        ("1", "PA", "58"), ("1", "AP", "58"), ("2", "PA", "81"),
    ]  # fmt: skip
    assert [row["split"] == "test" for row in rows] == [False, False, True]
    labels = rows_of(tmp_path / "out/labels.csv")
    assert {name for name, value in labels[0].items() if value == "1"} == {
        "Cardiomegaly", "Pleural Effusion",
    }  # fmt: skip
    (box,) = json.loads((tmp_path / "out/boxes.json").read_text())["annotations"]
    assert box["bbox"] == [225.08, 547.01, 86.7, 79.1]


def dicom_archive(root: Path) -> Path:
    """Four films of three patients, one of them lateral, beside a table of reports."""
    reports = []
    for number, (patient, view) in enumerate((("A", "PA"), ("A", "LL"), ("B", "AP"), ("C", "PA"))):
        pixels = np.random.default_rng(number).integers(0, 4096, (96, 80)).astype(np.uint16)
        save_radiograph(
            root / f"films/{number}.dcm", f"1.2.826.0.1.3680043.10.9.{number + 1}", pixels,
            PatientID=patient, PatientName="Planted^Name", ViewPosition=view,
            StudyInstanceUID=f"1.2.826.0.1.3680043.10.8.{number + 1}",
            AccessionNumber=f"ACC{number}", StudyDate="20200101",
        )  # fmt: skip
        reports.append({"accession": f"ACC{number}", "findings": f"Report {number} is clear."})
    save_table(root / "reports.csv", reports)
    return root


def test_dicom_files_with_a_table_of_reports(tmp_path: Path) -> None:
    root = dicom_archive(tmp_path / "archive")
    given = root / "films", "--reports", root / "reports.csv"
    summary = answer("import", *given, "--out", tmp_path / "out")
    assert (summary["images"], summary["reports"]) == (3, 3)
    assert {row["patient_id"] for row in rows_of(tmp_path / "out/manifest.csv")} == {"A", "B", "C"}
    assert "lateral" in (tmp_path / "out/import.rejected.csv").read_text()
    said = {row["findings"] for row in rows_of(tmp_path / "out/reports.csv")}
    assert said == {f"Report {number} is clear." for number in (0, 2, 3)}
    tables = [data for name, data in tree(tmp_path / "out").items() if name.endswith("csv")]
    assert not any(b"Planted" in data for data in tables)


def test_hashed_ids_leave_no_id(tmp_path: Path) -> None:
    root = dicom_archive(tmp_path / "archive")
    (tmp_path / "key").write_bytes(b"0123456789abcdefghij")
    given = root / "films", "--reports", root / "reports.csv", "--hash-ids", tmp_path / "key"
    summary = answer("import", *given, "--out", tmp_path / "out")
    assert (summary["images"], summary["reports"]) == (3, 3)
    tables = [data for name, data in tree(tmp_path / "out").items() if name.endswith("csv")]
    assert not any(b"ACC" in data or b"1.2.826" in data for data in tables)


def test_pictures_with_the_table_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    rows = []
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (96, 80)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"films/f{number}.png")
        rows.append({"Bild": f"f{number}.png", "Patient": f"P{number}", "Text": "Clear lungs."})
    save_table(tmp_path / "reports.csv", rows)
    columns = "image=Bild,patient_id=Patient,report=Text"
    given = tmp_path / "films", "--reports", tmp_path / "reports.csv", "--columns", columns
    summary = answer("import", *given, "--out", tmp_path / "out")
    assert (summary["images"], summary["reports"]) == (4, 4)
    assert answer("check-data", tmp_path / "out")["errors"] == 0


def test_a_folder_without_films_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set/notes.md").write_text("nothing")
    line = refusal("import", tmp_path / "set", "--out", tmp_path / "out")
    assert str(tmp_path / "set") in line
    assert not (tmp_path / "out").exists()
