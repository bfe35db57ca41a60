"""Operating points, likelihood ratios, calibration, and what probabilities are worth."""

import math

import numpy as np
import pytest

from cxrtext.evaluation.classification.operating import (
    Found,
    operating_point,
)
from cxrtext.evaluation.rows import Estimate
from cxrtext.metrics.calibration import (
    THRESHOLDS,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    logistic,
    net_benefit,
    recalibration,
    reliability_bins,
)
from cxrtext.metrics.intervals import Interval, Measured, share
from cxrtext.metrics.ranking import sensitivity_threshold

SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.0])
LABELS = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0, 0])


def value_of(found: Found) -> float | None:
    return found.value if isinstance(found, (Measured, Estimate)) else found


def ends_of(found: Found) -> Interval:
    if isinstance(found, Estimate):
        return found.low or 0.0, found.high or math.inf
    assert isinstance(found, Measured)
    ends = found.interval()
    assert ends is not None
    return ends


def proportion_interval(right: np.ndarray | list[bool]) -> Interval:
    return ends_of(share(right))


def random_case(n: int = 400, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.3
    return np.where(labels, 1.0, -1.0) + 1.5 * rng.standard_normal(n), labels.astype(int)


def test_counts_by_hand_and_one_class_is_refused() -> None:
    # Above 0.5: 1, 1, 0, 1; not above: 0, 1, 0, 0, 0, 0.
    point = operating_point(SCORES, LABELS, 0.5)
    assert {name: value_of(one) for name, one in point.items()} == pytest.approx({
        "threshold": 0.5, "prevalence": 0.4, "TP": 3, "FP": 1, "FN": 1, "TN": 5,
        "sensitivity": 3 / 4, "specificity": 5 / 6, "PPV": 3 / 4, "NPV": 5 / 6,
        "LR+": (3 / 4) / (1 / 6), "LR−": (1 / 4) / (5 / 6),
        "F1": 6 / 8,
    })  # fmt: skip
    assert ends_of(point["sensitivity"]) == proportion_interval([True, True, True, False])
    with pytest.raises(ValueError, match="no label is 0"):
        operating_point([1.0, 2.0], [1, 1], 0.5)


def test_the_threshold_of_a_sensitivity() -> None:
    # Positives at 0.9, 0.8, 0.6, 0.3: three of four are above 0.5, halfway from 0.6 to 0.4.
    assert sensitivity_threshold(SCORES, LABELS, 0.75) == 0.5
    assert sensitivity_threshold(SCORES, LABELS, 0.76) == pytest.approx(0.25)
    assert sensitivity_threshold([2.0, 1.0], [0, 1], 1.0) < 1.0
    scores, labels = np.arange(20.0), np.ones(20)
    assert (scores > sensitivity_threshold(scores, labels, 0.95)).sum() == 19
    with pytest.raises(ValueError, match="sensitivity must lie"):
        sensitivity_threshold(SCORES, LABELS, 0.0)


def test_net_benefit_by_hand() -> None:
    acting, on_every = net_benefit([0.9, 0.7, 0.6, 0.3, 0.2], [1, 0, 1, 1, 0])
    at = [49, 24, 94]
    assert [THRESHOLDS[place] for place in at] == [0.5, 0.25, 0.95]
    # At 0.5: two true and one false of five; at 0.25 all three and one false at odds 1 / 3.
    model = [acting[place].value for place in at]
    assert model == pytest.approx([1 / 5, 3 / 5 - 1 / 15, 0])
    everyone = [on_every[place] for place in at]
    assert everyone == pytest.approx([1 / 5, 3 / 5 - 2 / 15, 3 / 5 - 2 / 5 * 19])
    low, high = ends_of(acting[49])
    assert low < 1 / 5 < high
    # Nobody is acted on at 0.95: the variance is that of three more patients at odds 19.
    assert acting[94].variance == pytest.approx(3 * 19 / 25)
    with pytest.raises(ValueError, match="must lie in"):
        net_benefit([2.0, 1.0], [1, 0])
    scores, labels = random_case()
    acting, on_every = net_benefit(0.5 + 0.4 * np.tanh(scores), labels)
    assert acting[4].value == on_every[4]  # where the model acts on all


def test_a_single_patient_has_no_interval() -> None:
    scores, labels = random_case(60)
    one = ["one"] * 60
    slope, intercept = recalibration(scores, labels, one)
    assert slope is not None
    acting, _ = net_benefit(logistic(scores), labels, one)
    point = operating_point(scores, labels, 0.0, patients=one)
    alone = [found for found in point.values() if isinstance(found, Measured)]
    assert len(alone) == 5
    for found in (slope, intercept, *acting, *alone):
        assert found.interval() is None
    assert acting[29].value == net_benefit(logistic(scores), labels)[0][29].value


def test_a_temperature_by_hand_and_at_its_limits() -> None:
    # Logits of ±1, three quarters of them right: the logistic must be 3/4, so 1/T = log 3.
    fit = fit_temperature([1.0] * 4 + [-1.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1])
    assert fit.scale == pytest.approx(math.log(3), rel=1e-10)
    assert fit_temperature([1.0, -1.0], [1, 0]).temperature == pytest.approx(1e-2)  # separated
    assert fit_temperature([1.0, -1.0], [0, 1]).temperature == pytest.approx(1e2)  # wrong way
    assert fit_temperature([0.0, 0.0], [0, 1]).temperature == pytest.approx(1e2)  # nothing told


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


def test_reliability_by_hand() -> None:
    probabilities, labels = [0.1, 0.2, 0.5, 1.0], [0, 1, 1, 1]
    found = reliability_bins(probabilities, labels, bins=2)
    assert found.counts.tolist() == [2, 2]  # 0.5 opens the upper bin, 1 closes it
    assert found.probability.tolist() == pytest.approx([0.15, 0.75])
    assert found.observed.tolist() == [0.5, 1.0]
    gap = (2 * abs(0.15 - 0.5) + 2 * abs(0.75 - 1)) / 4
    assert expected_calibration_error(probabilities, labels, bins=2) == pytest.approx(gap)
    assert reliability_bins(probabilities, labels, bins=100).counts.tolist() == [1, 1, 1, 1]
