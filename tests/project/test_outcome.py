"""What a training can be found to have learned, before it is begun."""

from pathlib import Path
from shutil import copytree

import pytest

from cxrtext.project import outcome
from cxrtext.project.facts import facts_of_data
from cxrtext.project.outcome import HeldOut, advice, least_auc, outcome_rows, usual_auc
from tests.conftest import read_csv


def test_an_auc_is_told_from_chance_by_the_variance_of_the_rank_sum() -> None:
    # Var(AUC) = (m + n + 1) / (12 m n): 41 / (12 · 20 · 20) = .00854, whose root is .0924.
    assert least_auc(20, 20) == pytest.approx(0.5 + 1.96 * 0.09242, abs=1e-4)
    assert least_auc(1, 23) > 1


def test_findings_are_listed_with_what_they_can_show() -> None:
    held_out = HeldOut(40, {"Edema": 0, "Effusion": 1, "Opacity": 20, "Devices": 40})
    assert outcome_rows(held_out) == [
        ("finding", "of 40 held out", "told from chance above AUC"),
        ("Opacity", "20", "0.68"),
        ("Effusion", "1", "never"),
    ]
    assert outcome_rows(HeldOut(0, {})) == []


def test_small_archives_are_told_what_else_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "REAL_FILMS", ((300, 0.64), (1200, 0.74)))
    assert usual_auc(600) == pytest.approx(0.69)
    assert (usual_auc(10), usual_auc(9999)) == (0.64, 0.74)
    few = advice(HeldOut(20, {"Edema": 5}), 160, given=False)
    assert "none has so many" in few[0]
    assert "gave a mean AUC of 0.64" in few[1]
    assert "(--encoder)" in few[2]
    assert "(--model)" in few[2]
    assert "--encoder" not in advice(HeldOut(20, {}), 160, given=True)[2]
    assert len(advice(HeldOut(300, {"Edema": 30}), 1000, given=False)) == 2


def test_what_is_held_out_is_counted_in_a_data_folder(data_folder: Path, tmp_path: Path) -> None:
    """By its labels; and by its reports where there are none."""
    folder = tmp_path / "data"
    copytree(data_folder, folder)
    tested = {
        row["study_id"] for row in read_csv(folder / "manifest.csv") if row["split"] == "test"
    }
    labels = read_csv(folder / "labels.csv")
    with_it = sum(r["Pleural Effusion"] == "1" for r in labels if r["study_id"] in tested)
    found = facts_of_data(folder).tested
    assert (found.films, found.present["Pleural Effusion"]) == (len(tested), with_it)
    (folder / "labels.csv").unlink()
    assert facts_of_data(folder).tested.present["Pleural Effusion"] == with_it > 0
