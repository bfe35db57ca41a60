"""Patients' films in time: pairs, the head that learns from them, and what it says of two films."""

import csv
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import cxrtext
from cxrtext.errors import CheckpointError, DataError, NotFoundError
from cxrtext.evaluation.changes import said_changes
from cxrtext.index import build_index, open_index
from cxrtext.index.order import study_pairs
from cxrtext.index.pairs import LearnedChanges, learn_changes
from cxrtext.models import load_model
from cxrtext.models.changes import FILE, ChangeHead, changes_beside
from tests.conftest import Once, draw, flip

COURSES = {
    ("clear", "effusion"): "New left pleural effusion.",
    ("effusion", "clear"): "The left pleural effusion has resolved.",
    ("effusion", "effusion"): "Stable left pleural effusion.",
}
PATIENTS, UNDATED = 66, 2


def write_films(folder: Path) -> None:
    """Two films a patient, the later one first in the table; the last patients have no dates."""
    (folder / "images").mkdir(parents=True)
    manifest, reports = [], []
    for patient in range(PATIENTS + UNDATED):
        kinds, said = list(COURSES.items())[patient % 3]
        for day in (10, 9):
            study = f"s{patient:02d}-{day}"
            pixels = draw(kinds[day == 10], 2 * patient + (day == 10))
            split = "train" if patient < 63 else "test"
            date = f"{day}.5.2024" if patient < PATIENTS else ""  # as text, 10 would come first
            for view in ("lateral", "PA") if patient == 0 else ("PA",):
                image = f"images/{study}{'' if view == 'PA' else '-side'}.png"
                Image.fromarray(pixels).save(folder / image)
                manifest.append([image, study, f"p{patient:02d}", split, date, view])
            reports.append([study, said if day == 10 else "The lungs are clear."])
    for name, columns, rows in (
        ("manifest", ["image", "study_id", "patient_id", "split", "date", "view"], manifest),
        ("reports", ["study_id", "findings"], reports),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as handle:
            csv.writer(handle).writerows([columns, *rows])


@pytest.fixture(scope="module")
def films(checkpoint: Path, once: Once) -> Path:
    """A checkpoint and an index of films in time, with a head that has learned from them."""

    def make(folder: Path) -> None:
        write_films(folder / "set")
        model = Path(shutil.copytree(checkpoint, folder / "checkpoint"))
        build_index(folder / "set/manifest.csv", model, folder / "index")
        learned = learned_from(folder)
        assert learned.path == model / FILE
        assert (learned.pairs, learned.unordered) == (63, UNDATED)
        assert learned.said == {"improved": 21, "unchanged": 21, "worse": 21}

    return once("films", make)


def learned_from(folder: Path, split: str = "train") -> LearnedChanges:
    archive = open_index([folder / "index"], folder / "checkpoint")
    try:
        return learn_changes(archive.parts[0], split)
    finally:
        archive.close()


def test_a_head_tells_what_became_of_a_finding_of_new_patients(films: Path) -> None:
    with cxrtext.open(films / "checkpoint") as project:
        for patient, expected in ((63, "worse"), (64, "improved"), (65, "unchanged")):
            before, now = (films / f"set/images/s{patient}-{day}.png" for day in (9, 10))
            found = {one.finding: one for one in project.compare(before, now)}
            effusion = found["Pleural Effusion"]
            held = [effusion.improved, effusion.unchanged, effusion.worse]
            assert sum(held) == pytest.approx(1.0)
            assert ("improved", "unchanged", "worse")[int(np.argmax(held))] == expected
            (back,) = (
                one for one in project.compare(now, before) if one.finding == "Pleural Effusion"
            )
            assert [back.worse, back.unchanged, back.improved] == pytest.approx(held, abs=1e-5)
        sides = ("Left pleural effusion.", "The lungs are clear.")
        asked = {"No Finding": sides[::-1], "Fluid": sides}
        assert [one.finding for one in project.compare(before, now, asked)] == ["Fluid"]


def test_pairs_follow_time_and_leave_out_what_has_no_order(films: Path) -> None:
    archive = open_index([films / "index"], films / "checkpoint")
    pairs, unordered = study_pairs(archive.parts)
    assert (len(pairs), unordered) == (PATIENTS, UNDATED)
    for pair in pairs:
        assert [one.metadata["date"] for one in pair] == ["9.5.2024", "10.5.2024"]
        assert pair.prior.patient_id == pair.present.patient_id
        assert [one.metadata["view"] for one in pair] == ["PA", "PA"]
    archive.close()
    with pytest.raises(DataError, match="of 3 pairs of .* say of 1 finding.* 2 patient"):
        learned_from(films, split="test")


@torch.no_grad()
def test_a_score_is_the_formula_of_the_paper_on_mapped_regions() -> None:
    torch.manual_seed(1)
    head = ChangeHead("lse", 10.0, 8).double().eval()
    regions = F.normalize(torch.randn(2, 5, 8, dtype=torch.float64), dim=-1)
    vectors = F.normalize(torch.randn(3, 8, dtype=torch.float64), dim=-1)
    found = head.scores(regions, vectors)
    for f, vector in enumerate(vectors):
        text = head.finding.weight @ vector
        for b, film in enumerate(regions):
            likeness = []
            for region in film:
                mapped = head.second(F.gelu(head.first(region * math.sqrt(8))))
                likeness.append(float(mapped @ text / mapped.norm() / text.norm()))
            lse = math.log(sum(math.exp(10 * one) for one in likeness) / 5) / 10
            assert float(found[f, b]) == pytest.approx(float(head.log_gamma_sq.exp()) * lse)
    held = head.probabilities(torch.tensor([-50.0, 0.0, 50.0]))
    assert held.argmax(dim=0).tolist() == [0, 1, 2]
    assert held.sum(dim=0).tolist() == pytest.approx([1.0] * 3)


def test_what_reports_say_became_of_findings() -> None:
    assert said_changes(["New left effusion.", "Stable cardiomegaly.", "Edema."]) == {
        "Pleural Effusion": "worse",
        "Cardiomegaly": "unchanged",
    }
    assert said_changes(["The effusion has resolved."]) == {"Pleural Effusion": "improved"}
    assert not said_changes(["No new effusion."])
    assert not said_changes(
        ["Right effusion has increased.", "Left effusion is smaller, improved."]
    )


def test_a_checkpoint_without_a_head_and_with_a_damaged_one(
    films: Path, checkpoint: Path, tmp_path: Path
) -> None:
    image = films / "set/images/s00-9.png"
    with cxrtext.open(checkpoint) as project, pytest.raises(NotFoundError, match="learn-changes"):
        project.compare(image, image)
    copy = Path(shutil.copytree(films / "checkpoint", tmp_path / "copy"))
    assert changes_beside(load_model(copy)) is not None
    flip(copy / FILE, -5)
    with pytest.raises(CheckpointError, match=f"{FILE}.*learn-changes PROJECT"):
        changes_beside(load_model(copy))
