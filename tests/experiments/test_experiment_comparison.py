"""Measures over resamples, against cases worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cxrtext.experiments.comparison import (
    Sample,
    compare_rows,
    difference,
    draw_sample,
    estimate,
    row_values,
)
from cxrtext.experiments.measuring import ImageScores
from cxrtext.experiments.questions import answer_questions, together, verdict

# A positive at -0.5 below a negative at 0.5: one of the four pairs is wrong, and half the signs.
DIFFERENCES = [-1.5, -0.5, 0.5, 1.5]
LABELS = [0, 1, 0, 1]


def scores(differences: list[float], labels: list[int] | None = None) -> ImageScores:
    labels = labels or LABELS
    return ImageScores(
        images=np.array([f"{i}.png" for i in range(len(labels))]),
        patients=np.array([f"p{i // 2}" for i in range(len(labels))]),
        findings=("Edema", "Pneumonia"),
        differences=np.array([differences, differences]),
        labels=np.array([labels, [-2] * len(labels)], dtype=np.int8),
    )


def sample(*resamples: list[int]) -> Sample:
    drawn = draw_sample(scores(DIFFERENCES), 1)
    return replace(drawn, weights=np.array([[1, 1, 1, 1], *resamples]))


def test_auc_and_accuracy_of_a_resample_count_rows_as_often_as_they_are_drawn() -> None:
    # The second resample holds the one pair that is wrong, the first one only right pairs.
    measured = row_values({0: scores(DIFFERENCES)}, sample([1, 0, 2, 1], [0, 2, 1, 0]))
    np.testing.assert_allclose(measured.auc(), [0.75, 1.0, 0.0])
    np.testing.assert_allclose(measured.accuracy(), [0.5, 0.5, 0.0])
    assert list(measured.by_finding()) == ["Edema"]


def test_seeds_are_averaged_within_each_resample() -> None:
    by_seed = {0: scores(DIFFERENCES), 1: scores([-2.0, 2.0, -1.0, 1.0])}
    measured = row_values(by_seed, sample([0, 2, 1, 0]))
    np.testing.assert_allclose(measured.auc(), [(0.75 + 1.0) / 2, (0.0 + 1.0) / 2])
    assert [measured.auc([seed])[0] for seed in (0, 1)] == [0.75, 1.0]
    assert [measured.accuracy([seed])[0] for seed in (0, 1)] == [0.5, 1.0]


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    drawn = sample([0, 2, 1, 0])
    both = row_values({0: scores(DIFFERENCES), 1: scores([-2.0, 2.0, -1.0, 1.0])}, drawn)
    one = row_values({1: scores(DIFFERENCES)}, drawn)
    found = compare_rows(both, one)
    assert found is not None
    assert found["AUC"]["value"] == pytest.approx(0.25)  # of seed 1 alone: 1 less 0.75
    assert (found["seeds above"], found["seeds"]) == (1, 1)
    assert compare_rows(row_values({0: scores(DIFFERENCES)}, drawn), one) is None


def test_rows_are_drawn_by_patient_and_hold_both_classes() -> None:
    labels = [0, 0, 1, 1, 0, 0]
    one = replace(scores([0.0] * 6, labels), findings=("Edema", "Pneumonia"))
    drawn = draw_sample(one, 50)
    assert (drawn.findings, drawn.left_out, drawn.patients) == (("Edema",), ("Pneumonia",), 3)
    assert drawn.weights.shape == (51, 6)
    assert (drawn.weights[0] == 1).all()
    np.testing.assert_array_equal(drawn.weights[:, 0::2], drawn.weights[:, 1::2])
    truth = np.array(labels) == 1
    assert (drawn.weights[:, truth].sum(axis=1) > 0).all()
    assert (drawn.weights[:, ~truth].sum(axis=1) > 0).all()
    assert drawn.redrawn > 0  # one patient of three has the finding


def test_equal_rows_differ_by_nothing() -> None:
    drawn = draw_sample(scores(DIFFERENCES), 100)
    one = row_values({0: scores(DIFFERENCES)}, drawn)
    found = compare_rows(one, one)
    assert found is not None
    assert found["AUC"] == {"value": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}
    assert (found["seeds above"], found["seeds"]) == (0, 1)


def test_a_difference_is_paired() -> None:
    # Both rows swing with the resample, their difference does not.
    first, second = np.array([0.8, 0.7, 0.9, 0.5]), np.array([0.7, 0.6, 0.8, 0.4])
    found = difference(first, second)
    assert found["value"] == pytest.approx(0.1)
    assert found["low"] == pytest.approx(0.1)
    assert found["high"] == pytest.approx(0.1)
    assert found["p"] == pytest.approx(2 * 1 / 4)  # no difference at or below 0, three resamples
    assert verdict(found) == "better"


def test_without_resamples_there_is_no_interval() -> None:
    assert estimate(np.array([0.5])) == {"value": 0.5, "low": None, "high": None}
    assert difference(np.array([0.5]), np.array([0.4]))["p"] is None


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.001, 0.2, "better"),
        (-0.2, -0.001, "worse"),
        (-0.004, 0.027, "not told apart"),
        (0.0, 0.1, "not told apart"),
        (None, None, "not measured"),
    ],
)
def test_verdicts(low: float | None, high: float | None, says: str) -> None:
    assert verdict({"value": 0.0, "low": low, "high": high}) == says


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        (["better", "better"], "yes"),
        (["better", "not measured"], "yes (1 not measured)"),
        (["worse"], "no, it is worse"),
        (["not told apart"], "not told apart"),
        (["better", "worse", "better"], "of 3 comparisons: better 2, worse 1"),
        (["not measured"], "not measured"),
    ],
)
def test_several_verdicts_make_one_answer(verdicts: list[str], says: str) -> None:
    assert together(verdicts) == says


def test_the_questions_are_answered_from_the_intervals() -> None:
    drawn = draw_sample(scores(DIFFERENCES), 200)
    rows = {
        "lse-nl": row_values({0: scores([1.5, 0.5, -0.5, -1.5])}, drawn),  # AUC 0.25
        "dcl-eta-lm": row_values({0: scores([-2.0, 2.0, -1.0, 1.0])}, drawn),  # AUC 1
    }
    first, second, third = answer_questions(rows)
    assert first["answer"] == "yes"
    assert first["lines"][0].startswith("against LSE+NL: AUC difference +0.750 [")
    assert first["lines"][0].endswith("]: better")
    assert second["answer"] == "not measured"
    assert second["lines"][0] == "against DCL-η, η = 0.05: not measured"
    assert len(third["lines"]) == 4
