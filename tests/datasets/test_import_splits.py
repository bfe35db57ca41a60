"""Whose an image is, and who trains, validates and tests: whole patients."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from cxrtext.datasets.importing import ImportOptions, ImportSummary, import_folder
from cxrtext.datasets.importing.reading import TRAIN_OR_VAL
from cxrtext.datasets.importing.resolving import (
    AGAIN,
    ANOTHERS,
    CORRECTED,
    OTHER_PIXELS,
    TWO_PATIENTS,
)
from cxrtext.datasets.importing.splits import Shares, Splits, quotas
from cxrtext.errors import DataError
from tests.datasets.imported import import_beside
from tests.datasets.test_import_folder import write_set
from tests.datasets.written import load_table, save_radiograph


def save(path: Path, number: int, seed: int | None = None, **elements: Any) -> None:
    """A radiograph of a study and a patient of its own; None leaves an element out."""
    pixels = np.random.default_rng(number if seed is None else seed).integers(0, 4096, (16, 16))
    values = {"StudyInstanceUID": f"1.2.9.{number}", "PatientID": f"{number:05d}"}
    given = {**values, "BodyPartExamined": "CHEST", **elements}
    save_radiograph(path, f"1.2.3.{number}", pixels.astype("<u2"), **given)


def load(
    tree: Path, **options: Any
) -> tuple[ImportSummary, dict[str, dict[str, str]], dict[str, str]]:
    summary, rows, why = import_beside(tree, **options)
    return summary, {row["image"].removeprefix("images/"): row for row in rows}, why


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "tree"


def test_one_number_of_two_issuers_is_two_patients(tree: Path) -> None:
    save(tree / "n", 1, PatientID="000123", IssuerOfPatientID="NORD")
    save(tree / "s", 2, PatientID="000123", IssuerOfPatientID="SUED")
    save(tree / "old", 3, PatientID="000123")
    save(tree / "short", 4, PatientID="123")
    summary, rows, _ = load(tree)
    patients = {name: row["patient_id"] for name, row in rows.items()}
    assert patients == {
        "n": "NORD:000123", "s": "SUED:000123", "old": "000123", "short": "123"
    }  # fmt: skip
    assert summary.patients == 4
    # The issuer of old headers can be named.
    for name in ("s", "short"):
        (tree / name).unlink()
    shutil.rmtree(tree.parent / "out")
    summary, rows, _ = load(tree, issuer="NORD")
    assert {row["patient_id"] for row in rows.values()} == {"NORD:000123"}
    assert summary.patients == 1


def test_pixels_of_another_patient_under_one_uid_and_a_study_of_two_stay_out(
    tree: Path,
) -> None:
    save(tree / "a", 1, PatientID="ONE")
    save(tree / "b", 1, PatientID="OTHER", seed=99)
    for name in ("c", "d"):  # what has no UID is not a version of another
        save(tree / name, 2, SOPInstanceUID="", seed=ord(name))
    for number in (3, 4):
        save(tree / f"{number}", number, StudyInstanceUID="1.5")
    _, rows, why = load(tree)
    assert why.pop("3").startswith(TWO_PATIENTS)
    assert why.pop("4").startswith(TWO_PATIENTS)
    assert why == {"a": f"{ANOTHERS}: b", "b": f"{ANOTHERS}: a"}
    assert set(rows) == {"c", "d"}


def test_a_corrected_header_replaces_the_one_before(tree: Path) -> None:
    changed = Dataset()
    changed.AttributeModificationDateTime = "20240301120000"
    save(tree / "a", 1, PatientID="WRONG")
    save(tree / "b", 1, PatientID="RIGHT", OriginalAttributesSequence=Sequence([changed]))
    # Where no header says when it was changed, the file says it.
    save(tree / "c", 2, PatientID="RIGHT")
    save(tree / "d", 2, PatientID="WRONG")
    save(tree / "same", 2, PatientID="RIGHT")
    save(tree / "other", 3)
    save(tree / "pixels", 3, seed=99)
    for name, seconds in (("a", 9), ("b", 1), ("c", 5), ("d", 4), ("same", 3), ("other", 1)):
        os.utime(tree / name, (seconds, seconds))
    summary, rows, why = load(tree)
    assert {name: row["patient_id"] for name, row in rows.items()} == {
        "b": "RIGHT", "c": "RIGHT", "other": "00003"
    }  # fmt: skip
    assert why == {
        "a": f"{CORRECTED}: b", "d": f"{CORRECTED}: c", "same": f"{AGAIN}: c",
        "pixels": f"{OTHER_PIXELS}: other",
    }  # fmt: skip
    assert summary.images + sum(summary.set_aside.values()) == 7
    # The hospital corrects another one: the same command takes it in, and nothing else changes.
    save(tree / "c", 2, PatientID="RIGHTER")
    again, rows, _ = load(tree)
    assert rows["c"]["patient_id"] == "RIGHTER"
    assert (again.images, again.patients) == (3, 3)


def test_merged_patients_are_one(tree: Path) -> None:
    for number in (1, 2, 3):
        save(tree / str(number), number, IssuerOfPatientID="NORD")
    table = tree.parent / "merged.csv"
    table.write_text("patient_id,merged_into\nNORD:00001,NORD:00002\nNORD:00002,NORD:00009\n")
    summary, rows, _ = load(tree, merged_patients=table)
    assert [rows[n]["patient_id"] for n in "123"] == ["NORD:00009", "NORD:00009", "NORD:00003"]
    assert (summary.merged, summary.patients) == (2, 2)
    table.write_text("patient_id,merged_into\na,b\nb,a\n")
    with pytest.raises(DataError, match="merged in a circle"):
        load(tree, merged_patients=table)
    table.write_text("patient_id,merged_into\na,b\na,c\n")
    with pytest.raises(DataError, match="merged.csv row 2: an id is empty, or merged into two"):
        load(tree, merged_patients=table)


def test_equal_pixels_are_listed_and_share_a_split(tree: Path) -> None:
    for number in range(1, 9):
        save(tree / str(number), number)
    save(tree / "of-two", 20, seed=1)  # the pixels of 1, under another patient
    save(tree / "twice", 21, seed=2, StudyInstanceUID="1.2.9.2", PatientID="00002")
    out = tree.parent / "out"
    summary, rows, _ = load(tree, split=(50, 0, 50))
    assert summary.images == 10
    assert sum(summary.same_images.values()) == 2
    assert summary.same_images["twice in a study"] == 1
    listed = load_table(out / "import.same-images.csv")
    assert [(row["group"], row["image"], row["done"]) for row in listed] == [
        ("1", "images/1", "kept"), ("1", "images/of-two", "kept"),
        ("2", "images/2", "kept"), ("2", "images/twice", "kept"),
    ]  # fmt: skip
    # Who shares a picture shares a split.
    assert rows["1"]["split"] == rows["of-two"]["split"]
    assert not any("splits" in what for what in summary.same_images)


def test_what_cannot_be_decoded_stays_out(tree: Path) -> None:
    save(tree / "1", 1)
    save(tree / "2", 2, PixelData=b"\0" * 8)
    summary, rows, why = load(tree)
    assert (list(rows), list(why), summary.damaged) == (["1"], ["2"], 1)


SHARES: Shares = (80, 10, 10)
FINDINGS = {"Pneumothorax": 22, "Consolidation": 28, "Edema": 40, "Nodule": 110, "Effusion": 150,
            "Opacity": 400, "Cardiomegaly": 330}  # fmt: skip
"""Studies with each finding among the 3,468 of a public set with reports."""


def archive(count: int, findings: dict[str, int], seed: int = 0) -> dict[str, set[str]]:
    """Patients with what they have, drawn."""
    rng = np.random.default_rng(seed)
    patients = {f"p{n}": set[str]() for n in range(count)}
    for name, times in findings.items():
        for n in rng.choice(count, times, replace=False):
            patients[f"p{n}"].add(name)
    return patients


def drawn(
    patients: dict[str, set[str]], shares: Shares = SHARES, given: str = ""
) -> dict[str, str]:
    splits = Splits(shares)
    for name, findings in patients.items():
        splits.add(name, given)
        splits.note(name, findings)
    splits.draw()
    return {name: splits[name] for name in patients}


def test_patients_are_drawn_in_the_shares_asked_for() -> None:
    nobody = archive(5000, {})
    parts = Counter(drawn(nobody).values())
    assert 3900 < parts["train"] < 4100
    assert 420 < parts["val"] < 580
    assert drawn(nobody) == drawn(dict(reversed(nobody.items())))
    assert set(drawn(nobody, (0, 0, 5)).values()) == {"test"}
    assert set(drawn(archive(50, FINDINGS | dict.fromkeys(FINDINGS, 9)), given=TRAIN_OR_VAL)
               .values()) == {"train", "val"}  # fmt: skip


@pytest.mark.parametrize("shares", [SHARES, (50, 25, 25), (98, 1, 1), (1, 0, 1), (0, 1, 1)])
def test_quotas_add_up_and_leave_nobody_without(shares: Shares) -> None:
    for patients in range(3, 200):
        found = quotas(patients, shares)
        assert sum(found.values()) == patients
        assert min(found.values()) > 0
        exact = {"train": shares[0], "val": shares[1], "test": shares[2]}
        assert all(abs(n - patients * exact[p] / sum(shares)) < 2 for p, n in found.items())
    assert quotas(1, shares) == {}


@pytest.mark.parametrize("seed", range(3))
def test_every_part_gets_some_of_every_finding(seed: int) -> None:
    patients = archive(3468, {**FINDINGS, "Hernia": 7}, seed)
    parts = drawn(patients)
    for name, times in {**FINDINGS, "Hernia": 7}.items():
        found = Counter(parts[one] for one, findings in patients.items() if name in findings)
        wanted = quotas(times, SHARES)
        # Whoever has two findings counts for both.
        assert all(abs(found[part] - wanted[part]) <= 2 for part in wanted), (name, found)
        assert min(found[part] for part in wanted) >= 1
    plain = drawn({one: set() for one in patients})
    assert sum(plain[one] != parts[one] for one in patients) < 0.03 * len(patients)


def import_manifest(
    root: Path, rows: Iterable[str], out: str = "out", *, more: str = "", **options: Any
) -> dict[str, str]:
    header = f"image,study_id,patient_id{more}"
    (root / "manifest.csv").write_text("\n".join([header, *rows, ""]))
    import_folder(root, root.parent / out, ImportOptions(**options))
    table = load_table(root.parent / out / "manifest.csv")
    return {row["patient_id"]: row["split"] for row in table}


@pytest.mark.parametrize(
    ("table", "name", "there", "absent"),
    [
        ("labels", "Fracture", "1", "0"),
        ("reports", "report", "Old rib fractures.", "No rib fracture."),
    ],
)
def test_an_import_gives_each_part_some_of_a_finding_of_seven_patients(
    tmp_path: Path, table: str, name: str, there: str, absent: str
) -> None:
    root = write_set(tmp_path, "", *(f"{n}.png" for n in range(60)))
    ill = range(11, 60, 7)
    lines = [f"s{n},{there if n in ill else absent}" for n in range(60)]
    (root / f"{table}.csv").write_text(f"study_id,{name}\n" + "\n".join(lines) + "\n")
    rows = [f"{n}.png,s{n},p{n}" for n in range(60)]
    parts = import_manifest(root, rows)
    assert Counter(parts[f"p{n}"] for n in ill) == {"train": 5, "val": 1, "test": 1}


def test_who_was_imported_before_keeps_the_part(tmp_path: Path) -> None:
    root = write_set(tmp_path, "", *(f"{n}.png" for n in range(80)))
    rows = [f"{n}.png,s{n},p{n},{int(n % 5 == 0)}" for n in range(80)]
    before = import_manifest(root, rows[:30], more=",Fracture")
    after = import_manifest(root, rows, more=",Fracture")
    assert {one: after[one] for one in before} == before
    found = Counter(after[f"p{n}"] for n in range(0, 80, 5))
    assert found == quotas(16, SHARES)
