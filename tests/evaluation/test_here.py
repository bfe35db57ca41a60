"""Thresholds by labels that err, by films that were read, and weeks beside their reference."""

import numpy as np
import pytest

from cxrtext.evaluation.classification.calibration import fit_logistic
from cxrtext.evaluation.classification.here import (
    MEASURES,
    LabelError,
    accuracy_of,
    corrected_point,
    draw_films,
    given,
    label_errors,
    sampled_point,
    strata_of,
)
from cxrtext.evaluation.drift import distribution_of, drift
from cxrtext.evaluation.intervals.estimates import Estimate


def table(*cells: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Scores and labels with so many films of each (score, label), and a patient a film."""
    scores = np.concatenate([np.full(n, float(score)) for score, _, n in cells])
    labels = np.concatenate([np.full(n, label) for _, label, n in cells])
    return scores, labels, list(range(len(scores)))


def test_accuracy_by_hand() -> None:
    # Of 100 films 20 lie above: 15 have the finding there, and 5 below.
    found = accuracy_of(np.array([0.75, 5 / 80]), np.array([0.2, 0.8]), np.array([True, False]))
    assert [float(found[name]) for name in MEASURES] == pytest.approx(
        [15 / 20, 75 / 80, 15 / 20, 75 / 80, 0.2]
    )


def test_a_labeller_s_error_is_taken_out_again() -> None:
    """Of 1,000 films 200 have the finding, 160 of them above, 40 of the others too.

    Labels find 80 % and pass 10 %: above 132 of 200 are labelled, below 108 of 800.
    """
    scores, labels, patients = table((1, 1, 132), (1, 0, 68), (0, 1, 108), (0, 0, 692))
    found = corrected_point(scores, labels, 0.5, LabelError(800, 1000, 100, 1000), patients)
    values = {name: one.value for name, one in found.items()}
    assert values == pytest.approx(
        {"sensitivity": 0.8, "specificity": 0.95, "PPV": 0.8, "NPV": 0.95, "prevalence": 0.2}
    )
    # The fewer films the error is of, the less is known of the rest.
    rough = corrected_point(scores, labels, 0.5, LabelError(40, 50, 5, 50), patients)
    for name in MEASURES:
        sure, unsure = ((one.high or 0) - (one.low or 0) for one in (found[name], rough[name]))
        assert unsure > 1.2 * sure > 0
    said = corrected_point(scores, labels, 0.5, LabelError(55, 100, 50, 100), patients)
    assert set(said.values()) == {Estimate()}  # no better than chance


def test_the_error_is_that_of_studies_in_both_tables() -> None:
    labels = {"a": {"X": 1}, "b": {"X": 0}, "c": {"X": 1}, "d": {"X": -1}, "e": {"X": 1}}
    read = {"a": {"X": 1}, "b": {"X": 1}, "c": {"X": 0}, "d": {"X": 0}, "f": {"X": 0}}
    assert label_errors(labels, read, ["X"]) == {"X": LabelError(1, 2, 1, 1)}


@pytest.mark.parametrize(
    ("found", "patients", "kept"),
    [
        (Estimate(0.8, 0.7, 0.95), 25, (0.8, 0.7, 0.95)),
        (Estimate(0.8, 0.7, 0.95), 24, None),
        (Estimate(0.8, 0.6, 0.91), 400, None),
        (Estimate(), 400, None),
    ],
)
def test_not_enough_is_no_number(
    found: Estimate, patients: int, kept: tuple[float, float, float] | None
) -> None:
    assert given(found, patients) == kept


@pytest.fixture(scope="module")
def archive() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of 4,000 films, whether they have the finding, and the chance of it by the score."""
    rng = np.random.default_rng(1)
    truth = rng.random(4000) < 0.1
    scores = rng.normal(2.0 * truth)
    return scores, truth, 1 / (1 + np.exp(-(2 * scores - 2 + np.log(1 / 9))))


def test_films_are_drawn_around_the_threshold_and_stand_for_all(
    archive: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    scores, truth, likely = archive
    strata = strata_of(scores, likely, 1.0)
    assert ((strata >= 3) == (scores > 1.0)).all()
    sizes = dict(enumerate(np.bincount(strata).tolist()))
    assert set(sizes) == set(range(6))
    assert sizes[0] > 3 * sizes[2]  # few of many that are surely without it
    everything = sampled_point(truth, strata, sizes)  # all were read: nothing is uncertain
    above = scores > 1.0
    ppv, sensitivity = truth[above].mean(), above[truth].mean()
    assert everything["PPV"] == Estimate(*[pytest.approx(ppv)] * 3)
    assert everything["sensitivity"].value == pytest.approx(sensitivity)
    found = []
    for seed in range(60):
        rows = draw_films(strata, 100, seed)
        assert len(set(rows.tolist())) == 100
        assert np.bincount(strata[rows]).max() - np.bincount(strata[rows]).min() <= 1
        found.append(sampled_point(truth[rows], strata[rows], sizes))
    means = [np.mean([one[name].value for one in found]) for name in ("PPV", "prevalence")]
    assert means == pytest.approx([ppv, truth.mean()], abs=0.015)
    held = np.mean([one["PPV"].low <= ppv <= one["PPV"].high for one in found])  # type: ignore[operator]
    assert held > 0.85


def test_small_strata_are_read_whole() -> None:
    strata = np.array([0, 0, 3, 3, 3, 3, 3, 3])
    assert np.bincount(strata[draw_films(strata, 6)]).tolist() == [2, 0, 0, 4]
    assert len(draw_films(strata, 100)) == 8


def test_weights_stand_for_rows() -> None:
    rng = np.random.default_rng(0)
    design = np.stack([np.ones(40), rng.normal(size=40)], axis=1)
    target, times = (rng.random(40) < 0.4).astype(float), rng.integers(1, 5, 40)
    weighted = fit_logistic(design, target, weights=times / times.mean())
    assert weighted == pytest.approx(
        fit_logistic(np.repeat(design, times, axis=0), np.repeat(target, times)), abs=1e-6
    )


def test_weeks_without_drift_raise_no_alarm_and_drift_does() -> None:
    rng = np.random.default_rng(0)
    reference = distribution_of(rng.normal(size=500).tolist())
    assert reference is not None
    assert sum(reference.counts) == 500
    assert set(reference.counts) == {25}

    def week(shift: float, n: int) -> float:
        counts = [0] * len(reference.counts)
        for value in rng.normal(shift, size=n).tolist():
            counts[reference.place(value)] += 1
        return drift(reference.counts, counts, 10)

    assert max(week(0.0, 200) for _ in range(100)) < 1
    assert week(1.0, 200) > 1
    # One bin against the other: a difference of one half, by the inequality at 50 and 50 images.
    limit = np.sqrt(np.log(2 * 52 / 0.05) / 2 * (1 / 50 + 1 / 50))
    assert drift([50, 0], [25, 25], 1) == pytest.approx(0.5 / limit)


def test_words_that_are_new_have_a_bin() -> None:
    found = distribution_of(["AP"] * 30 + ["PA"] * 30)
    assert found is not None
    assert found.counts == [30, 30, 0]
    assert [found.place(word) for word in ("AP", "PA", "lateral")] == [0, 1, 2]
    assert distribution_of(["AP"] * 49) is None  # too few to compare with
