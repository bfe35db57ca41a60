"""What frozen image features hold: linear probes of findings, with all labels and with few."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.calibration import log_loss
from cxrtext.evaluation.classification.classified import Codes, label_codes
from cxrtext.evaluation.classification.zero_shot import Labels, label_rows
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.intervals.delong import area
from cxrtext.evaluation.intervals.proportions import cluster_codes
from cxrtext.evaluation.metrics import UNKNOWN_LABEL, Floats, area_under_curve, settled
from cxrtext.evaluation.predictions.columns import (
    Images,
    Pivot,
    as_table,
    codes,
    floats,
    lists,
    matrix,
    whole,
    words,
)
from cxrtext.evaluation.settings import Settings
from cxrtext.records import ImageRecord

if TYPE_CHECKING:
    import pyarrow as pa

SHOTS = (1, 5, 10, 100)
SEEDS = range(5)
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


def _fits(
    features: ArrayLike, labels: ArrayLike, ridges: Sequence[float], reference: ArrayLike | None
) -> Iterator[Probe]:
    """A probe a ridge, from the stiffest on, each begun at the last."""
    from sklearn.linear_model import LogisticRegression

    x, y = _checked(features, labels)
    center, scale = standardization(x if reference is None else reference)
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


def fit_probe(features: ArrayLike, labels: ArrayLike, ridge: float) -> Probe:
    """Fit a logistic regression: mean log-loss + ridge / 2 · |w|² over standardized features.

    Each feature is brought to mean 0 and deviation 1 first, so that one ridge suits all; the
    probe returned takes features as they are.  The bias is not penalized.  With a ridge above 0 a
    best fit exists where the classes, both of which must occur, can be separated.  Features [n, D]
    are finite, labels [n] 1 or 0.

    Source: Alain and Bengio 2017.
    """
    return next(_fits(features, labels, [ridge], None))


def linear_probe(
    features: ArrayLike,
    labels: ArrayLike,
    validation_features: ArrayLike,
    validation_labels: ArrayLike,
    ridges: Sequence[float] = RIDGES,
    *,
    reference: ArrayLike | None = None,
) -> Probe:
    """Fit a probe, with the ridge that gives validation images the lowest log-loss.

    The largest of several equally good ridges is taken; see :func:`fit_probe`.  ``reference``
    [m, D] are the features whose mean and deviation standardize, such as all training features
    where few of them have labels; by default ``features``.
    """
    if not ridges:
        raise ValueError("give at least one ridge")
    seen, truth = _checked(validation_features, validation_labels)
    fits = _fits(features, labels, ridges, reference)
    return min(fits, key=lambda probe: log_loss(probe.logits(seen), truth))


def few_label_rows(
    labels: ArrayLike, positives: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw as many positives and as many negatives, without replacement -> rising rows."""
    truth = np.asarray(labels)
    rows = []
    for label, name in ((1, "positives"), (0, "negatives")):
        places = np.flatnonzero(truth == label)
        if not 1 <= positives <= len(places):
            raise ValueError(f"{positives} {name} are wanted, of which there are {len(places)}")
        rows.append(generator.choice(places, size=positives, replace=False))
    return np.sort(np.concatenate(rows)).astype(np.int64)


def few_label_logits(
    train: tuple[ArrayLike, ArrayLike],
    validation: tuple[ArrayLike, ArrayLike],
    test: ArrayLike,
) -> dict[int, list[Floats]]:
    """Logits of test images, of probes fitted with a few labels.

    Features and labels to draw from, that choose the ridge, and features that are measured.  All
    training features standardize; the same seed draws the same rows for every model.  By number of
    positives, of :data:`SHOTS`, [n] a seed; one that the training images cannot fill is empty.
    """
    features, labels = np.asarray(train[0], dtype=np.float64), np.asarray(train[1])
    fewest = min(int((labels == 1).sum()), int((labels == 0).sum()))
    found: dict[int, list[Floats]] = {}
    for positives in SHOTS:
        found[positives] = []
        for seed in SEEDS if positives <= fewest else ():
            rows = few_label_rows(labels, positives, np.random.default_rng([seed, positives]))
            some = features[rows], labels[rows]
            probe = linear_probe(*some, *validation, reference=features)
            found[positives].append(probe.logits(test))
    return found


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
    """Part "probe": logits of probes of F findings on B images.

    ``logits`` [F, B] are with all labels; ``few`` [F, B, K] with few, K being :data:`SHOTS` times
    :data:`SEEDS`, NaN where the training images could not fill them.  ``labels`` [F, B] as in
    :class:`Classified`; ``ridges`` and ``train`` [F] say how each was fitted, to how many images.
    """

    findings: tuple[str, ...]
    images: Images
    logits: Floats
    few: Floats
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
                "probe_few": lists(self.few.reshape(F * B, -1)),
                "label": pa.array(labels, mask=labels == UNKNOWN_LABEL),
                "probe_ridge": np.repeat(self.ridges, B),
                "probe_train": np.repeat(self.train, B),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        pivot = Pivot.of(table)
        few = matrix(table, "probe_few")
        first = pivot.first
        return cls(
            pivot.findings,
            pivot.images,
            pivot.placed(floats(table, "probe")),
            pivot.placed(few),
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
    fits: dict[str, tuple[Floats, Floats, float, int]] = {}
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
        some = few_label_logits(parts[0], parts[1], test.vectors)
        nothing = [np.full(len(test.studies), np.nan)] * len(SEEDS)
        columns = np.stack([one for shots in SHOTS for one in some[shots] or nothing], axis=1)
        fits[finding] = probe.logits(test.vectors), columns, probe.ridge, len(parts[0][1])
    if not fits:
        return None, lines
    logits, few, ridges, counts = map(np.array, zip(*fits.values(), strict=True))
    return Probed(
        tuple(fits),
        images,
        logits,
        few,
        label_codes(labels, test.studies, list(fits)),
        ridges,
        counts,
    ), lines


def measure_probes(given: Probed, settings: Settings) -> dict[str, Any]:
    """By finding ``auc``, ``interval``, ``ridge``, ``train`` and ``few_labels``."""
    found: dict[str, Any] = {}
    for number, finding in enumerate(given.findings):
        known, truth = settled(given.labels[number], settings.uncertain)
        rows = np.flatnonzero(known)
        logits = given.logits[number][rows]
        patients = [given.images.patients[row] for row in rows]
        measured = area(logits, truth[rows], cluster_codes(patients))
        few = given.few[number][rows].T.reshape(len(SHOTS), len(SEEDS), len(rows))
        found[finding] = {
            "auc": measured.value,
            "interval": measured.interval(),
            "ridge": float(given.ridges[number]),
            "train": int(given.train[number]),
            "few_labels": {
                str(shots): [area_under_curve(one, truth[rows]) for one in some]
                for shots, some in zip(SHOTS, few, strict=True)
                if not np.isnan(some).any()
            },
        }
    return found
