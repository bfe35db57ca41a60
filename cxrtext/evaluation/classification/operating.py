"""What a threshold does: counts, shares, predictive values.

Scores are [n], labels [n] are 1 or 0, ``clusters`` [n] are patients; above a threshold means
present.  What does not fit is a ValueError.
"""

from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.calibration import Calibration
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.probabilities import THRESHOLDS, net_benefit, recalibration
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.intervals.bootstrap import interval_of
from cxrtext.evaluation.intervals.estimates import Estimate, Patients, resampled_sums, share_of
from cxrtext.evaluation.intervals.methods import BAND, RATIO, RESAMPLED, SANDWICH, SHARE
from cxrtext.evaluation.metrics import Floats, Truth, quotient, scores_and_truth
from cxrtext.evaluation.rows import CALIBRATION, NET_BENEFIT, ON_ALL, OPERATING, YOUDEN, Rows
from cxrtext.evaluation.settings import Settings


def outcomes(scores: ArrayLike, labels: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    """Which of the four each row is, [n, 4]: true and false positive, false and true negative."""
    values, truth = scores_and_truth(scores, labels, positive=False, negative=False)
    above = values > threshold
    return np.stack([above & truth, above & ~truth, ~above & truth, ~above & ~truth], axis=1)


def sensitivity_threshold(scores: ArrayLike, labels: ArrayLike, sensitivity: float) -> float:
    """The highest threshold that at least a share of the positives of validation images exceeds.

    Halfway between two scores, as :func:`~cxrtext.evaluation.metrics.youden_threshold`; above it
    says present.
    """
    values, truth = scores_and_truth(scores, labels, negative=False)
    if not 0 < sensitivity <= 1:
        raise ValueError(f"sensitivity must lie above 0 and be at most 1, not {sensitivity}")
    positives = np.sort(values[truth])[::-1]
    # Rounding must not want one positive more: 0.95 of 20 are 19.
    wanted = int(np.ceil(sensitivity * len(positives) - 1e-9))
    high = float(positives[max(wanted, 1) - 1])
    below = values[values < high]
    if not below.size:
        return float(np.nextafter(high, -np.inf))
    low = float(below.max())
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def f1_score(counts: ArrayLike) -> Floats:
    """F1 of true positives, false positives, false negatives and true negatives, [..., 4] -> [...].

    NaN where there is neither a positive nor one that was called so.

    Source: van Rijsbergen 1979; Dice 1945.
    """
    true, false, missed, _ = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    return quotient(2 * true, 2 * true + false + missed)


def matthews(counts: ArrayLike) -> Floats:
    """Matthews' correlation of the four counts, [..., 4] -> [...], in [−1, 1].

    0 where all are called alike, or there is one class alone, as scikit-learn has it.

    Source: Matthews 1975.
    """
    true, false, missed, left = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    whole = (true + false) * (true + missed) * (left + false) * (left + missed)
    top = true * left - false * missed
    score: Floats = np.divide(top, np.sqrt(whole), out=np.zeros(whole.shape), where=whole > 0)
    return score


Ends = tuple[float, float, float]
"""A value, and the low and the high end of its interval."""


def ratio_of(one: Ends, other: Ends) -> Ends:
    """The ratio of two shares with its interval, from theirs; NaN for 0 / 0, and may be infinite.

    Those of independent shares (positives and negatives); where both come from the same patients
    their errors go along, and the interval is rather too wide than too narrow.

    Source: Donner and Zou 2012 (method of variance estimates recovery).
    """
    (first, l1, u1), (second, l2, u2) = one, other
    if not second:
        # All of the interval's low end is known of: what the share above it can be at its least.
        low = sqrt(l1 * (2 * first - l1)) / u2
        return (inf if first else nan), low, inf
    middle = first * second
    top, bottom = l1 * (2 * first - l1), u2 * (2 * second - u2)
    low = top / (middle + sqrt(max(middle**2 - top * bottom, 0.0))) if top > 0 else 0.0
    top, bottom = u1 * (2 * first - u1), l2 * (2 * second - l2)
    high = (middle + sqrt(max(middle**2 - top * bottom, 0.0))) / bottom if bottom > 0 else inf
    return first / second, low, high


def likelihood_ratios(sensitivity: Ends, specificity: Ends) -> tuple[Ends, Ends]:
    """The likelihood ratios of a positive and of a negative, from both shares.

    sensitivity / (1 − specificity) and (1 − sensitivity) / specificity; see :func:`ratio_of`.

    Source: Simel, Samsa and Matchar 1991.
    """
    (se, se_low, se_high), (sp, sp_low, sp_high) = sensitivity, specificity
    positive = ratio_of(sensitivity, (1 - sp, 1 - sp_high, 1 - sp_low))
    return positive, ratio_of((1 - se, 1 - se_high, 1 - se_low), specificity)


def positive_value(ratio: float, prevalence: float) -> float:
    """The chance that a positive is true, from the positive likelihood ratio.  Source: Bayes."""
    odds = ratio * prevalence / (1 - prevalence)
    return 1.0 if odds == inf else odds / (1 + odds)


def negative_value(ratio: float, prevalence: float) -> float:
    """The chance that a negative is true, from the negative likelihood ratio.  Source: Bayes."""
    return 1 / (1 + ratio * prevalence / (1 - prevalence))


COUNTS = ("TP", "FP", "FN", "TN")
METHODS = {
    **dict.fromkeys(("sensitivity", "specificity", "PPV", "NPV"), SHARE),
    **dict.fromkeys(("LR+", "LR−", "PPV at it", "NPV at it"), RATIO),
    **dict.fromkeys(("F1", "MCC"), RESAMPLED),
}
"""By measure of an operating point the method of its interval; the others have none."""


def _some(clusters: Patients, rows: ArrayLike) -> Patients:
    return None if clusters is None else [clusters[row] for row in np.flatnonzero(rows).tolist()]


def operating_point(
    scores: ArrayLike,
    labels: ArrayLike,
    threshold: float,
    *,
    clusters: Patients = None,
    prevalence: float | None = None,
    resampled: ArrayLike | None = None,
) -> dict[str, Estimate]:
    """Measure a threshold that was chosen on other rows; both classes must occur.

    By the names of ``results.csv``.  Shares have Wilson's interval, clustered by patient;
    likelihood ratios, which may be infinite, and the predictive values of a given prevalence,
    "PPV at it" and "NPV at it", follow from those of sensitivity and specificity; F1 and MCC have
    percentiles over resamples of the patients, where there are some.

    Args:
        prevalence: For PPV and NPV of other people than those of the data.
        resampled: [R, 4], sums of :func:`outcomes` on resamples
            (:func:`~cxrtext.evaluation.intervals.estimates.resampled_sums`).

    Source: Altman and Bland 1994 (predictive values); Donner and Zou 2012 (:func:`ratio_of`).
    """
    values, truth = scores_and_truth(scores, labels)
    if clusters is not None and len(clusters) != len(values):
        raise ValueError(f"{len(values)} scores and {len(clusters)} clusters must be equally many")
    if prevalence is not None and not 0 < prevalence < 1:
        raise ValueError(f"prevalence must lie between 0 and 1, not {prevalence}")
    above = values > threshold
    totals = outcomes(values, truth, threshold).sum(axis=0)
    found = {"threshold": Estimate(threshold), "prevalence": Estimate(float(truth.mean()))}
    found |= {name: Estimate(n) for name, n in zip(COUNTS, totals.tolist(), strict=True)}
    for name, right, at in (
        ("sensitivity", above[truth], truth),
        ("specificity", ~above[~truth], ~truth),
        ("PPV", truth[above], above),
        ("NPV", ~truth[~above], ~above),
    ):
        found[name] = share_of(right, _some(clusters, at))
    ratios = likelihood_ratios(_ends(found["sensitivity"]), _ends(found["specificity"]))
    for name, (value, *ends) in zip(("LR+", "LR−"), ratios, strict=True):
        found[name] = Estimate() if isnan(value) else Estimate(value, *ends)
    drawn = np.zeros((0, 4)) if resampled is None else np.asarray(resampled)
    patients = len(values) if clusters is None else len(set(clusters))
    found["F1"] = _percentiles(f1_score(totals), f1_score(drawn), patients)
    found["MCC"] = _percentiles(matthews(totals), matthews(drawn), patients)
    if prevalence is not None:
        found["other prevalence"] = Estimate(prevalence)
        # PPV rises with its likelihood ratio, and NPV falls.
        for name, of, ratio in (
            ("PPV at it", positive_value, ratios[0]), ("NPV at it", negative_value, ratios[1])
        ):  # fmt: skip
            value, *ends = (of(one, prevalence) for one in ratio)
            kept = (one if isfinite(one) else None for one in (value, min(ends), max(ends)))
            found[name] = Estimate(*kept)
    return found


def _ends(one: Estimate) -> Ends:
    assert one.value is not None and one.low is not None and one.high is not None  # noqa: S101, PT018 - both classes occur
    return one.value, one.low, one.high


def _percentiles(value: Floats, resampled: Floats, patients: int) -> Estimate:
    if np.isnan(value):
        return Estimate()
    return Estimate(float(value), *(interval_of(resampled, patients) or (None, None)))


def measure_operating(
    given: Classified, scores: Mapping[str, FindingScores], settings: Settings
) -> Rows:
    """Operating points by how their threshold was chosen, calibration and net benefit by finding.

    Of the findings with both classes among the images measured and among validation images, which
    choose the thresholds (Youden's, and that of a given sensitivity) and Platt's scale and shift.
    ``scores`` are those of :func:`~.zero_shot.measure_zero_shot`.
    """
    rows = Rows()
    patients = [given.images.patients[place] for place in np.flatnonzero(given.measured).tolist()]
    for number, (finding, one) in enumerate(scores.items()):
        if one.fit is None or not one.truth.any() or one.truth.all():
            continue
        seen, said = given.rows(number, settings.uncertain, measured=False)
        other = sensitivity_threshold(given.scores[number][seen], said, settings.sensitivity)
        theirs = [patients[row] for row in one.rows.tolist()]
        for chosen, threshold in (
            (YOUDEN, one.fit.threshold),
            (f"sensitivity {settings.sensitivity:g}", other),
        ):
            point = operating_point(
                one.scores,
                one.truth,
                threshold,
                clusters=theirs,
                prevalence=settings.prevalence,
                resampled=resampled_sums(
                    outcomes(one.scores, one.truth, threshold),
                    theirs,
                    settings.resamples,
                    (settings.seed, 6),
                ),
            )
            for name, found in point.items():
                rows.add(
                    f"{OPERATING}, {chosen}", finding, name, found, method=METHODS.get(name, "")
                )
        _probability(rows, finding, one.scores, one.truth, one.fit.platt, theirs)
    return rows


def _probability(
    rows: Rows,
    finding: str,
    scores: Floats,
    truth: Truth,
    platt: Calibration,
    patients: Sequence[str],
) -> None:
    """What the probability with Platt's scale and shift is worth."""
    found = recalibration(platt.scale * scores + platt.shift, truth, patients)
    rows.add(CALIBRATION, finding, "slope", found.slope, method=SANDWICH)
    rows.add(CALIBRATION, finding, "intercept", found.intercept, method=SANDWICH)
    benefit = net_benefit(platt.probabilities(scores), truth, clusters=patients)
    for cut, model in zip(THRESHOLDS, benefit.model, strict=True):
        rows.add(NET_BENEFIT, finding, f"{cut:.2f}", model, method=BAND)
    for cut, value in zip(THRESHOLDS, benefit.everyone, strict=True):
        rows.add(ON_ALL, finding, f"{cut:.2f}", value)
