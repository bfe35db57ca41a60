"""Findings of an image by those of the training images that it is most alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.classification.zero_shot import Labels, label_rows
from cxrtext.evaluation.intervals.delong import area
from cxrtext.evaluation.intervals.proportions import cluster_codes
from cxrtext.evaluation.metrics import Floats
from cxrtext.evaluation.probes.linear_probe import Features
from cxrtext.evaluation.settings import Settings

NEIGHBORS = 20
TEMPERATURE = 0.07


def neighbor_scores(
    train: ArrayLike, labels: ArrayLike, test: ArrayLike, neighbors: int = NEIGHBORS
) -> Floats:
    """The weighted share of an image's nearest training images that have a finding.

    Features [n, D] and [m, D] are centered by the training mean and compared by their cosine; each
    neighbor has the weight exp(cosine / 0.07).

    All count where there are fewer than ``neighbors``.  Labels [n] are 1 or 0; -> [m], in [0, 1].

    Source: Wu et al. 2018, section 3.4.
    """
    from sklearn.neighbors import KNeighborsClassifier

    known, truth = np.asarray(train, dtype=np.float64), np.asarray(labels)
    if known.ndim != 2 or truth.shape != known.shape[:1] or not len(known):
        raise ValueError(f"features must be [n, D] and labels [n], got {known.shape}")
    if neighbors < 1:
        raise ValueError(f"neighbors must be at least 1, got {neighbors}")
    center = known.mean(axis=0)
    nearest = KNeighborsClassifier(
        min(neighbors, len(known)),
        weights=lambda distances: np.exp(-distances / TEMPERATURE),
        metric="cosine",
    )
    nearest.fit(known - center, truth)
    found: Floats = nearest.predict_proba(np.asarray(test, dtype=np.float64) - center)[:, 1]
    return found


def measure_neighbors(
    train: Features,
    test: Features,
    labels: Labels,
    findings: Sequence[str],
    patients: Sequence[str],
    settings: Settings,
) -> dict[str, Any]:
    """Measure the neighbors' findings; ``patients`` are of the test images.

    Returns:
        By finding ``auc``, ``interval``, ``accuracy`` (a share above 0.5 says that it is there)
        and ``train``; without those that lack a class in the training or the test images.
    """
    found: dict[str, Any] = {}
    for finding in findings:
        rows, truth = label_rows(labels, train.studies, finding, settings)
        asked, wanted = label_rows(labels, test.studies, finding, settings)
        if len(set(truth.tolist())) < 2 or len(set(wanted.tolist())) < 2:
            continue
        scores = neighbor_scores(train.vectors[rows], truth, test.vectors[asked])
        measured = area(scores, wanted, cluster_codes([patients[row] for row in asked]))
        found[finding] = {
            "auc": measured.value,
            "interval": measured.interval(),
            "accuracy": float(((scores > 0.5) == wanted).mean()),
            "train": len(rows),
        }
    return found
