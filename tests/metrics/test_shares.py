from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from cxrtext.metrics.intervals import Interval, quantile, share, two_sided


def proportion_interval(right: Any, patients: Any = None) -> Interval:
    found = share(right, patients).interval()
    assert found is not None
    return found


def test_students_t_by_the_tables() -> None:
    assert quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert quantile(0.9, 9) == pytest.approx(1.833113, abs=1e-6)
    assert quantile(0.95, 0.7) == pytest.approx(stats.t.ppf(0.975, 0.7), rel=1e-10)
    for degrees in (2.5, inf):
        assert two_sided(-quantile(0.9, degrees), degrees) == pytest.approx(0.1, rel=1e-9)
    assert two_sided(30.0, 9) == pytest.approx(2 * stats.t.sf(30.0, 9), rel=1e-9, abs=0)


@pytest.mark.parametrize(("right", "rows"), [(0, 1), (0, 7), (3, 10), (81, 263), (20, 20)])
def test_wilson_agrees_with_scipy(right: int, rows: int) -> None:
    expected = stats.binomtest(right, rows).proportion_ci(method="wilson")
    found = proportion_interval(np.arange(rows) < right)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert proportion_interval(np.arange(rows) < right, list(range(rows))) == found


def test_the_design_effect_by_hand() -> None:
    # Four patients; sums 2, 0, 1, 1 of 2, 2, 1, 1 rows: the share is 4 / 6.
    one = share([1, 1, 0, 0, 1, 1], ["a", "a", "b", "b", "c", "d"])
    variance = 4 / 3 * ((2 - 4 / 3) ** 2 + (4 / 3) ** 2 + 2 * (1 / 3) ** 2) / 36
    found = variance / ((4 / 6) * (2 / 6) / 5)
    # Only one patient has a wrong row, so that its square, 1, weighs against 2 of full correlation.
    assert 6 / one.effective == pytest.approx((found + 2 * 10 / 6) / 3)
    assert one.degrees == 3
    t = quantile(0.95, 3)
    n = one.effective
    middle = (4 / 6 + t**2 / (2 * n)) / (1 + t**2 / n)
    half = t * np.sqrt(2 / 9 / n + t**2 / (4 * n**2)) / (1 + t**2 / n)
    assert one.interval() == pytest.approx((middle - half, middle + half))


def test_ends_and_single_patients() -> None:
    assert proportion_interval([True] * 4, list("aabb"))[1] == 1.0
    assert proportion_interval([False] * 4, list("aabb"))[0] == 0.0
    assert share([True, False], ["a", "a"]).interval() is None
    assert proportion_interval([True]) == pytest.approx((0.2065, 1.0), abs=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: share([]), "at least one row"),
        (lambda: share([0.5, np.nan]), r"lie in \[0, 1\]"),
        (lambda: share([True], ["a", "b"]), "equally many"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_clustered_intervals_hold_as_often_as_they_say() -> None:
    """300 data sets of 40 patients with one to five images: Wilson alone holds 76 % of the time."""
    generator = np.random.default_rng(2)
    held: NDArray[np.int64] = np.zeros(2, dtype=np.int64)
    for _ in range(300):
        patients = np.repeat(np.arange(40), generator.integers(1, 6, 40))
        right = generator.random(len(patients)) < generator.beta(0.8 * 0.5, 0.2 * 0.5, 40)[patients]
        for place, clusters in enumerate((None, patients.tolist())):
            low, high = proportion_interval(right, clusters)
            held[place] += low <= 0.8 <= high
    assert held[0] / 300 < 0.85
    assert held[1] / 300 > 0.91
