import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.language.eta.fit import EtaFit, fit_class_probability

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def simulated(
    a: float, k: float, total: float, seed: int = 0, shape: float | None = None
) -> tuple[Floats, Counts]:
    """Counts of sentences that were seen; Poisson, or gamma-mixed where a shape is given."""
    generator = np.random.default_rng(seed)
    log_p = -generator.gamma(1.5, 12.0, 60_000)
    mean = total * a * np.exp(k * log_p)
    if shape is not None:
        mean = mean * generator.gamma(shape, 1.0 / shape, len(log_p))
    count = generator.poisson(mean)
    return log_p[count > 0], count[count > 0]


def in_units_of_the_sum(fit: EtaFit, count: Counts, total: float) -> float:
    """The scale in terms of the expected total; a fit knows the observed one alone."""
    return fit.a * (float(count.sum()) - 1.0) / total


@pytest.mark.parametrize(("a", "k"), [(0.02, 0.35), (0.001, 0.1), (0.05, 1.0)])
def test_recovers_a_and_k_from_truncated_poisson_counts(a: float, k: float) -> None:
    log_p, count = simulated(a, k, 30_000.0)
    fit = fit_class_probability(log_p, count)
    assert abs(fit.k - k) < 4 * fit.k_error
    assert fit.k_error < 0.05 * k
    assert abs(math.log(in_units_of_the_sum(fit, count, 30_000.0) / a)) < 4 * fit.log_a_error + 0.01
    assert 0.0 < fit.explained < 1.0


def test_standard_errors_are_those_of_the_sandwich_written_out() -> None:
    log_p, count = simulated(0.02, 0.35, 500.0)
    fit = fit_class_probability(log_p, count)
    bread, meat = np.zeros((2, 2)), np.zeros((2, 2))
    for value, n in zip(log_p.tolist(), count.tolist(), strict=True):
        row = np.array([1.0, value])
        expected = (count.sum() - 1) * fit.a * math.exp(fit.k * value)
        bread += n * expected * np.outer(row, row)
        meat += (n * (n - 1 - expected)) ** 2 * np.outer(row, row)
    inverse = np.linalg.inv(bread)
    errors = np.sqrt(np.diag(inverse @ meat @ inverse))
    assert [fit.log_a_error, fit.k_error] == pytest.approx(errors.tolist())


def test_with_heavy_tails_it_gives_the_mean_that_an_anchor_meets() -> None:
    shape = 0.5
    log_p, count = simulated(0.002, 0.2, 30_000.0, shape=shape)
    fit = fit_class_probability(log_p, count)
    # An occurrence is drawn in proportion to its frequency: the mean is that of the gamma's
    # square over the gamma's, (1 + shape) / shape times the plain one.
    assert fit.k == pytest.approx(0.2, abs=4 * fit.k_error)
    scale = in_units_of_the_sum(fit, count, 30_000.0) / 0.002
    assert scale == pytest.approx((1.0 + shape) / shape, rel=0.15)


def test_is_the_best_of_its_neighbors_and_of_a_grid() -> None:
    log_p, count = simulated(0.01, 0.3, 3000.0, seed=1)
    fit = fit_class_probability(log_p, count)

    def likelihood(a: float, k: float) -> float:
        eta = a * np.exp(k * log_p)
        total = count.sum() - 1.0
        return float(count @ ((count - 1.0) * np.log(total * eta) - total * eta))

    best = likelihood(fit.a, fit.k)
    for a in fit.a * np.exp(np.linspace(-1, 1, 21)):
        for k in np.linspace(0.0, 1.0, 21):
            assert likelihood(a, k) <= best
    for step in (-1e-4, 1e-4):
        assert likelihood(fit.a * (1 + step), fit.k) < best
        assert likelihood(fit.a, fit.k + step) < best


def test_mean_eta_over_the_sentences_is_the_rate_of_repeats() -> None:
    log_p, count = simulated(0.01, 0.3, 3000.0, seed=2, shape=0.3)
    fit = fit_class_probability(log_p, count)
    eta = fit.a * np.exp(fit.k * log_p)
    total = count.sum()
    repeats = float(count @ (count - 1)) / (total * (total - 1))
    assert float(count @ eta) / total == pytest.approx(repeats, rel=1e-10)


def test_order_shift_and_unit_of_the_log_likelihood() -> None:
    log_p, count = simulated(0.01, 0.3, 3000.0, seed=3)
    fit = fit_class_probability(log_p, count)
    order = np.random.default_rng(4).permutation(len(count))
    shuffled = fit_class_probability(log_p[order], count[order])
    assert (shuffled.a, shuffled.k) == pytest.approx((fit.a, fit.k), rel=1e-9)
    shifted = fit_class_probability(log_p - 2.0, count)
    assert shifted.k == pytest.approx(fit.k, rel=1e-9)
    assert shifted.a == pytest.approx(fit.a * math.exp(2.0 * fit.k), rel=1e-9)
    in_bits = fit_class_probability(log_p / math.log(2.0), count)
    assert in_bits.k == pytest.approx(fit.k * math.log(2.0), rel=1e-9)
    assert in_bits.a == pytest.approx(fit.a, rel=1e-9)


def test_k_stops_at_zero_where_likely_sentences_repeat_less() -> None:
    log_p = -np.arange(1.0, 41.0)
    count = np.arange(1, 41)
    fit = fit_class_probability(log_p, count)
    assert fit.k == 0.0
    assert fit.a == pytest.approx(float(count @ (count - 1)) / (820 * 819))
    assert math.isnan(fit.k_error)
    assert fit.explained == pytest.approx(0.0, abs=1e-12)


def test_a_stops_below_one() -> None:
    log_p = -20.0 - np.arange(40.0)
    count = np.maximum((60 * np.exp(-0.5 * np.arange(40.0))).astype(np.int64), 1)
    fit = fit_class_probability(log_p, count)
    assert fit.a == 0.99
    assert 0.0 < fit.k < fit_class_probability(log_p + 20.0, count).k

    def likelihood(k: float) -> float:
        eta = 0.99 * np.exp(k * log_p)
        return float(count @ ((count - 1.0) * np.log(eta) - (count.sum() - 1.0) * eta))

    assert likelihood(fit.k) > max(likelihood(fit.k * 0.999), likelihood(fit.k * 1.001))


def test_very_unlikely_sentences_do_no_harm() -> None:
    log_p, count = simulated(0.01, 0.3, 3000.0, seed=5)
    fit = fit_class_probability(np.r_[log_p, -1e5], np.r_[count, 1])
    assert math.isfinite(fit.explained)
    assert fit.k == pytest.approx(fit_class_probability(log_p, count).k, rel=0.01)


ONES = np.ones(30, dtype=np.int64)
FALLING = -np.arange(1.0, 31.0)


@pytest.mark.parametrize(
    ("log_p", "count", "why"),
    [
        (FALLING[:19], ONES[:19] + 1, "19 distinct sentences, and at least 20"),
        (FALLING, ONES, "none of the 30 distinct sentences occurs twice"),
        (np.full(30, -3.0), ONES + 1, "all 30 distinct sentences have one log-likelihood"),
        (FALLING, np.r_[5, ONES[1:]], "only sentences of the largest log-likelihood"),
        (
            -np.r_[1.0, 1.0 + 1e-12, np.arange(3.0, 31.0)] * 1e-6,
            np.r_[9, 2, ONES[2:]],
            "likeliest sentences occur twice",
        ),
    ],
)
def test_says_why_it_cannot_be_fitted(log_p: Floats, count: Counts, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        fit_class_probability(log_p, count)
    assert str(caught.value).endswith("give a and k instead")


@pytest.mark.parametrize(
    ("log_p", "count", "why"),
    [
        (FALLING, ONES[:29], "one length"),
        (-FALLING, ONES, "at most 0"),
        (np.r_[math.nan, FALLING[1:]], ONES, "finite"),
        (FALLING, np.r_[0, ONES[1:]], "at least 1"),
    ],
)
def test_refuses_arrays_out_of_range(log_p: Floats, count: Counts, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fit_class_probability(log_p, count)
