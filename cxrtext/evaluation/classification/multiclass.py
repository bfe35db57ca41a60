"""Findings as classes, of which an image has exactly one: CheXpert 5x200 and its like.

``scores`` are [F, B], of F findings and B images, ``labels`` [F, B] are 1, 0, −1 (uncertain) or
anything else (unknown).  What does not fit is a ValueError.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.intervals.estimates import Estimate, share_of
from cxrtext.evaluation.intervals.methods import SHARE
from cxrtext.evaluation.metrics import Floats
from cxrtext.evaluation.rows import ALL_IMAGES, CLASSES, CONFUSION, Rows
from cxrtext.evaluation.settings import Settings

PRECISION_AT = (5, 10, 100)
"""Those of ConVIRT and GLoRIA."""
LARGEST = 40
"""Most findings that are taken for classes."""
SCORES = "positive prompt", "difference"
"""What classes are told apart by."""


def only_class(labels: ArrayLike) -> NDArray[np.int64]:
    """The one finding that each image has, [F, B] -> [B]; −1 where it is not exactly one.

    An image that has a finding for certain and another one perhaps is left out; a finding that is
    unknown counts as absent, as in CheXpert 5x200, whose labels leave out what reports do not name.
    """
    given = np.asarray(labels)
    if given.ndim != 2 or not given.size:
        raise ValueError(f"labels must be [findings, images], not {given.shape}")
    alone = ((given == 1).sum(axis=0) == 1) & ~(given == -1).any(axis=0)
    return np.where(alone, (given == 1).argmax(axis=0), -1)


def confusion_matrix(scores: ArrayLike, classes: ArrayLike) -> NDArray[np.int64]:
    """How many images of each class (rows) score highest for each (columns), [F, F].

    Of equal scores the first finding is taken.

    >>> confusion_matrix([[0.9, 0.8], [0.1, 0.2]], [0, 1]).tolist()
    [[1, 0], [1, 0]]
    """
    values, truth = _checked(scores, classes)
    F = len(values)
    return np.bincount(truth * F + values.argmax(axis=0), minlength=F * F).reshape(F, F)


def multiclass_accuracy(
    scores: ArrayLike, classes: ArrayLike, clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """The share of images whose own class scores highest; Wilson's interval, clustered by patient.

    Source: Huang et al. 2021 (GLoRIA), zero-shot classification of CheXpert 5x200.
    """
    values, truth = _checked(scores, classes)
    return share_of(values.argmax(axis=0) == truth, clusters)


def precision_at(scores: ArrayLike, right: ArrayLike, k: int) -> float:
    """The share of the first k candidates that is right; of one query, [B].

    Where equal scores stand across the k-th place, it is what they give in a random order.

    >>> precision_at([0.9, 0.8, 0.1], [True, False, True], 2)
    0.5
    """
    values, good = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.bool_)
    if values.ndim != 1 or values.shape != good.shape or not 1 <= k <= len(values):
        raise ValueError(
            f"scores {values.shape} and right {good.shape} must be equally long, and k = {k} in it"
        )
    if np.isnan(values).any():
        raise ValueError("scores must not be NaN")
    last = np.partition(values, len(values) - k)[len(values) - k]
    above, level = values > last, values == last
    return float((good[above].sum() + (k - above.sum()) * good[level].mean()) / k)


def class_precision(scores: ArrayLike, classes: ArrayLike) -> dict[str, Floats]:
    """Precision of the first K images for the sentence of each class, ``P@K`` -> [F].

    K is each of :data:`PRECISION_AT` that is not above the number of candidates, the images of all
    classes.

    Source: Zhang et al. 2020 (ConVIRT) and Huang et al. 2021 (GLoRIA): text-image retrieval.
    """
    values, truth = _checked(scores, classes)
    return {
        f"P@{k}": np.array([precision_at(row, truth == f, k) for f, row in enumerate(values)])
        for k in PRECISION_AT
        if k <= len(truth)
    }


def _checked(scores: ArrayLike, classes: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(classes, dtype=np.int64)
    if values.ndim != 2 or values.shape[1:] != truth.shape or not values.size:
        raise ValueError(f"scores {values.shape} must be [F, B], and classes {truth.shape} [B]")
    if np.isnan(values).any():
        raise ValueError("scores must not be NaN")
    if truth.min() < 0 or truth.max() >= len(values):
        raise ValueError(f"classes must be 0 to {len(values) - 1}; leave the others out")
    return values, truth


def measure_classes(given: Classified, settings: Settings) -> tuple[Rows, str]:
    """Findings as classes of images with exactly one; and why they are left out, "" if not."""
    rows = Rows()
    findings = given.findings
    if not 2 <= len(findings) <= LARGEST:
        return rows, f"multi-class accuracy: it is for 2 to {LARGEST} findings"
    settled = {"ignore": -1, "positive": 1, "negative": 0}[settings.uncertain]
    classes = only_class(np.where(given.labels == -1, settled, given.labels))
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
        recall = np.diag(matrix)[shown] / counts[shown]
        rows.add(CLASSES, name, "mean recall", float(recall.mean()))
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
