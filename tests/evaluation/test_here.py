"""Thresholds by labels that err, and by films that were read."""

import numpy as np
import pytest

from cxrtext.evaluation.classification.calibration import fit_logistic
from cxrtext.evaluation.classification.here import (
    MEASURES,
    accuracy_of,
    draw_films,
    given,
    sampled_point,
    strata_of,
)
from cxrtext.evaluation.intervals.estimates import Estimate


def test_accuracy_by_hand() -> None:
    # Of 100 films 20 lie above: 15 have the finding there, and 5 below.
    found = accuracy_of(np.array([0.75, 5 / 80]), np.array([0.2, 0.8]), np.array([True, False]))
    assert [float(found[name]) for name in MEASURES] == pytest.approx(
        [15 / 20, 75 / 80, 15 / 20, 75 / 80, 0.2]
    )


def test_labels_that_err_are_corrected_by_films_that_were_read() -> None:
    """Of 1,000 films 200 lie above.  Labels say 1 of 120 there, rightly of 90, and miss 30.

    Below they say so of 60, rightly of 10, and miss none.  A fifth of each cell was read.
    """
    films = [740, 60, 80, 120]  # below without and with the label, above without and with it
    present = [0, 10, 30, 90]
    for share in (0.2, 0.1):
        read = [round(share * many) for many in films]
        hits = [round(share * many) for many in present]
        truth = np.concatenate([np.arange(n) < k for n, k in zip(read, hits, strict=True)])
        strata = np.repeat(np.arange(4), read)
        found = sampled_point(truth, strata, films, [False, False, True, True])
        wide = [(one.high or 0) - (one.low or 0) for one in found.values()]
        if share == 0.2:
            sure = wide
            assert {name: one.value for name, one in found.items()} == pytest.approx({
                "sensitivity": 120 / 130, "specificity": 790 / 870, "PPV": 120 / 200,
                "NPV": 790 / 800, "prevalence": 0.13,
            })  # fmt: skip
            # Rows of one patient count as fewer.
            pairs = (np.arange(len(truth)) // 2).tolist()
            alike = sampled_point(truth, strata, films, [False, False, True, True], pairs)
            assert alike["PPV"].value == found["PPV"].value
            assert (alike["PPV"].high or 0) > (found["PPV"].high or 0)
    assert all(few > 1.15 * many for few, many in zip(wide, sure, strict=True))


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
    sizes, sides = np.bincount(strata).tolist(), [False] * 3 + [True] * 3
    assert len(sizes) == 6
    assert sizes[0] > 3 * sizes[2]  # few of many that are surely without it
    everything = sampled_point(truth, strata, sizes, sides)
    above = scores > 1.0
    ppv, sensitivity = truth[above].mean(), above[truth].mean()
    assert everything["PPV"].value == pytest.approx(ppv)
    assert everything["sensitivity"].value == pytest.approx(sensitivity)
    found = []
    for seed in range(60):
        rows = draw_films(strata, 100, seed)
        assert len(set(rows.tolist())) == 100
        assert np.bincount(strata[rows]).max() - np.bincount(strata[rows]).min() <= 1
        found.append(sampled_point(truth[rows], strata[rows], sizes, sides))
    means = [np.mean([one[name].value for one in found]) for name in ("PPV", "prevalence")]
    assert means == pytest.approx([ppv, truth.mean()], abs=0.015)
    held = np.mean([one["PPV"].low <= ppv <= one["PPV"].high for one in found])
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
