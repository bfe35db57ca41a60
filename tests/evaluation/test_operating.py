"""Operating points, likelihood ratios, calibration, and what probabilities are worth."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score as sklearn_f1
from sklearn.metrics import matthews_corrcoef

from cxrtext.evaluation import (
    Calibration,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    log_loss,
    reliability_bins,
)
from cxrtext.evaluation.classification.calibration import logistic
from cxrtext.evaluation.classification.operating import (
    Confusion,
    confusion,
    f1_score,
    likelihood_ratios,
    matthews,
    negative_value,
    operating_point,
    positive_value,
    ratio_of,
    sensitivity_threshold,
)
from cxrtext.evaluation.classification.probabilities import net_benefit, recalibration
from cxrtext.evaluation.intervals.estimates import means_of, resampled_sums
from cxrtext.evaluation.intervals.proportions import wilson_interval

SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.0])
LABELS = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0, 0])


def random_case(n: int = 400, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.3
    return np.where(labels, 1.0, -1.0) + 1.5 * rng.standard_normal(n), labels.astype(int)


def test_counts_by_hand() -> None:
    # Above 0.5: 1, 1, 0, 1; not above: 0, 1, 0, 0, 0, 0.
    assert confusion(SCORES, LABELS, 0.5) == Confusion(3, 1, 1, 5)
    point = operating_point(SCORES, LABELS, 0.5, prevalence=0.1)
    assert point.counts == Confusion(3, 1, 1, 5)
    assert point.prevalence == 0.4
    assert (point.sensitivity.value, point.specificity.value) == (3 / 4, 5 / 6)
    assert (point.ppv.value, point.npv.value) == (3 / 4, 5 / 6)
    assert (point.sensitivity.low, point.sensitivity.high) == wilson_interval(3 / 4, 4)
    assert point.ratio_positive.value == pytest.approx((3 / 4) / (1 / 6))
    assert point.ratio_negative.value == pytest.approx((1 / 4) / (5 / 6))
    assert point.f1.value == pytest.approx(6 / 8)
    assert point.mcc.value == pytest.approx((15 - 1) / math.sqrt(4 * 4 * 6 * 6))
    # Of 1,000 people with a prevalence of 0.1: 75 found, 150 called so wrongly, 25 missed.
    at = point.at_prevalence
    assert at["prevalence"] == 0.1
    assert at["ppv"].value == pytest.approx(75 / 225)  # type: ignore[union-attr]
    assert at["npv"].value == pytest.approx(750 / 775)  # type: ignore[union-attr]


def test_the_prevalence_of_the_data_gives_its_own_predictive_values() -> None:
    scores, labels = random_case()
    point = operating_point(scores, labels, 0.2, prevalence=float(labels.mean()))
    at = point.at_prevalence
    assert at["ppv"].value == pytest.approx(point.ppv.value)  # type: ignore[union-attr]
    assert at["npv"].value == pytest.approx(point.npv.value)  # type: ignore[union-attr]
    for name, own in (("ppv", point.ppv), ("npv", point.npv)):
        ends = at[name]
        assert ends.low < ends.value < ends.high  # type: ignore[union-attr, operator]
        assert ends.low == pytest.approx(own.low, abs=0.04)  # type: ignore[union-attr]
        assert ends.high == pytest.approx(own.high, abs=0.04)  # type: ignore[union-attr]


def test_f1_and_matthews_are_those_of_scikit_learn() -> None:
    scores, labels = random_case()
    for threshold in (-1.0, 0.0, 1.5):
        one = confusion(scores, labels, threshold)
        four = [one.true_positives, one.false_positives, one.false_negatives, one.true_negatives]
        called = scores > threshold
        assert f1_score(four) == pytest.approx(sklearn_f1(labels, called))
        assert matthews(four) == pytest.approx(matthews_corrcoef(labels, called))
    assert np.isnan(f1_score([0, 0, 0, 5]))
    assert matthews([5, 0, 0, 0]) == 0


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
    one = (0.9, *wilson_interval(0.9, 200))
    other = (0.1, *wilson_interval(0.1, 400))
    value, low, high = ratio_of(one, other)
    error = math.sqrt(0.1 / 180 + 0.9 / 40)
    assert value == pytest.approx(9.0)
    assert low == pytest.approx(9 * math.exp(-1.96 * error), rel=0.03)
    assert high == pytest.approx(9 * math.exp(1.96 * error), rel=0.03)


def test_ratios_without_a_false_positive() -> None:
    none = (1.0, *wilson_interval(1.0, 50))
    some = (0.8, *wilson_interval(0.8, 50))
    positive, negative = likelihood_ratios(some, none)
    assert positive[0] == positive[2] == math.inf
    assert 5 < positive[1] < 20
    assert negative[0] == pytest.approx(0.2)
    assert negative[1] < 0.2 < negative[2]
    assert positive_value(math.inf, 0.1) == 1.0
    assert negative_value(math.inf, 0.1) == 0.0
    point = operating_point([1.0, 0.9, 0.2, 0.1], [1, 1, 0, 0], 0.5, prevalence=0.1)
    assert point.ratio_positive.value is None
    assert point.at_prevalence["ppv"].value == 1.0  # type: ignore[union-attr]
    assert point.at_prevalence["npv"].value == 1.0  # type: ignore[union-attr]
    assert 0 < point.at_prevalence["ppv"].low < 1  # type: ignore[union-attr, operator]


def test_intervals_of_predictive_values_cover() -> None:
    # Sensitivity 0.8 of 40, specificity 0.9 of 160, at a prevalence of 0.05: PPV 0.2963.
    rng = np.random.default_rng(0)
    truth = np.repeat([1, 0], [40, 160])
    expected = {"ppv": 0.04 / (0.04 + 0.095), "npv": 0.855 / (0.855 + 0.01)}
    covered = dict.fromkeys(expected, 0)
    for _ in range(400):
        above = rng.random(200) < np.where(truth, 0.8, 0.1)
        at = operating_point(above.astype(float), truth, 0.5, prevalence=0.05).at_prevalence
        for name, value in expected.items():
            one = at[name]
            covered[name] += one.low <= value <= one.high  # type: ignore[union-attr, operator]
    assert all(0.92 < count / 400 < 0.98 for count in covered.values())


def test_resampled_sums_take_patients_whole() -> None:
    sums = resampled_sums([[1, 10], [1, 10], [1, 10]], ["a", "a", "b"], 200, (0,))
    assert sums.shape == (200, 2)
    assert set(sums[:, 0]) == {2, 3, 4}
    assert (sums[:, 1] == 10 * sums[:, 0]).all()


def test_means_leave_out_what_is_not_defined() -> None:
    columns = [[1.0, math.nan], [3.0, math.nan], [math.nan, math.nan], [2.0, math.nan]]
    found, none = means_of(columns, ["a", "a", "b", "c"], 400, (0,))
    assert found.value == 2
    assert found.low == found.high == 2  # both patients' means are
    assert none.value is None
    spread, _ = means_of([[float(n), 1.0] for n in range(30)], range(30), 2000, (0,))
    assert spread.value == 14.5
    error = np.arange(30).std(ddof=1) / math.sqrt(30)
    assert spread.low == pytest.approx(14.5 - 2.045 * error, abs=0.3)  # Student's t
    assert spread.high == pytest.approx(14.5 + 2.045 * error, abs=0.3)


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="no label is 0"):
        operating_point([1.0, 2.0], [1, 1], 0.5)
    with pytest.raises(ValueError, match="prevalence must lie"):
        operating_point(SCORES, LABELS, 0.5, prevalence=5)


def test_the_slope_is_that_of_a_logistic_regression() -> None:
    scores, labels = random_case()
    logits = 2.5 * scores - 0.4  # too extreme, and too low
    found = recalibration(logits, labels)
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(logits[:, None], labels)
    assert found.slope.value == pytest.approx(expected.coef_[0, 0], abs=1e-5)
    # In the large: the mean of probabilities is the share of positives.
    assert found.intercept.value is not None
    assert logistic(logits + found.intercept.value).mean() == pytest.approx(labels.mean())
    assert found.slope.low is not None
    assert found.slope.high is not None
    assert found.slope.low < found.slope.value < 1  # type: ignore[operator]


def test_the_errors_of_a_slope_are_the_sandwich() -> None:
    scores, labels = random_case(200)
    design = np.stack([np.ones(200), scores], axis=1)
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], labels)
    p = fitted.predict_proba(scores[:, None])[:, 1]
    bread = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
    each = design * (labels - p)[:, None]
    meat = each.T @ each * 200 / 199
    half = 1.972 * math.sqrt((bread @ meat @ bread)[1, 1])  # Student's t of 199 degrees
    slope = recalibration(scores, labels).slope
    assert slope.high - slope.low == pytest.approx(2 * half, rel=1e-3)  # type: ignore[operator]
    # Two copies of each row, of one patient: the same interval, and not one narrower by √2.
    twice = recalibration(np.tile(scores, 2), np.tile(labels, 2), [*range(200), *range(200)]).slope
    assert (twice.low, twice.high) == pytest.approx((slope.low, slope.high))


def test_classes_apart_have_no_slope() -> None:
    found = recalibration([2.0, 1.0, -1.0, -2.0], [1, 1, 0, 0])
    assert found.slope.value is None
    assert found.intercept.value == pytest.approx(0.0, abs=1e-9)
    assert recalibration([1.0, 1.0, 1.0], [1, 0, 0]).slope.value is None


def test_net_benefit_by_hand() -> None:
    probabilities = [0.9, 0.7, 0.6, 0.3, 0.2]
    labels = [1, 0, 1, 1, 0]
    found = net_benefit(probabilities, labels, [0.5, 0.25, 0.95])
    # At 0.5: two true and one false of five; at 0.25 all three and one false at odds 1 / 3.
    assert found.model == pytest.approx((1 / 5, 3 / 5 - 1 / 15, 0))
    assert found.everyone == pytest.approx((1 / 5, 3 / 5 - 2 / 15, 3 / 5 - 2 / 5 * 19))
    assert found.low[0] < found.model[0] < found.high[0]
    with pytest.raises(ValueError, match="thresholds must be"):
        net_benefit(probabilities, labels, [1.0])
    with pytest.raises(ValueError, match="must lie in"):
        net_benefit([2.0, 1.0], [1, 0])


def test_net_benefit_of_acting_on_all_is_the_models_where_it_acts_on_all() -> None:
    scores, labels = random_case()
    found = net_benefit(0.5 + 0.4 * np.tanh(scores), labels, [0.05])
    assert found.model == found.everyone


def test_clusters_widen_the_band() -> None:
    scores, labels = random_case(100)
    p = np.tile(logistic(scores), 4)
    clusters = [*range(100)] * 4
    alone = net_benefit(p, np.tile(labels, 4), [0.3])
    grouped = net_benefit(p, np.tile(labels, 4), [0.3], clusters)
    assert grouped.model == alone.model
    width = (grouped.high[0] - grouped.low[0]) / (alone.high[0] - alone.low[0])
    assert width == pytest.approx(2, rel=0.02)


def test_a_single_patient_has_no_interval() -> None:
    scores, labels = random_case(60)
    clusters = ["one"] * 60
    found = recalibration(scores, labels, clusters)
    everyone = recalibration(scores, labels)
    assert (found.slope.value, found.intercept.value) == (
        everyone.slope.value, everyone.intercept.value,
    )  # fmt: skip
    for one in (found.slope, found.intercept):
        assert (one.low, one.high) == (None, None)
    benefit = net_benefit(logistic(scores), labels, [0.2, 0.5], clusters)
    assert benefit.model == net_benefit(logistic(scores), labels, [0.2, 0.5]).model
    assert (benefit.low, benefit.high) == ((), ())
    point = operating_point(
        scores, labels, 0.0, clusters=clusters, resampled=resampled_sums(
            np.ones((60, 4)), clusters, 50, (0,)
        ),
    )  # fmt: skip
    assert (point.sensitivity.low, point.sensitivity.high) == (0, 1)
    assert (point.f1.low, point.mcc.high) == (None, None)


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
