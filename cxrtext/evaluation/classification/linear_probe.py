"""Linear probes of findings on frozen image features."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.zero_shot import Labels
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.calibration import log_loss
from cxrtext.metrics.ranking import Floats, settled
from cxrtext.records import ImageRecord

RIDGES = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)


@dataclass(frozen=True, slots=True)
class Probe:
    """A logistic regression on features: weights [D], a bias, and the penalty of its fit."""

    weights: Floats
    bias: float
    ridge: float

    def logits(self, features: ArrayLike) -> Floats:
        """Logits of features, [n, D] -> [n]."""
        return np.asarray(features, dtype=np.float64) @ self.weights + self.bias


def linear_probe(
    features: ArrayLike,
    labels: ArrayLike,
    validation_features: ArrayLike,
    validation_labels: ArrayLike,
    ridges: Sequence[float] = RIDGES,
) -> Probe:
    """Fit a probe, with the ridge that gives validation images the lowest log-loss.

    It minimizes mean log-loss + ridge / 2 · |w|² over features scaled to mean 0 and deviation 1, so
    that one ridge suits all; the returned probe takes unscaled features, and constant features
    get weight 0.  The bias is not penalized.  Each fit starts at the last; the first of several
    equally good ridges is used.  Features [n, D] are finite, labels [n] are 1 or 0, and both occur.

    Source: Alain and Bengio 2017.
    """
    from sklearn.linear_model import LogisticRegression

    every, truth = np.asarray(features, dtype=np.float64), np.asarray(labels)
    center, spread = every.mean(axis=0), every.std(axis=0)
    live = spread > 1e-12 * np.abs(every).max(axis=0)
    scale = np.where(live, 1 / np.where(live, spread, 1), 0)
    model = LogisticRegression(tol=1e-8, max_iter=500, warm_start=True)
    fits = []
    for ridge in ridges:
        model.set_params(C=1 / (ridge * len(truth)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that has not quite converged is as good
            model.fit((every - center) * scale, truth)
        weights = model.coef_[0] * scale
        fits.append(Probe(weights, float(model.intercept_[0] - weights @ center), ridge))
    return min(fits, key=lambda fit: log_loss(fit.logits(validation_features), validation_labels))


@dataclass(frozen=True, slots=True)
class Features:
    """Mean regions of some images, [n, D], and their studies, [n]."""

    vectors: Floats
    studies: list[str]


def mean_features(embedder: Embedder, records: Sequence[ImageRecord]) -> Features:
    parts, studies = [], []
    for rows, _, regions in embedder.batches(records):
        parts.append(regions.mean(dim=1).double().cpu().numpy())
        studies += [records[row].study_id for row in rows]
    dimension = embedder.model.spec.dimension
    return Features(np.concatenate(parts) if parts else np.empty((0, dimension)), studies)


def features_of(cohort: Cohort) -> Features:
    parts = [part.float().mean(dim=1).double().numpy() for part in cohort.regions.split(256)]
    return Features(np.concatenate(parts), cohort.studies)


def fit_probes(
    train: Features,
    validation: Features,
    test: Features,
    labels: Labels,
    findings: Sequence[str],
    images: Images,
    settings: Settings,
) -> tuple[Classified | None, dict[str, dict[str, Any]], list[str]]:
    """Part "probe": one probe for each finding, with its logits on test images [F, B] as scores.

    Returns the part, or None without any probe; by finding the ridge and the number of images it
    was fitted to ("train"); and a line for each finding with one class only in one of the parts.
    """
    logits: dict[str, Floats] = {}
    fits: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    for finding in findings:
        parts = []
        for features in (train, validation, test):
            codes = label_codes(labels, features.studies, [finding])[0]
            known, truth = settled(codes, settings.uncertain)
            parts.append((features.vectors[known], truth[known].astype(np.int64)))
        if any(len(set(truth.tolist())) < 2 for _, truth in parts):
            lines.append(f"probe: {finding}: training, validation or test images lack a class")
            continue
        probe = linear_probe(*parts[0], *parts[1])
        logits[finding] = probe.logits(test.vectors)
        fits[finding] = {"train": len(parts[0][1]), "ridge": probe.ridge}
    if not fits:
        return None, fits, lines
    scores, codes = np.stack([*logits.values()]), label_codes(labels, test.studies, list(fits))
    measured = np.ones(len(images), dtype=np.bool_)
    part = Classified(tuple(fits), images, scores, np.zeros_like(scores), codes, measured)
    return part, fits, lines
