"""Who trains, validates and tests: whole patients, some of every finding in each part."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.datasets.importing.reading import TRAIN_OR_VAL
from cxrtext.datasets.importing.splits import Shares, Splits, quotas
from tests.datasets.test_import_folder import write_set

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
    patients: dict[str, set[str]], shares: Shares = SHARES, seed: int = 0, given: str = ""
) -> dict[str, str]:
    splits = Splits(shares, seed)
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
    assert drawn(nobody) != drawn(nobody, seed=1)
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


@pytest.mark.parametrize("seed", range(10))
def test_every_part_gets_some_of_every_finding(seed: int) -> None:
    patients = archive(3468, {**FINDINGS, "Hernia": 7}, seed)
    parts = drawn(patients, seed=seed)
    for name, times in {**FINDINGS, "Hernia": 7}.items():
        found = Counter(parts[one] for one, findings in patients.items() if name in findings)
        wanted = quotas(times, SHARES)
        # Whoever has two findings counts for both.
        assert all(abs(found[part] - wanted[part]) <= 2 for part in wanted), (name, found)
        assert min(found[part] for part in wanted) >= 1
    plain = drawn({one: set() for one in patients}, seed=seed)
    assert sum(plain[one] != parts[one] for one in patients) < 0.03 * len(patients)


def test_patients_who_come_later_move_few() -> None:
    patients = archive(3468, FINDINGS)
    before = drawn(dict(list(patients.items())[:3300]))
    after = drawn(patients)
    assert sum(after[one] != part for one, part in before.items()) < 0.01 * len(before)


def read(folder: Path) -> dict[str, str]:
    with (folder / "manifest.csv").open(newline="") as file:
        return {row["patient_id"]: row["split"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("source", ["labels", "reports"])
def test_an_import_gives_each_part_some_of_a_finding_of_seven_patients(
    tmp_path: Path, source: str
) -> None:
    images = [f"{n}.png" for n in range(60)]
    rows = [f"{n}.png,s{n},p{n}" for n in range(60)]
    root = write_set(tmp_path, "image,study_id,patient_id\n" + "\n".join(rows) + "\n", *images)
    ill = range(11, 60, 7)
    values = {"labels": ("Fracture", "1", "0"),
              "reports": ("report", "Old rib fractures.", "No rib fracture.")}  # fmt: skip
    name, there, absent = values[source]
    lines = [f"s{n},{there if n in ill else absent}" for n in range(60)]
    (root / f"{source}.csv").write_text(f"study_id,{name}\n" + "\n".join(lines) + "\n")
    for seed in range(4):
        import_folder(root, tmp_path / f"out{seed}", ImportOptions(seed=seed))
        parts = read(tmp_path / f"out{seed}")
        assert Counter(parts[f"p{n}"] for n in ill) == {"train": 5, "val": 1, "test": 1}


def test_who_was_imported_before_keeps_the_part(tmp_path: Path) -> None:
    images = [f"{n}.png" for n in range(80)]
    root = write_set(tmp_path, "", *images)

    def take(count: int) -> dict[str, str]:
        rows = [f"{n}.png,s{n},p{n},{int(n % 5 == 0)}" for n in range(count)]
        (root / "manifest.csv").write_text(
            "image,study_id,patient_id,Fracture\n" + "\n".join(rows) + "\n"
        )
        import_folder(root, tmp_path / "out")
        return read(tmp_path / "out")

    before = take(30)
    after = take(80)
    assert {one: after[one] for one in before} == before
    found = Counter(after[f"p{n}"] for n in range(0, 80, 5))
    assert found == quotas(16, SHARES)


def test_who_was_imported_before_keeps_the_part_when_a_new_patient_has_the_same_picture(
    tmp_path: Path,
) -> None:
    root = tmp_path / "set"
    root.mkdir()
    for n in range(8):
        pixels = np.random.default_rng(n).integers(0, 255, (64, 64)).astype(np.uint8)
        for name in "ab":
            Image.fromarray(pixels).save(root / f"{name}{n}.png")

    def take(names: str) -> dict[str, str]:
        rows = [f"{name}{n}.png,s{name}{n},{name}{n}" for n in range(8) for name in names]
        (root / "manifest.csv").write_text("image,study_id,patient_id\n" + "\n".join(rows) + "\n")
        options = ImportOptions(pixels=True, same_images="one-split", split=(40, 30, 30), workers=1)
        import_folder(root, tmp_path / "out", options)
        return read(tmp_path / "out")

    before = take("b")
    after = take("ab")
    assert {one: after[one] for one in before} == before
    assert [after[f"a{n}"] for n in range(8)] == [after[f"b{n}"] for n in range(8)]
