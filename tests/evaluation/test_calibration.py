import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation import (
    Calibration,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    log_loss,
    reliability_bins,
)

Floats = NDArray[np.float64]


def drawn(seed: int, scale: float, shift: float = 0.0, n: int = 4000) -> tuple[Floats, Floats]:
    """Logits whose labels follow the logistic of ``scale · logit + shift``."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=3, size=n)
    chance = Calibration(scale, shift).probabilities(logits)
    return logits, (generator.random(n) < chance).astype(np.float64)


def test_a_temperature_is_recovered_and_least() -> None:
    logits, labels = drawn(0, 0.4)
    fit = fit_temperature(logits, labels)
    assert fit.temperature == pytest.approx(2.5, rel=0.1)
    best = log_loss(logits, labels, fit)
    for factor in (0.999, 1.001):
        assert log_loss(logits, labels, Calibration(fit.scale * factor)) > best


def test_a_temperature_by_hand() -> None:
    # Logits of ±1, three quarters of them right: the logistic must be 3/4, so 1/T = log 3.
    fit = fit_temperature([1.0] * 4 + [-1.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1])
    assert fit.scale == pytest.approx(math.log(3), rel=1e-10)


def test_a_temperature_stays_within_its_limits() -> None:
    assert fit_temperature([1.0, -1.0], [1, 0]).temperature == pytest.approx(1e-2)  # separated
    assert fit_temperature([1.0, -1.0], [0, 1]).temperature == pytest.approx(1e2)  # wrong way
    assert fit_temperature([0.0, 0.0], [0, 1]).temperature == pytest.approx(1e2)  # nothing told
    with pytest.raises(ValueError, match="limits"):
        fit_temperature([1.0, -1.0], [1, 0], limits=(1, 1))


@pytest.mark.parametrize("size", [1e-6, 1e-2, 1e2, 1e6])
def test_temperature_follows_the_size_of_the_logits(size: float) -> None:
    logits, labels = drawn(1, 0.8, n=500)
    plain = fit_temperature(logits, labels)
    scaled = fit_temperature(logits * size, labels, limits=(1e-8, 1e8))
    assert scaled.temperature == pytest.approx(plain.temperature * size, rel=1e-8)


def test_platt_is_recovered_and_least() -> None:
    logits, labels = drawn(2, 0.5, -1.0)
    fit = fit_platt(logits, labels)
    assert (fit.scale, fit.shift) == pytest.approx((0.5, -1.0), abs=0.08)
    assert log_loss(logits, labels, fit) < log_loss(logits, labels, fit_temperature(logits, labels))


def test_platt_by_hand() -> None:
    # Two logits, two parameters: each side's logistic is the mean of its targets, 4/5 and 1/5 for
    # labels of 1 and 0 as there are three of each.
    fit = fit_platt([2.0, 2.0, 2.0, 0.0, 0.0, 0.0], [1, 1, 0, 0, 0, 1])
    for logit, chance in ((2.0, (0.8 + 0.8 + 0.2) / 3), (0.0, (0.2 + 0.2 + 0.8) / 3)):
        assert fit.probabilities([logit])[0] == pytest.approx(chance, rel=1e-9)


def test_platt_of_separated_and_of_equal_logits() -> None:
    separated = fit_platt([5.0, 4.0, -4.0, -5.0], [1, 1, 0, 0])
    assert 0.7 < separated.probabilities([5.0])[0] < 0.9
    equal = fit_platt([3.0, 3.0, 3.0], [1, 0, 0])
    assert equal.scale == 0
    assert equal.temperature == math.inf
    assert equal.probabilities([3.0])[0] == pytest.approx((2 / 3 + 2 * 1 / 4) / 3)
    far = fit_platt([1e4, -1e4, 1e4, -1e4], [1, 0, 0, 1])
    assert np.isfinite([far.scale, far.shift]).all()


def test_probabilities_do_not_overflow() -> None:
    assert Calibration().probabilities([-1e4, 0.0, 1e4]).tolist() == [0.0, 0.5, 1.0]
    assert log_loss([1e4, -1e4], [0, 1]) == pytest.approx(1e4)
    assert log_loss([0.0], [1]) == pytest.approx(math.log(2))


def test_brier_by_hand() -> None:
    assert brier_score([0.8, 0.4], [1, 0]) == pytest.approx((0.04 + 0.16) / 2)


def test_reliability_by_hand() -> None:
    probabilities, labels = [0.1, 0.2, 0.5, 1.0], [0, 1, 1, 1]
    found = reliability_bins(probabilities, labels, bins=2)
    assert found.counts.tolist() == [2, 2]  # 0.5 opens the upper bin, 1 closes it
    assert found.probability.tolist() == pytest.approx([0.15, 0.75])
    assert found.observed.tolist() == [0.5, 1.0]
    gap = (2 * abs(0.15 - 0.5) + 2 * abs(0.75 - 1)) / 4
    assert expected_calibration_error(probabilities, labels, bins=2) == pytest.approx(gap)
    assert reliability_bins(probabilities, labels, bins=100).counts.tolist() == [1, 1, 1, 1]


def test_calibration_error_equals_the_loop() -> None:
    generator = np.random.default_rng(3)
    p = np.round(generator.random(300), 2)
    y = (generator.random(300) < p**2).astype(int)
    total = 0.0
    for number in range(10):
        rows = [row for row, value in enumerate(p.tolist()) if min(int(value * 10), 9) == number]
        if rows:
            total += abs(sum(p[r] for r in rows) - sum(y[r] for r in rows)) / 300
    assert expected_calibration_error(p, y, 10) == pytest.approx(total, abs=1e-12)


def test_calibration_lowers_the_error() -> None:
    logits, labels = drawn(5, 0.3)
    before = expected_calibration_error(Calibration().probabilities(logits), labels)
    after = fit_temperature(logits, labels).probabilities(logits)
    assert expected_calibration_error(after, labels) < before / 3


def test_wrong_probabilities() -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        brier_score([1.1], [1])
    with pytest.raises(ValueError, match="bins"):
        reliability_bins([0.1], [1], 0)
