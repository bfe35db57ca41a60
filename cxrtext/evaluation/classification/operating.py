"""What a threshold does: counts, shares, predictive values.

Scores are [n], labels [n] are 1 or 0, ``patients`` [n] are those of the rows; above a threshold
means present.  Arguments that do not fit raise a ValueError.
"""

from collections.abc import Mapping
from math import inf, isnan, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.rows import (
    CALIBRATION,
    NET_BENEFIT,
    ON_ALL,
    OPERATING,
    YOUDEN,
    Estimate,
    Rows,
)
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.calibration import THRESHOLDS, net_benefit, recalibration
from cxrtext.metrics.intervals import Measured, ratio_of, share
from cxrtext.metrics.ranking import Patients, patient_codes, scores_and_truth, sensitivity_threshold

RATIO = "from the intervals of sensitivity and specificity (Donner and Zou)"
Ends = tuple[float, float, float]
"""A value, and the low and the high end of its interval."""
Found = Measured | Estimate | float | None


def quotient_of(one: Ends, other: Ends) -> Ends:
    """The ratio of two shares, with an interval made from theirs; NaN for 0 / 0, may be infinite.

    It treats the shares (positives and negatives) as independent; if both come from the same
    patients, their errors are correlated and the interval is rather too wide than too narrow.

    Source: Donner and Zou 2012 (method of variance estimates recovery).
    """
    (first, l1, u1), (second, l2, u2) = one, other
    if not second:
        # Only the low end is known: the least that the upper share can be.
        low = sqrt(l1 * (2 * first - l1)) / u2
        return (inf if first else nan), low, inf
    middle = first * second
    top, bottom = l1 * (2 * first - l1), u2 * (2 * second - u2)
    low = top / (middle + sqrt(max(middle**2 - top * bottom, 0.0))) if top > 0 else 0.0
    top, bottom = u1 * (2 * first - u1), l2 * (2 * second - l2)
    high = (middle + sqrt(max(middle**2 - top * bottom, 0.0))) / bottom if bottom > 0 else inf
    return first / second, low, high


def likelihood_ratios(sensitivity: Ends, specificity: Ends) -> tuple[Ends, Ends]:
    """The likelihood ratios of a positive and of a negative result, from both shares.

    sensitivity / (1 − specificity) and (1 − sensitivity) / specificity; see :func:`quotient_of`.

    Source: Simel, Samsa and Matchar 1991.
    """
    (se, se_low, se_high), (sp, sp_low, sp_high) = sensitivity, specificity
    positive = quotient_of(sensitivity, (1 - sp, 1 - sp_high, 1 - sp_low))
    return positive, quotient_of((1 - se, 1 - se_high, 1 - se_low), specificity)


def operating_point(
    scores: ArrayLike, labels: ArrayLike, threshold: float, *, patients: Patients = None
) -> dict[str, Found]:
    """Measure a threshold that was chosen on other rows; both classes must occur.

    Names are those of ``results.csv``.  Likelihood ratios may be infinite; their intervals follow
    from those of sensitivity and specificity.

    Source: Altman and Bland 1994 (predictive values); Donner and Zou 2012 (:func:`quotient_of`);
    van Rijsbergen 1979 (F1).
    """
    values, truth = scores_and_truth(scores, labels)
    codes = patient_codes(patients, len(values))
    above = values > threshold
    found: dict[str, Found] = {"threshold": threshold, "prevalence": float(truth.mean())}
    for name, rows in (
        ("TP", above & truth), ("FP", above & ~truth), ("FN", ~above & truth),
        ("TN", ~above & ~truth),
    ):  # fmt: skip
        found[name] = int(rows.sum())
    for name, right, at in (
        ("sensitivity", above, truth), ("specificity", ~above, ~truth), ("PPV", truth, above),
        ("NPV", ~truth, ~above),
    ):  # fmt: skip
        found[name] = share(right[at], codes[at]) if at.any() else None
    ratios = likelihood_ratios(_ends(found["sensitivity"]), _ends(found["specificity"]))
    for name, (value, *ends) in zip(("LR+", "LR−"), ratios, strict=True):
        low, high = (None if isnan(end) else end for end in ends)
        found[name] = None if isnan(value) else Estimate(value, low, high, RATIO)
    called = above.astype(np.float64) + truth
    found["F1"] = ratio_of(2.0 * (above & truth), called, codes)
    return found


def _ends(one: Found) -> Ends:
    """A share with its interval; 0 to 1 for a single patient."""
    assert isinstance(one, Measured)  # noqa: S101 - both classes occur
    return one.value, *(one.interval() or (0.0, 1.0))


def measure_operating(
    given: Classified, scores: Mapping[str, FindingScores], settings: Settings
) -> Rows:
    """Operating points by how their threshold was chosen, calibration and net benefit by finding.

    Only findings with both classes among the images measured and among validation images count.
    The latter choose the thresholds (Youden's, and that of a given sensitivity) and Platt's scale
    and shift.  ``scores`` come from :func:`~.zero_shot.measure_zero_shot`.
    """
    rows = Rows()
    patients = [given.images.patients[place] for place in np.flatnonzero(given.measured).tolist()]
    for number, (finding, one) in enumerate(scores.items()):
        if one.fit is None or not one.truth.any() or one.truth.all():
            continue
        seen, labels = given.rows(number, settings.uncertain, measured=False)
        other = sensitivity_threshold(given.scores[number][seen], labels, settings.sensitivity)
        theirs = [patients[row] for row in one.rows.tolist()]
        for chosen, threshold in (
            (YOUDEN, one.fit.threshold),
            (f"sensitivity {settings.sensitivity:g}", other),
        ):
            point = operating_point(one.scores, one.truth, threshold, patients=theirs)
            for name, figure in point.items():
                rows.add(f"{OPERATING}, {chosen}", finding, name, figure)
        platt = one.fit.platt
        slope, intercept = recalibration(platt.scale * one.scores + platt.shift, one.truth, theirs)
        rows.add(CALIBRATION, finding, "slope", slope)
        rows.add(CALIBRATION, finding, "intercept", intercept)
        model, everyone = net_benefit(platt.probabilities(one.scores), one.truth, theirs)
        for cut, own, all_ in zip(THRESHOLDS, model, everyone, strict=True):
            rows.add(NET_BENEFIT, finding, f"{cut:.2f}", own)
            rows.add(ON_ALL, finding, f"{cut:.2f}", all_)
    return rows
