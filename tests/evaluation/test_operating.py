"""Operating points, likelihood ratios, calibration, and what probabilities are worth."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cxrtext.evaluation.classification.operating import (
    Found,
    likelihood_ratios,
    operating_point,
    quotient_of,
)
from cxrtext.evaluation.rows import Estimate
from cxrtext.metrics.calibration import (
    THRESHOLDS,
    Calibration,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    log_loss,
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


def test_the_interval_of_a_ratio_is_near_the_logarithmic_one() -> None:
    # 180 of 200 against 40 of 400: Katz' interval on the logarithm is the usual one.
    one = (0.9, *proportion_interval(np.arange(200) < 180))
    other = (0.1, *proportion_interval(np.arange(400) < 40))
    value, low, high = quotient_of(one, other)
    error = math.sqrt(0.1 / 180 + 0.9 / 40)
    assert value == pytest.approx(9.0)
    assert low == pytest.approx(9 * math.exp(-1.96 * error), rel=0.03)
    assert high == pytest.approx(9 * math.exp(1.96 * error), rel=0.03)


def test_ratios_without_a_false_positive() -> None:
    none = (1.0, *proportion_interval(np.ones(50)))
    some = (0.8, *proportion_interval(np.arange(50) < 40))
    positive, negative = likelihood_ratios(some, none)
    assert positive[0] == positive[2] == math.inf
    assert 5 < positive[1] < 20
    assert negative[0] == pytest.approx(0.2)
    assert negative[1] < 0.2 < negative[2]
    point = operating_point([1.0, 0.9, 0.2, 0.1], [1, 1, 0, 0], 0.5)
    assert value_of(point["LR+"]) == ends_of(point["LR+"])[1] == math.inf
    nothing = operating_point([0.1, 0.2], [1, 0], 0.5)
    assert nothing["LR+"] is None  # of nothing to nothing


def test_intervals_of_likelihood_ratios_cover() -> None:
    # Sensitivity 0.8 of 40, specificity 0.9 of 160.
    rng = np.random.default_rng(0)
    truth = np.repeat([1, 0], [40, 160])
    expected = {"LR+": 0.8 / 0.1, "LR−": 0.2 / 0.9}
    covered = dict.fromkeys(expected, 0)
    for _ in range(400):
        above = rng.random(200) < np.where(truth, 0.8, 0.1)
        point = operating_point(above.astype(float), truth, 0.5)
        for name, value in expected.items():
            low, high = ends_of(point[name])
            covered[name] += low <= value <= high
    assert all(0.92 < count / 400 < 0.98 for count in covered.values())


def test_the_slope_is_that_of_a_logistic_regression() -> None:
    scores, labels = random_case()
    logits = 2.5 * scores - 0.4  # too extreme, and too low
    slope, intercept = recalibration(logits, labels)
    assert slope is not None
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(logits[:, None], labels)
    assert slope.value == pytest.approx(expected.coef_[0, 0], abs=1e-5)
    # In the large: the mean of probabilities is the share of positives.
    assert logistic(logits + intercept.value).mean() == pytest.approx(labels.mean())
    assert ends_of(slope)[0] < slope.value < 1


def test_the_errors_of_a_slope_are_the_sandwich() -> None:
    scores, labels = random_case(200)
    design = np.stack([np.ones(200), scores], axis=1)
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], labels)
    p = fitted.predict_proba(scores[:, None])[:, 1]
    bread = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
    each = design * (labels - p)[:, None]
    meat = each.T @ each * 200 / 199
    half = 1.972 * math.sqrt((bread @ meat @ bread)[1, 1])  # Student's t of 199 degrees
    low, high = ends_of(recalibration(scores, labels)[0])
    assert high - low == pytest.approx(2 * half, rel=1e-3)
    # Two copies of each row, of one patient: the same interval, and not one narrower by √2.
    twice = recalibration(np.tile(scores, 2), np.tile(labels, 2), [*range(200), *range(200)])[0]
    assert ends_of(twice) == pytest.approx((low, high))


def test_classes_apart_have_no_slope() -> None:
    slope, intercept = recalibration([2.0, 1.0, -1.0, -2.0], [1, 1, 0, 0])
    assert slope is None
    assert intercept.value == pytest.approx(0.0, abs=1e-9)
    assert recalibration([1.0, 1.0, 1.0], [1, 0, 0])[0] is None


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
    with pytest.raises(ValueError, match="must lie in"):
        net_benefit([2.0, 1.0], [1, 0])
    scores, labels = random_case()
    acting, on_every = net_benefit(0.5 + 0.4 * np.tanh(scores), labels)
    assert acting[4].value == on_every[4]  # where the model acts on all


def test_clusters_widen_the_band() -> None:
    scores, labels = random_case(100)
    given = np.tile(logistic(scores), 4), np.tile(labels, 4)
    alone, grouped = (net_benefit(*given, who)[0][29] for who in (None, [*range(100)] * 4))
    assert grouped.value == alone.value
    (low, high), (low_alone, high_alone) = ends_of(grouped), ends_of(alone)
    width = (high - low) / (high_alone - low_alone)
    assert width == pytest.approx(2, rel=0.02)


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


def drawn(
    seed: int, scale: float, shift: float = 0.0, n: int = 4000
) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose labels follow the logistic of ``scale · logit + shift``."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=3, size=n)
    chance = Calibration(scale, shift).probabilities(logits)
    return logits, (generator.random(n) < chance).astype(np.float64)


def test_a_temperature_is_recovered_and_least() -> None:
    logits, labels = drawn(0, 0.4)
    fit = fit_temperature(logits, labels)
    assert fit.temperature == pytest.approx(2.5, rel=0.1)
    best = log_loss(fit.scale * logits, labels)
    for factor in (0.999, 1.001):
        assert log_loss(fit.scale * factor * logits, labels) > best


def test_a_temperature_by_hand_and_at_its_limits() -> None:
    # Logits of ±1, three quarters of them right: the logistic must be 3/4, so 1/T = log 3.
    fit = fit_temperature([1.0] * 4 + [-1.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1])
    assert fit.scale == pytest.approx(math.log(3), rel=1e-10)
    assert fit_temperature([1.0, -1.0], [1, 0]).temperature == pytest.approx(1e-2)  # separated
    assert fit_temperature([1.0, -1.0], [0, 1]).temperature == pytest.approx(1e2)  # wrong way
    assert fit_temperature([0.0, 0.0], [0, 1]).temperature == pytest.approx(1e2)  # nothing told


def test_platt_is_recovered_and_least() -> None:
    logits, labels = drawn(2, 0.5, -1.0)
    fit = fit_platt(logits, labels)
    assert (fit.scale, fit.shift) == pytest.approx((0.5, -1.0), abs=0.08)
    alone = log_loss(fit_temperature(logits, labels).scale * logits, labels)
    assert log_loss(fit.scale * logits + fit.shift, labels) < alone


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


def test_reliability_by_hand() -> None:
    probabilities, labels = [0.1, 0.2, 0.5, 1.0], [0, 1, 1, 1]
    found = reliability_bins(probabilities, labels, bins=2)
    assert found.counts.tolist() == [2, 2]  # 0.5 opens the upper bin, 1 closes it
    assert found.probability.tolist() == pytest.approx([0.15, 0.75])
    assert found.observed.tolist() == [0.5, 1.0]
    gap = (2 * abs(0.15 - 0.5) + 2 * abs(0.75 - 1)) / 4
    assert expected_calibration_error(probabilities, labels, bins=2) == pytest.approx(gap)
    assert reliability_bins(probabilities, labels, bins=100).counts.tolist() == [1, 1, 1, 1]


def test_calibration_error_is_that_of_the_sums_of_bins() -> None:
    generator = np.random.default_rng(3)
    p = np.round(generator.random(300), 2)
    y = (generator.random(300) < p**2).astype(int)
    bins = np.minimum((10 * p).astype(int), 9)
    expected = np.abs(np.bincount(bins, p - y)).sum() / 300
    assert expected_calibration_error(p, y, 10) == pytest.approx(expected, abs=1e-12)
