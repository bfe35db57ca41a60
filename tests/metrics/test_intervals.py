from collections.abc import Callable
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score

from cxrtext.metrics import intervals
from cxrtext.metrics.intervals import (
    Area,
    Difference,
    Measured,
    Median,
    area,
    average,
    degrees_of,
    hanley_mcneil_variance,
    holm,
    mean_of,
    median_of,
    placements,
    precision_of,
    quantile,
    ratio_of,
    share,
)
from cxrtext.metrics.ranking import area_under_curve

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


def difference(one: Measured, other: Measured, level: float = 0.95) -> Difference:
    found = intervals.difference(one, other, level)
    assert found is not None
    return found


def covariance(one: Area, other: Area) -> float:
    return float(np.vdot(one.influence, other.influence))


def covariances(areas: list[Area]) -> Floats:
    found = np.array([[covariance(one, other) for other in areas] for one in areas])
    return found + np.diag([one.apart for one in areas])


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Obuchowski's variance itself, not drawn toward Hanley and McNeil's."""
    monkeypatch.setattr(intervals, "PRIOR", 0.0)


def drawn(
    seed: int, patients: int = 70, scores: int = 1, shift: float = 1.0
) -> tuple[Floats, Numbers, Numbers]:
    """Scores with ties, [scores, n], labels and patients with one to five images each."""
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(patients), generator.integers(1, 6, patients))
    n = len(codes)
    labels = (generator.random(n) < generator.beta(1, 2, patients)[codes]).astype(np.int64)
    own = generator.normal(size=(2, patients))[:, codes]
    values = [own[0] + own[1] + generator.normal(labels * shift, size=n) for _ in range(scores)]
    return np.round(np.array(values), 1), labels, codes


def wins(scores: Floats, labels: Numbers) -> Floats:
    """Who wins, of every pair: positives in rows, negatives in columns."""
    with_it, without = scores[labels == 1][:, None], scores[labels == 0][None]
    table: Floats = (with_it > without) + 0.5 * (with_it == without)
    return table


def pairs_by_patient(
    scores: Floats, labels: Numbers, codes: Numbers
) -> tuple[float, Floats, Floats, Numbers, Numbers]:
    """By all pairs: the AUC; of every patient the sums of both kinds, and its rows of both."""
    table, everyone = wins(scores, labels), codes.max() + 1
    sides = (codes[labels == 1], table.mean(axis=1)), (codes[labels == 0], table.mean(axis=0))
    sums = [np.bincount(of, values, everyone).astype(np.float64) for of, values in sides]
    rows = [np.bincount(of, minlength=everyone).astype(np.int64) for of, _ in sides]
    return float(table.mean()), sums[0], sums[1], rows[0], rows[1]


def obuchowski(first: Floats, second: Floats, labels: Numbers, codes: Numbers) -> float:
    """The covariance of two AUCs, written out as in her paper (1997, section 3)."""
    one, p, n, m_i, n_i = pairs_by_patient(first, labels, codes)
    other, q, o, _, _ = pairs_by_patient(second, labels, codes)
    M, N = m_i.sum(), n_i.sum()
    I10, I01, I_ = (m_i > 0).sum(), (n_i > 0).sum(), ((m_i > 0) | (n_i > 0)).sum()
    s10 = I10 / ((I10 - 1) * M) * ((p - m_i * one) * (q - m_i * other)).sum()
    s01 = I01 / ((I01 - 1) * N) * ((n - n_i * one) * (o - n_i * other)).sum()
    s11 = I_ / (I_ - 1) * ((p - m_i * one) * (o - n_i * other)).sum()
    s11_turned = I_ / (I_ - 1) * ((n - n_i * one) * (q - m_i * other)).sum()
    return float(s10 / M + s01 / N + (s11 + s11_turned) / (M * N))


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("seed", range(4))
def test_delong_agrees_with_all_pairs_written_out(seed: int) -> None:
    (scores, other), labels, _ = drawn(seed, scores=2)
    tables = wins(scores, labels), wins(other, labels)
    for found, axis in zip(placements(scores, labels), (1, 0), strict=True):
        np.testing.assert_allclose(found, tables[0].mean(axis=axis), atol=1e-15)
    one = area(scores, labels)
    assert one.value == pytest.approx(area_under_curve(scores, labels), abs=1e-14)
    along = [np.cov([table.mean(axis=k) for table in tables]) for k in (1, 0)]
    m, n = tables[0].shape
    expected = along[0] / m + along[1] / n
    assert covariances([one, area(other, labels)]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("seed", range(4))
def test_clustered_covariances_agree_with_obuchowski_written_out(seed: int) -> None:
    (scores, other), labels, codes = drawn(seed, scores=2)
    both = [area(one, labels, codes) for one in (scores, other)]
    found = covariances(both)
    pairs = product((scores, other), repeat=2)
    expected = [obuchowski(one, two, labels, codes) for one, two in pairs]
    assert found.ravel() == pytest.approx(expected, rel=1e-10)
    assert np.linalg.eigvalsh(found).min() >= 0


def test_the_variance_is_drawn_toward_hanley_and_mcneils() -> None:
    # By hand (formulas 1 and 2) for an AUC of 0.9 of 10 and 20 rows.
    q1, q2 = 0.9 / 1.1, 2 * 0.81 / 1.9
    expected = (0.09 + 9 * (q1 - 0.81) + 19 * (q2 - 0.81)) / 200
    assert hanley_mcneil_variance(0.9, 10, 20) == pytest.approx(expected)
    scores, labels, _ = drawn(1)
    weights = []
    for rows in (slice(0, 14), slice(None)):
        one = area(scores[0][rows], labels[rows])
        by_positives, by_negatives = placements(scores[0][rows], labels[rows])
        parts = [x.var(ddof=1) / len(x) for x in (by_positives, by_negatives)]
        degrees = sum(parts) ** 2 / sum(
            p**2 / (len(x) - 1) for p, x in zip(parts, (by_positives, by_negatives), strict=True)
        )
        guess = hanley_mcneil_variance(one.value, one.positives, one.negatives)
        shrunk = (degrees * sum(parts) + 8 * guess) / (degrees + 8)
        assert one.variance == pytest.approx(shrunk)
        weights.append(8 / (degrees + 8))
    assert weights[0] > 0.3
    assert weights[1] < 0.1


def test_a_perfect_area_has_an_interval() -> None:
    scores = np.arange(30.0)
    one = area(scores, scores >= 20)
    low, high = one.interval()
    assert (one.value, high) == (1.0, 1.0)
    assert 0.6 < low < 0.9
    turned = area(-scores, scores >= 20)
    assert turned.interval() == pytest.approx((0.0, 1 - low))
    assert area(scores, scores >= 10).interval()[0] > low  # as many rows, more even
    assert difference(one, one).p_value == 1.0


def test_a_mean_with_a_perfect_finding_is_as_sure_as_its_findings_together() -> None:
    scores, labels, _ = drawn(3)
    n = len(labels)
    perfect, usual = area(labels, labels, total=n), area(scores[0], labels, total=n)
    assert perfect.apart > 0  # seen in no patient
    mean = average([perfect, usual])
    assert mean.variance == pytest.approx((perfect.variance + usual.variance) / 4)
    assert mean.variance == pytest.approx(covariances([perfect, usual]).sum() / 4)


def test_differences_by_hand_and_their_p_value() -> None:
    (scores, other), labels, codes = drawn(10, scores=2)
    one, two = area(scores + labels, labels, codes), area(other, labels, codes)
    found = difference(one, two)
    assert found.estimate == pytest.approx(one.value - two.value)
    r = covariance(one, two) / np.sqrt(one.variance * two.variance)
    # The degrees of freedom are 2 v² / var(v) of the squares of the patients' differences.
    squares = ((one.influence - two.influence) ** 2).sum(axis=0)
    degrees = 2 / ((squares**2).sum() / squares.sum() ** 2 - 1 / len(squares))
    z = quantile(0.95, min(degrees, len(squares) - 1))
    down, up = one.value - one.ends(z)[0], two.ends(z)[1] - two.value
    low = found.estimate - np.sqrt(down**2 + up**2 - 2 * r * down * up)
    assert found.low == pytest.approx(low)
    # The interval of the level 1 − p ends at 0.
    assert found.low > 0
    assert difference(one, two, 1 - found.p_value).low == pytest.approx(0, abs=1e-9)
    turned = difference(two, one)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert turned.p_value == pytest.approx(found.p_value)
    far = difference(area(scores + 50 * labels, labels), area(-scores, labels))
    assert 0 <= far.p_value < 1e-4


@pytest.mark.parametrize("positives", [10, 25, 100])
def test_intervals_hold_as_often_as_they_say(positives: int) -> None:
    """Of 400 data sets each; percentiles hold 83 % of the time for the AUC of 10 positives."""
    generator, tries = np.random.default_rng(positives), 400
    labels = np.arange(10 * positives) < positives
    pairs = np.repeat(np.arange(positives), 2)
    held = dict.fromkeys(("AUC", "AP", "mean", "median", "share"), 0)
    for _ in range(tries):
        scores = generator.normal(labels * 2.326)
        own = generator.normal(size=positives)[pairs] + generator.normal(size=2 * positives)
        right = generator.random(positives) < 0.8
        waits = generator.geometric(0.05, positives)  # of median 14
        for name, figure, truth in (
            ("AUC", area(scores, labels), 0.95),
            ("AP", precision_of(scores, labels), 0.7616),  # of 4 million such rows
            ("mean", mean_of(own, pairs), 0.0),
            ("median", median_of(waits), 14),
            ("share", share(right), 0.8),
        ):
            low, high = (figure and figure.interval()) or (1, 0)
            held[name] += low <= truth <= high
    assert {name: count for name, count in held.items() if count < 0.93 * tries} == {}


def test_the_influence_of_rows_is_the_derivative_by_their_weight() -> None:
    """Of average precision and a ratio of sums, beside scikit-learn's weights."""
    scores, labels, _ = drawn(4)
    n, step = len(labels), 1e-6
    factor = np.sqrt(n / (n - 1))
    found = precision_of(scores[0], labels)
    assert found.value == pytest.approx(average_precision_score(labels, scores[0]), abs=1e-12)
    called = scores[0] > 0.5
    ratio = ratio_of(2.0 * (called & (labels == 1)), called.astype(float) + labels)
    assert ratio is not None
    assert ratio.value == pytest.approx(f1_score(labels, called))
    for row in (0, 7, n - 1):
        weights = np.ones(n)
        weights[row] += step
        moved = average_precision_score(labels, scores[0], sample_weight=weights) - found.value
        assert found.influence[0, row] == pytest.approx(factor * moved / step, abs=1e-6)
        moved = f1_score(labels, called, sample_weight=weights) - ratio.value
        assert ratio.influence[0, row] == pytest.approx(factor * moved / step, abs=1e-6)


def test_means_and_medians_by_hand() -> None:
    found = mean_of([1.0, 3.0, np.nan, 2.0, 6.0], ["a", "a", "b", "c", "c"])
    assert found is not None
    # Sums of a and c: 4 and 8 of two rows each, of mean 3: −2 and 2 of 4, times √2.
    assert found.value == 3
    assert found.influence[0].tolist() == pytest.approx([-np.sqrt(2) / 2, 0, np.sqrt(2) / 2])
    assert found.interval() == pytest.approx((3 - 12.7062, 3 + 12.7062), abs=1e-3)
    single = mean_of([1.0, 2.0], ["a", "a"])
    assert single is not None
    assert single.interval() is None
    assert mean_of([np.nan]) is None
    ranks = median_of(np.arange(1, 102))
    # Of 101 rows half ± 1.984 √(1/4 / 101): between the 41st and the 61st.
    assert (ranks.value, *(ranks.interval() or ())) == pytest.approx((51, 41.13, 60.87), abs=0.1)
    # A correlation of 1 is one to rounding, of which the interval has the square root.
    assert astuple(difference(ranks, ranks)) == pytest.approx((0, 0, 0, 1), abs=1e-6)
    assert isinstance(average([ranks, median_of(np.arange(3, 104))]), Median)
    assert average([ranks, median_of(np.arange(3, 104))]).value == 52


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.2, 0.2]) == pytest.approx([0.4, 0.4])


SCORES = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: area(SCORES, [1, 1, 1]), "no label is 0"),
        (lambda: area([1.0, np.nan, 2.0], [1, 0, 1]), "finite"),
        (lambda: area(SCORES, [1, 0, 1], [0, 1]), "equally many"),
        (lambda: average([]), "at least one"),
        (lambda: average([area(SCORES, [1, 0, 1]), area([1.0, 2.0], [1, 0])]), "same patients"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_mean_and_its_interval_by_hand() -> None:
    # Influences (x - 2) / 4 · √(4 / 3) of the values 1, 1, 1, 5: their squares sum to 1, and
    # their cubes to (-3 + 27) / 64 · (4 / 3)^1.5.
    one = mean_of([1.0, 1.0, 1.0, 5.0])
    assert one is not None
    assert (one.value, one.degrees, one.variance) == pytest.approx((2, 3, 1))
    skewness = 24 / 64 * (4 / 3) ** 1.5
    low, high = one.interval() or (0, 0)
    for statistic, z in ((2 - low, quantile(0.95, 3)), (2 - high, -quantile(0.95, 3))):
        cubic = statistic + skewness * statistic**2 / 3 + skewness**2 * statistic**3 / 27
        assert cubic == pytest.approx(z)
    assert high - 2 > 2 - low > 0
    assert one.ends(0.0) == (2, 2)
    # A patient whose only row is unknown keeps its place, so that figures stay paired.
    part = mean_of([1.0, 2.0, np.nan], ["a", "b", "c"])
    assert part is not None
    assert part.influence.shape == (1, 3)


def test_degrees_of_freedom() -> None:
    equal = mean_of(np.arange(12.0), np.repeat(np.arange(4), 3))
    assert equal is not None
    assert equal.degrees == pytest.approx(3)
    # One patient with 98 of 100 rows against two others.
    uneven = mean_of(np.arange(100.0), np.r_[np.zeros(98, int), 1, 2])
    assert uneven is not None
    assert 1 <= uneven.degrees < 1.2
    assert degrees_of(np.array([[1.0, -1.0, 1.0, -1.0]]), 3) == 3
    # The kurtosis of two in a hundred: 2 / (1 / 2 - 1 / 100).
    assert degrees_of(np.r_[1.0, -1.0, np.zeros(98)][None], 99) == pytest.approx(2 / 0.49)


def test_few_queries_that_find_nothing_leave_room_for_some_that_do() -> None:
    # No reciprocal rank reaches a half, so the interval is Wilson's for ten independent rows.
    low, high = share(np.full(10, 0.05), list(range(10))).interval() or (0, 0)
    z = quantile(0.95)
    middle = (0.05 + z**2 / 20) / (1 + z**2 / 10)
    half = z * np.sqrt(0.05 * 0.95 / 10 + z**2 / 400) / (1 + z**2 / 10)
    assert (low, high) == pytest.approx((middle - half, middle + half))
