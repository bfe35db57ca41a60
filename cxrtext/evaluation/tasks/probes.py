"""Linear probes on the mean region of an image, fitted to training images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification import area_under_curve
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.few_labels import few_label_aucs
from cxrtext.evaluation.probe import linear_probe
from cxrtext.evaluation.settings import Settings
from cxrtext.evaluation.tasks.resampling import draw, interval_of
from cxrtext.evaluation.tasks.zero_shot import Labels, label_rows
from cxrtext.evaluation.weighted import weighted_auc
from cxrtext.records import ImageRecord

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Features:
    """Mean regions of some images.

    Args:
        vectors: [n, D].
        studies: [n].
    """

    vectors: Floats
    studies: list[str]


def mean_features(embedder: Embedder, records: Sequence[ImageRecord]) -> Features:
    """Embed images and keep the mean region of each."""
    parts, studies = [], []
    for rows, _, regions in embedder.batches(records):
        parts.append(regions.mean(dim=1).double().cpu().numpy())
        studies += [records[row].study_id for row in rows]
    dimension = embedder.model.spec.dimension
    return Features(np.concatenate(parts) if parts else np.empty((0, dimension)), studies)


def features_of(cohort: Cohort) -> Features:
    """The mean region of each image of a cohort."""
    parts = [part.float().mean(dim=1).double().numpy() for part in cohort.regions.split(256)]
    return Features(np.concatenate(parts), cohort.studies)


def measure_probes(
    train: Features,
    validation: Features,
    test: Features,
    labels: Labels,
    findings: Sequence[str],
    patients: Sequence[str],
    settings: Settings,
) -> tuple[dict[str, Any], list[str]]:
    """Fit and measure a probe a finding.

    Args:
        train: To fit.
        validation: To choose the ridge.
        test: To measure.
        labels: By study and finding.
        findings: Their names.
        patients: [n], of the test images.
        settings: How.

    Returns:
        By finding ``auc``, ``interval``, ``ridge``, ``train`` and ``few_labels``; and a line for
        each finding that lacks a class in one of the three.
    """
    found: dict[str, Any] = {}
    lines: list[str] = []
    for finding in findings:
        parts = []
        for features in (train, validation, test):
            rows, truth = label_rows(labels, features.studies, finding, settings)
            parts.append((features.vectors[rows], truth.astype(np.int64), rows))
        if any(len(set(truth.tolist())) < 2 for _, truth, _ in parts):
            lines.append(f"probe: {finding}: training, validation or test images lack a class")
            continue
        found[finding] = _probe(parts, patients, settings)
    return found, lines


def _probe(parts: Sequence[Any], patients: Sequence[str], settings: Settings) -> dict[str, Any]:
    (x, y, _), (seen, said, _), (test, truth, rows) = parts
    probe = linear_probe(x, y, seen, said)
    logits = probe.logits(test)
    counts = draw([patients[row] for row in rows], settings.resamples, (settings.seed, 6))
    few = few_label_aucs((x, y), (seen, said), (test, truth))
    return {
        "auc": area_under_curve(logits, truth),
        "interval": interval_of(weighted_auc(logits, truth, counts)),
        "ridge": probe.ridge,
        "train": len(y),
        "few_labels": {str(shots): areas for shots, areas in few.items() if areas},
    }
