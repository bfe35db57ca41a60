"""What frozen image features hold: linear probes of findings."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.classified import Codes, label_codes
from cxrtext.evaluation.classification.zero_shot import Labels, label_rows
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.predictions.columns import (
    Images,
    Pivot,
    as_table,
    codes,
    floats,
    whole,
    words,
)
from cxrtext.evaluation.rows import PROBES, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.calibration import log_loss
from cxrtext.metrics.intervals import area_of
from cxrtext.metrics.ranking import UNKNOWN_LABEL, Floats, settled
from cxrtext.records import ImageRecord

if TYPE_CHECKING:
    import pyarrow as pa

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True, slots=True)
class Probe:
    """A logistic regression on features: weights [D], a bias, the penalty it was fitted with."""

    weights: Floats
    bias: float
    ridge: float

    def logits(self, features: ArrayLike) -> Floats:
        """Logits of rows of features, [n, D] -> [n]."""
        return np.asarray(features, dtype=np.float64) @ self.weights + self.bias


def _checked(features: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if x.ndim != 2 or y.shape != x.shape[:1] or not x.size:
        raise ValueError(f"features must be [n, D] and labels [n], got {x.shape} and {y.shape}")
    if not np.isfinite(x).all():
        raise ValueError("features must be finite")
    if not np.isin(y, (0, 1)).all() or len(np.unique(y)) < 2:
        raise ValueError("labels must be 1 or 0, and both must occur")
    return x, y.astype(np.float64)


def standardization(features: ArrayLike) -> tuple[Floats, Floats]:
    """Mean and one over the deviation, 0 of a constant, of each feature: [n, D] -> [D] twice."""
    every = np.asarray(features, dtype=np.float64)
    center, spread = every.mean(axis=0), every.std(axis=0)
    live = spread > 1e-12 * np.abs(every).max(axis=0)
    return center, np.where(live, 1 / np.where(live, spread, 1), 0)


def _fits(features: ArrayLike, labels: ArrayLike, ridges: Sequence[float]) -> Iterator[Probe]:
    """A probe a ridge, from the stiffest on, each begun at the last.

    Mean log-loss + ridge / 2 · |w|² over features brought to mean 0 and deviation 1, so that one
    ridge suits all; the probe takes features as they are.  The bias is not penalized.
    """
    from sklearn.linear_model import LogisticRegression

    x, y = _checked(features, labels)
    center, scale = standardization(x)
    design = (x - center) * scale
    model = LogisticRegression(tol=1e-8, max_iter=500, warm_start=True)
    for ridge in sorted(ridges, reverse=True):
        if not ridge > 0:
            raise ValueError(f"ridge must be above 0, not {ridge}")
        model.set_params(C=1 / (ridge * len(y)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that is not quite at its end is as good
            model.fit(design, y)
        weights = model.coef_[0] * scale
        yield Probe(weights, float(model.intercept_[0] - weights @ center), ridge)


def linear_probe(
    features: ArrayLike,
    labels: ArrayLike,
    validation_features: ArrayLike,
    validation_labels: ArrayLike,
    ridges: Sequence[float] = RIDGES,
) -> Probe:
    """Fit a probe, with the ridge that gives validation images the lowest log-loss.

    The largest of several equally good ridges is taken.  Features [n, D] are finite, labels [n] 1
    or 0, and both occur.

    Source: Alain and Bengio 2017.
    """
    if not ridges:
        raise ValueError("give at least one ridge")
    seen, truth = _checked(validation_features, validation_labels)
    fits = _fits(features, labels, ridges)
    return min(fits, key=lambda probe: log_loss(probe.logits(seen), truth))


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


@dataclass(frozen=True, slots=True)
class Probed:
    """Part "probe": logits of probes of F findings on B images, [F, B].

    ``labels`` [F, B] as in :class:`Classified`; ``ridges`` and ``train`` [F] say how each was
    fitted, to how many images.
    """

    findings: tuple[str, ...]
    images: Images
    logits: Floats
    labels: Codes
    ridges: Floats
    train: NDArray[np.int64]

    def to_table(self) -> "pa.Table":
        import pyarrow as pa

        F, B = self.labels.shape
        labels = self.labels.ravel()
        return as_table(
            {
                **self.images.to_columns(np.tile(np.arange(B), F)),
                "finding": words(self.findings, np.repeat(np.arange(F), B)),
                "probe": self.logits.ravel(),
                "label": pa.array(labels, mask=labels == UNKNOWN_LABEL),
                "probe_ridge": np.repeat(self.ridges, B),
                "probe_train": np.repeat(self.train, B),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        pivot = Pivot.of(table)
        first = pivot.first
        return cls(
            pivot.findings,
            pivot.images,
            pivot.placed(floats(table, "probe")),
            pivot.placed(codes(table)),
            floats(table, "probe_ridge")[first],
            whole(table, "probe_train")[first],
        )


def fit_probes(
    train: Features,
    validation: Features,
    test: Features,
    labels: Labels,
    findings: Sequence[str],
    images: Images,
    settings: Settings,
) -> tuple[Probed | None, list[str]]:
    """A probe a finding applied to the test images, or None; a line where a part lacks a class."""
    fits: dict[str, tuple[Floats, float, int]] = {}
    lines: list[str] = []
    for finding in findings:
        parts = []
        for features in (train, validation, test):
            rows, truth = label_rows(labels, features.studies, finding, settings)
            parts.append((features.vectors[rows], truth.astype(np.int64)))
        if any(len(set(truth.tolist())) < 2 for _, truth in parts):
            lines.append(f"probe: {finding}: training, validation or test images lack a class")
            continue
        probe = linear_probe(*parts[0], *parts[1])
        fits[finding] = probe.logits(test.vectors), probe.ridge, len(parts[0][1])
    if not fits:
        return None, lines
    logits, ridges, counts = map(np.array, zip(*fits.values(), strict=True))
    return Probed(
        tuple(fits),
        images,
        logits,
        label_codes(labels, test.studies, list(fits)),
        ridges,
        counts,
    ), lines


def measure_probes(given: Probed, settings: Settings) -> Rows:
    """AUC by finding, beside the ridge and how many images it was fitted to."""
    rows = Rows()
    for number, finding in enumerate(given.findings):
        known, truth = settled(given.labels[number], settings.uncertain)
        at = np.flatnonzero(known)
        patients = [given.images.patients[row] for row in at]
        found = area_of(given.logits[number][at], truth[at], patients)
        rows.add(PROBES, finding, "AUC", found, len(at))
        rows.add(PROBES, finding, "train", int(given.train[number]))
        rows.add(PROBES, finding, "ridge", float(given.ridges[number]))
    return rows
