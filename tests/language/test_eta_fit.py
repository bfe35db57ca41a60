import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.language.class_probability import Words, eta_of
from cxrtext.language.eta import fit_class_probability, solve
from cxrtext.objectives import class_probability
from cxrtext.objectives.debiasing import MIN_ETA

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


def in_units_of_the_sum(a: float, count: Counts, total: float) -> float:
    """The scale in terms of the expected total; a fit knows the observed one alone."""
    return a * (float(count.sum()) - 1.0) / total


@pytest.mark.parametrize(("a", "k"), [(0.02, 0.35), (0.001, 0.1), (0.05, 1.0)])
def test_recovers_a_and_k_from_truncated_poisson_counts(a: float, k: float) -> None:
    log_p, count = simulated(a, k, 30_000.0)
    fitted_a, fitted_k = fit_class_probability(log_p, count)
    assert fitted_k == pytest.approx(k, rel=0.1)
    assert in_units_of_the_sum(fitted_a, count, 30_000.0) == pytest.approx(a, rel=0.2)


def test_with_heavy_tails_it_gives_the_mean_that_an_anchor_meets() -> None:
    shape = 0.5
    log_p, count = simulated(0.002, 0.2, 30_000.0, shape=shape)
    a, k = fit_class_probability(log_p, count)
    # An occurrence is drawn in proportion to its frequency: the mean is that of the gamma's
    # square over the gamma's, (1 + shape) / shape times the plain one.
    assert k == pytest.approx(0.2, rel=0.1)
    scale = in_units_of_the_sum(a, count, 30_000.0) / 0.002
    assert scale == pytest.approx((1.0 + shape) / shape, rel=0.15)


def test_k_stops_at_zero_where_likely_sentences_repeat_less() -> None:
    log_p = -np.arange(1.0, 41.0)
    count = np.arange(1, 41)
    a, k = fit_class_probability(log_p, count)
    assert k == 0.0
    assert a == pytest.approx(float(count @ (count - 1)) / (820 * 819))


def test_a_stops_below_one() -> None:
    log_p = -20.0 - np.arange(40.0)
    count = np.maximum((60 * np.exp(-0.5 * np.arange(40.0))).astype(np.int64), 1)
    a, best_k = fit_class_probability(log_p, count)
    assert a == 0.99
    assert 0.0 < best_k < fit_class_probability(log_p + 20.0, count)[1]

    def likelihood(k: float) -> float:
        eta = 0.99 * np.exp(k * log_p)
        return float(count @ ((count - 1.0) * np.log(eta) - (count.sum() - 1.0) * eta))

    assert likelihood(best_k) > max(likelihood(best_k * 0.999), likelihood(best_k * 1.001))


ONES = np.ones(30, dtype=np.int64)
FALLING = -np.arange(1.0, 31.0)


@pytest.mark.parametrize(
    ("log_p", "count", "why"),
    [
        (FALLING[:19], ONES[:19] + 1, "19 distinct sentences, and at least 20"),
        (FALLING, ONES, "none of the 30 distinct sentences occurs twice"),
        (np.full(30, -3.0), ONES + 1, "all 30 distinct sentences have the same log-likelihood"),
        (FALLING, np.r_[5, ONES[1:]], "only sentences with the largest log-likelihood"),
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


def test_probabilities_are_those_of_the_loss() -> None:
    log_p = np.array([0.0, -1e-300, -3.0, -100.0, -150.0, -700.0, -1e6])
    written = np.array([eta_of(value, Words(3, 0), 0.3, 0.7) for value in log_p.tolist()])
    for dtype in (torch.float64, torch.float32):
        theirs = class_probability(torch.from_numpy(log_p).to(dtype), 0.3, 0.7)
        np.testing.assert_allclose(written, theirs.double().numpy(), rtol=1e-5)
        assert float(theirs.min()) == written.min() == MIN_ETA


def test_a_fit_to_shares_finds_their_numbers() -> None:
    log_p = -np.linspace(0.5, 30, 50)
    a, k = solve(log_p, np.arange(1, 51), 0.4 * np.exp(0.2 * log_p))
    assert (a, k) == pytest.approx((0.4, 0.2))
