from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

from cxrtext.evaluation.intervals.bootstrap import (
    interval,
    logit_interval,
    paired_difference,
    resample_patients,
)
from cxrtext.evaluation.metrics import (
    area_under_curve,
    average_precision,
    weighted_mean,
    weighted_median,
)

Floats = NDArray[np.float64]


def drawn(seed: int, n: int = 60) -> tuple[Floats, NDArray[np.int64], list[str]]:
    """Scores with ties, labels and patients with several images."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, n)
    patients = [f"p{number}" for number in generator.integers(0, n // 2, n)]
    return np.round(generator.normal(labels * 0.8), 1), labels, patients


def test_patients_are_drawn_whole() -> None:
    patients = ["a", "b", "a", "c"]
    counts = resample_patients(patients, 500, np.random.default_rng(0))
    assert counts.shape == (500, 4)
    np.testing.assert_array_equal(counts[:, 0], counts[:, 2])
    assert (counts[:, [0, 1, 3]].sum(axis=1) == 3).all()  # as many patients as there are
    assert counts[:, 1].mean() == pytest.approx(1, abs=0.15)
    again = resample_patients(patients, 500, np.random.default_rng(0))
    np.testing.assert_array_equal(counts, again)
    with pytest.raises(ValueError, match="at least one"):
        resample_patients([], 1, np.random.default_rng(0))


def test_measures_by_hand() -> None:
    scores, labels = [3.0, 2.0, 2.0, 1.0], [1, 0, 1, 0]
    weights = [[1, 1, 1, 1], [2, 1, 0, 0], [0, 1, 1, 0], [0, 1, 0, 3], [0, 0, 0, 0]]
    areas = area_under_curve(scores, labels, weights)
    # First: pairs 1, 1, one half, 1 of four. Third: one pair, and it is a tie. Then one class.
    np.testing.assert_allclose(areas, [3.5 / 4, 1, 0.5, np.nan, np.nan])
    precisions = average_precision(scores, labels, weights)
    np.testing.assert_allclose(precisions, [(1 + 2 / 3) / 2, 1, 0.5, np.nan, np.nan])
    np.testing.assert_allclose(weighted_mean([1, 2, 3, 4], weights)[:3], [2.5, 4 / 3, 2.5])
    np.testing.assert_allclose(weighted_median([4, 9, 1, 2], weights), [3, 4, 5, 2, np.nan])
    np.testing.assert_allclose(weighted_mean(np.array([1, 5, 10, 50]) <= 5, weights)[:2], [0.5, 1])


@pytest.mark.parametrize("measure", [area_under_curve, average_precision])
@pytest.mark.parametrize("seed", range(3))
def test_all_resamples_equal_each_written_out(
    measure: Callable[..., Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, labels, patients = drawn(seed)
    counts = resample_patients(patients, 50, np.random.default_rng(seed))
    written_out = [np.repeat(np.arange(60), count) for count in counts]
    expected = [measure(scores[rows], labels[rows]) for rows in written_out]
    np.testing.assert_allclose(measure(scores, labels, weights=counts), expected, atol=1e-12)
    monkeypatch.setattr("cxrtext.evaluation.metrics.WEIGHTS_AT_ONCE", 420)  # seven resamples
    np.testing.assert_allclose(measure(scores, labels, weights=counts), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_means_and_medians_equal_each_written_out(seed: int) -> None:
    values, _, patients = drawn(seed)
    counts = resample_patients(patients, 50, np.random.default_rng(seed))
    written_out = [np.repeat(values, count) for count in counts]
    for many, one in ((weighted_mean, np.mean), (weighted_median, np.median)):
        np.testing.assert_allclose(many(values, counts), [one(v) for v in written_out], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("many", "one"),
    [(area_under_curve, roc_auc_score), (average_precision, average_precision_score)],
)
def test_measures_agree_with_scikit_learn(many: Any, one: Any, seed: int) -> None:
    scores, labels, _ = drawn(seed, 200)
    assert many(scores, labels) == pytest.approx(one(labels, scores), abs=1e-12)
    weights = np.random.default_rng(seed).random((5, 200))
    expected = [one(labels, scores, sample_weight=w) for w in weights]
    np.testing.assert_allclose(many(scores, labels, weights), expected, atol=1e-12)


def test_interval_by_hand() -> None:
    assert interval(np.arange(201)) == pytest.approx((5, 195))
    with pytest.raises(ValueError, match="NaN"):
        interval([1.0, np.nan])


def test_percentiles_of_few_patients_lie_further_apart() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    expected = stats.t.ppf(0.975, 9) * np.sqrt(10 / 9)  # in deviations, 2.38 in place of 1.96
    assert interval(values, patients=10) == pytest.approx((-expected, expected), abs=0.06)
    assert interval(values, patients=10**6) == pytest.approx(interval(values), abs=1e-4)
    with pytest.raises(ValueError, match="two patients"):
        interval(values, patients=1)
    given = values + 2.2, np.zeros(20_000), 2.2
    plain, few = paired_difference(*given), paired_difference(*given, 10)
    assert plain.low > 0 > few.low
    assert plain.p_value < 0.05 < few.p_value


def test_intervals_of_average_precision() -> None:
    values = np.random.default_rng(1).normal(0.8, 0.05, 5000)
    found = logit_interval(0.8, values, 40)
    assert found is not None
    reach = 1.96 * 0.05 / 0.16
    expected = 1 / (1 + np.exp([-np.log(4) + reach, -np.log(4) - reach]))
    assert found == pytest.approx(expected, abs=0.003)
    perfect = logit_interval(1.0, np.ones(100), 10)
    assert perfect is not None
    assert 0.3 < perfect[0] < 0.6
    assert perfect[1] == 1.0
    assert logit_interval(0.8, np.empty(0), 40) is None


def test_paired_difference_by_hand() -> None:
    first, second = np.linspace(0.7, 0.8, 99), np.full(99, 0.6)
    found = paired_difference(first, second, 0.15)
    assert found.estimate == 0.15
    assert (found.low, found.high) == pytest.approx((0.1025, 0.1975))
    assert found.p_value == pytest.approx(2 / 100)  # none of 99 at or beyond 0
    assert paired_difference(second, first, -0.15).p_value == pytest.approx(2 / 100)
    assert paired_difference(first, first, 0.0).p_value == 1.0
    with pytest.raises(ValueError, match="equally long"):
        paired_difference([1.0], [1.0, 2.0], 0.0)


def test_wrong_weights_and_values() -> None:
    wrong: list[Any] = [[[1.0]], [[-1.0, 1.0]], [1.0, 1.0], [["a", "b"]]]
    for weights in wrong:
        with pytest.raises(ValueError, match="weights must"):
            area_under_curve([1.0, 2.0], [0, 1], weights)
    with pytest.raises(ValueError, match="without NaN"):
        weighted_mean([np.nan], [[1]])
