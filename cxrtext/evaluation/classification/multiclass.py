"""Findings as classes, for images with exactly one finding: CheXpert 5x200 and similar sets.

``scores`` are [F, B], of F findings and B images, ``labels`` [F, B] are 1, 0, −1 (uncertain) or
anything else (unknown).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.rows import ALL_IMAGES, CLASSES, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import share

PRECISION_AT = (5, 10, 100)
"""The cutoffs of ConVIRT and GLoRIA."""
LARGEST = 40
"""The most findings that are treated as classes."""
SCORES = "positive prompt", "difference"
"""The scores that tell classes apart."""


def only_class(labels: ArrayLike) -> NDArray[np.int64]:
    """The one finding of each image, [F, B] -> [B]; −1 if it does not have exactly one.

    An image with one certain finding and an uncertain one is left out.  An unknown finding counts
    as absent, as in CheXpert 5x200: its labels leave out what reports do not name.
    """
    given = np.asarray(labels)
    alone = ((given == 1).sum(axis=0) == 1) & ~(given == -1).any(axis=0)
    return np.where(alone, (given == 1).argmax(axis=0), -1)


def precision_at(scores: ArrayLike, right: ArrayLike, k: int) -> float:
    """The share of the first k candidates that are right, for one query, [B].

    If equal scores span the k-th place, it is the expected share in a random order.

    >>> precision_at([0.9, 0.8, 0.1], [True, False, True], 2)
    0.5

    Source: Zhang et al. 2020 (ConVIRT) and Huang et al. 2021 (GLoRIA): text-image retrieval.
    """
    values, good = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.bool_)
    last = np.partition(values, len(values) - k)[len(values) - k]
    above, level = values > last, values == last
    return float((good[above].sum() + (k - above.sum()) * good[level].mean()) / k)


def measure_classes(given: Classified, settings: Settings) -> tuple[Rows, str]:
    """Findings as classes, on images with exactly one; and why this was left out, or "".

    Accuracy: the share of images whose own class scores highest, the first of equal ones.

    Source: Huang et al. 2021 (GLoRIA), zero-shot classification of CheXpert 5x200.
    """
    rows = Rows()
    findings = given.findings
    if not 2 <= len(findings) <= LARGEST:
        return rows, f"multi-class accuracy: it is for 2 to {LARGEST} findings"
    settled = {"ignore": -1, "positive": 1, "negative": 0}[settings.uncertain]
    classes = only_class(np.where(given.labels == -1, settled, given.labels))
    own = np.flatnonzero(given.measured & (classes >= 0))
    truth, patients = classes[own], [given.images.patients[row] for row in own]
    shown = np.unique(truth)
    if len(shown) < 2:
        return rows, "multi-class accuracy: images with exactly one finding are all of one"
    for name, every in zip(SCORES, (given.positive, given.scores), strict=True):
        scores = every[:, own]
        right = scores.argmax(axis=0) == truth
        rows.add(CLASSES, name, "accuracy", share(right, patients), len(own))
        recall = [right[truth == number].mean() for number in shown]
        rows.add(CLASSES, name, "mean recall", float(np.mean(recall)))
        for k in (k for k in PRECISION_AT if k <= len(own)):
            each = [precision_at(scores[number], truth == number, k) for number in shown]
            rows.add(CLASSES, name, f"P@{k}", float(np.mean(each)))
    rows.add(CLASSES, ALL_IMAGES, "images", len(own))
    rows.add(CLASSES, ALL_IMAGES, "left out", int(given.measured.sum()) - len(own))
    return rows, ""
