"""Operating points of findings, and findings as classes, from what a model said of each image."""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from cxrtext.evaluation.classification.calibration import Calibration
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.multiclass import (
    LARGEST,
    class_precision,
    confusion_matrix,
    multiclass_accuracy,
    only_class,
)
from cxrtext.evaluation.classification.operating import (
    operating_point,
    outcomes,
    sensitivity_threshold,
)
from cxrtext.evaluation.classification.probabilities import net_benefit, recalibration
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.intervals.estimates import Estimate, resampled_sums
from cxrtext.evaluation.intervals.methods import BAND, RATIO, RESAMPLED, SANDWICH, SHARE
from cxrtext.evaluation.metrics import Floats, Truth
from cxrtext.evaluation.rows import (
    ALL_IMAGES,
    CALIBRATION,
    CLASSES,
    CONFUSION,
    NET_BENEFIT,
    ON_ALL,
    OPERATING,
    Rows,
)
from cxrtext.evaluation.settings import Settings

YOUDEN = "Youden"
SCORES = "positive prompt", "difference"
"""What classes are told apart by."""


def measure_operating(
    given: Classified, scores: Mapping[str, FindingScores], settings: Settings
) -> Rows:
    """Operating points by how their threshold was chosen, calibration and net benefit by finding.

    Of the findings with both classes among the images measured and among validation images, which
    choose the thresholds (Youden's, and that of a given sensitivity) and Platt's scale and shift.
    ``scores`` are those of :func:`~.zero_shot.measure_zero_shot`.  An infinite likelihood ratio, or
    end of one, is infinite here too.
    """
    rows = Rows()
    own = np.flatnonzero(given.measured)
    patients = [given.images.patients[place] for place in own.tolist()]
    for number, (finding, one) in enumerate(scores.items()):
        if one.fit is None or not one.truth.any() or one.truth.all():
            continue
        seen, said = given.rows(number, settings.uncertain, measured=False)
        validation = given.scores[number][seen]
        other = sensitivity_threshold(validation, said, settings.sensitivity)
        theirs = [patients[row] for row in one.rows.tolist()]
        for chosen, threshold in (
            (YOUDEN, one.fit.threshold),
            (f"sensitivity {settings.sensitivity:g}", other),
        ):
            _point(rows, f"{OPERATING}, {chosen}", finding, one, threshold, theirs, settings)
        _probability(rows, finding, one.scores, one.truth, one.fit.platt, theirs)
    return rows


def _point(
    rows: Rows,
    part: str,
    finding: str,
    one: FindingScores,
    threshold: float,
    patients: Sequence[str],
    settings: Settings,
) -> None:
    """What a threshold does."""
    sums = resampled_sums(
        outcomes(one.scores, one.truth, threshold), patients, settings.resamples, (settings.seed, 6)
    )
    point = operating_point(
        one.scores,
        one.truth,
        threshold,
        clusters=patients,
        prevalence=settings.prevalence,
        resampled=sums,
    )
    counts = point.counts
    for name, value in (
        ("threshold", threshold),
        ("prevalence", point.prevalence),
        ("TP", counts.true_positives),
        ("FP", counts.false_positives),
        ("FN", counts.false_negatives),
        ("TN", counts.true_negatives),
    ):
        rows.add(part, finding, name, value)
    shares = {
        "sensitivity": point.sensitivity,
        "specificity": point.specificity,
        "PPV": point.ppv,
        "NPV": point.npv,
    }
    ratios = {"LR+": point.ratio_positive, "LR−": point.ratio_negative}
    for name, share in shares.items():
        rows.add(part, finding, name, share, method=SHARE)
    for name, ratio in ratios.items():
        ends = [inf if end is None else end for end in (ratio.value, ratio.high)]
        known = Estimate() if ratio.low is None else Estimate(ends[0], ratio.low, ends[1])
        rows.add(part, finding, name, known, method=RATIO)
    for name, found in (("F1", point.f1), ("MCC", point.mcc)):
        rows.add(part, finding, name, found, method=RESAMPLED)
    if point.at_prevalence:
        for name, key in (
            ("other prevalence", "prevalence"), ("PPV at it", "ppv"), ("NPV at it", "npv")
        ):  # fmt: skip
            rows.add(part, finding, name, point.at_prevalence[key], method=RATIO)


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
    none = (None,) * len(benefit.thresholds)
    for cut, *ends in zip(
        benefit.thresholds, benefit.model, benefit.low or none, benefit.high or none, strict=True
    ):
        rows.add(NET_BENEFIT, finding, f"{cut:.2f}", Estimate(*ends), method=BAND)
    for cut, value in zip(benefit.thresholds, benefit.everyone, strict=True):
        rows.add(ON_ALL, finding, f"{cut:.2f}", value)


def measure_classes(given: Classified, settings: Settings) -> tuple[Rows, str]:
    """Findings as classes of the images that have exactly one.

    Returns:
        The figures by score, by finding, and what is taken for what; and why they are left out
        ("" where they are not).
    """
    rows = Rows()
    findings = given.findings
    if not 2 <= len(findings) <= LARGEST:
        return rows, f"multi-class accuracy: it is for 2 to {LARGEST} findings"
    settled = {"ignore": -1, "positive": 1, "negative": 0}[settings.uncertain]
    labels = np.where(given.labels == -1, settled, given.labels)
    classes = only_class(labels)
    own = np.flatnonzero(given.measured & (classes >= 0))
    counts = np.bincount(classes[own], minlength=len(findings))
    if (counts > 0).sum() < 2:
        return rows, "multi-class accuracy: images with exactly one finding are all of one"
    truth, patients = classes[own], [given.images.patients[row] for row in own]
    by = dict(zip(SCORES, (given.positive[:, own], given.scores[:, own]), strict=True))
    shown = counts > 0
    for name, scores in by.items():
        matrix = confusion_matrix(scores, truth)
        accuracy = multiclass_accuracy(scores, truth, patients)
        rows.add(CLASSES, name, "accuracy", accuracy, len(own), SHARE)
        rows.add(
            CLASSES, name, "mean recall", float((np.diag(matrix)[shown] / counts[shown]).mean())
        )
        precision = class_precision(scores, truth)
        for cut, each in precision.items():
            rows.add(CLASSES, name, cut, float(each[shown].mean()))
        for number, finding in enumerate(findings):
            rows.add(f"{CLASSES}, {name}", finding, "images", int(counts[number]))
            for cut, each in precision.items():
                rows.add(f"{CLASSES}, {name}", finding, cut, float(each[number]))
            for other, count in zip(findings, matrix[number].tolist(), strict=True):
                rows.add(f"{CONFUSION}, {name}", finding, other, count)
    rows.add(CLASSES, ALL_IMAGES, "images", len(own))
    rows.add(CLASSES, ALL_IMAGES, "left out", int(given.measured.sum()) - len(own))
    return rows, ""
