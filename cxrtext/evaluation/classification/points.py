"""Operating points of findings, and findings as classes, from what a model said of each image."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

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
from cxrtext.evaluation.intervals.estimates import resampled_sums
from cxrtext.evaluation.settings import Settings

YOUDEN = "Youden"
SCORES = "positive prompt", "difference"
"""What classes are told apart by."""


def measure_operating(
    given: Classified, scores: Mapping[str, FindingScores], settings: Settings
) -> dict[str, Any]:
    """Operating points, calibration and net benefit by finding, as ``metrics.json`` holds them.

    Of the findings with both classes among the images measured and among validation images, which
    choose the thresholds (Youden's, and that of a given sensitivity) and Platt's scale and shift.
    ``scores`` are those of :func:`~.zero_shot.measure_zero_shot`.
    """
    own = np.flatnonzero(given.measured)
    patients = [given.images.patients[place] for place in own.tolist()]
    chosen: dict[str, dict[str, float]] = {}
    for number, (name, one) in enumerate(scores.items()):
        if one.fit is not None and one.truth.any() and not one.truth.all():
            seen, said = given.rows(number, settings.uncertain, measured=False)
            validation = given.scores[number][seen]
            other = sensitivity_threshold(validation, said, settings.sensitivity)
            wanted = f"sensitivity {settings.sensitivity:g}"
            chosen[name] = {YOUDEN: one.fit.threshold, wanted: other}
    return {
        name: _measure(scores[name], thresholds, patients, settings)
        for name, thresholds in chosen.items()
    }


def _measure(
    one: FindingScores,
    thresholds: Mapping[str, float],
    patients: Sequence[str],
    settings: Settings,
) -> dict[str, Any]:
    assert one.fit is not None  # noqa: S101 - of findings that have thresholds
    own = [patients[row] for row in one.rows.tolist()]
    points = [
        operating_point(
            one.scores,
            one.truth,
            threshold,
            chosen=how,
            clusters=own,
            prevalence=settings.prevalence,
            resampled=resampled_sums(
                outcomes(one.scores, one.truth, threshold),
                own,
                settings.resamples,
                (settings.seed, 6),
            ),
        )
        for how, threshold in thresholds.items()
    ]
    platt = one.fit.platt
    logits = platt.scale * one.scores + platt.shift
    benefit = net_benefit(platt.probabilities(one.scores), one.truth, clusters=own)
    return {
        "points": [asdict(point) for point in points],
        "calibration": asdict(recalibration(logits, one.truth, own)),
        "net_benefit": asdict(benefit),
    }


def measure_classes(given: Classified, settings: Settings) -> tuple[dict[str, Any], str]:
    """Findings as classes of the images that have exactly one, as ``metrics.json`` holds them.

    Returns:
        It, and why it is left out ("" where it is not).
    """
    findings = given.findings
    if not 2 <= len(findings) <= LARGEST:
        return {}, f"multi-class accuracy: it is for 2 to {LARGEST} findings"
    settled = {"ignore": -1, "positive": 1, "negative": 0}[settings.uncertain]
    labels = np.where(given.labels == -1, settled, given.labels)
    classes = only_class(labels)
    rows = np.flatnonzero(given.measured & (classes >= 0))
    counts = np.bincount(classes[rows], minlength=len(findings))
    if (counts > 0).sum() < 2:
        return {}, "multi-class accuracy: images with exactly one finding are all of one"
    truth, patients = classes[rows], [given.images.patients[row] for row in rows]
    by = dict(zip(SCORES, (given.positive[:, rows], given.scores[:, rows]), strict=True))
    found: dict[str, Any] = {
        "images": len(rows),
        "left out": int(given.measured.sum()) - len(rows),
        "by finding": dict(zip(findings, counts.tolist(), strict=True)),
    }
    for name, scores in by.items():
        matrix = confusion_matrix(scores, truth)
        shown = counts > 0
        precision = {
            cut: {
                "mean": float(each[shown].mean()),
                "by finding": dict(zip(findings, each.tolist(), strict=True)),
            }
            for cut, each in class_precision(scores, truth).items()
        }
        found[name] = {
            "accuracy": asdict(multiclass_accuracy(scores, truth, patients)),
            "balanced_accuracy": float((np.diag(matrix)[shown] / counts[shown]).mean()),
            "confusion": matrix.tolist(),
            "precision": precision,
        }
    return found, ""
