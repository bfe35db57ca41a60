"""Rows measured on the same resamples of patients, so that their differences are paired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.bootstrap import interval, paired_difference, resample_covering
from cxrtext.evaluation.weighted import weighted_accuracy, weighted_auc
from cxrtext.experiments.measuring import ImageScores

LEVEL = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """Images that all rows were measured on, and resamples of their patients.

    Args:
        images: [n], their names.
        findings: Findings of which there are images with and without; the means are over these.
        left_out: Findings of which there are not.
        weights: [1 + R, n], a row of ones and then the resamples; R is 0 where a finding is too
            rare to resample.
        redrawn: Resamples that lacked a class and were drawn again.
        patients: How many there are.
    """

    images: NDArray[np.str_]
    findings: tuple[str, ...]
    left_out: tuple[str, ...]
    weights: NDArray[np.int64]
    redrawn: int
    patients: int


@dataclass(frozen=True, slots=True)
class RowValues:
    """A row's measures: first on the images as they are, then on each resample.

    Args:
        areas: AUC [F, 1 + R] of each seed's model, by seed.
        shares: ACC, likewise.
        findings: [F].
    """

    areas: dict[int, Floats]
    shares: dict[int, Floats]
    findings: tuple[str, ...]

    @property
    def seeds(self) -> list[int]:
        """Seeds that were measured."""
        return sorted(self.areas)

    def auc(self, seeds: Sequence[int] | None = None) -> Floats:
        """Mean AUC over findings and seeds (by default all), [1 + R]."""
        return _mean(self.areas, self.seeds if seeds is None else seeds)

    def accuracy(self, seeds: Sequence[int] | None = None) -> Floats:
        """Mean ACC over findings and seeds (by default all), [1 + R]."""
        return _mean(self.shares, self.seeds if seeds is None else seeds)

    def by_finding(self) -> dict[str, Floats]:
        """AUC by finding, mean over seeds, [1 + R] each."""
        means: Floats = np.mean([self.areas[seed] for seed in self.seeds], axis=0)
        return dict(zip(self.findings, means, strict=True))


def _mean(values: Mapping[int, Floats], seeds: Sequence[int]) -> Floats:
    mean: Floats = np.mean([values[seed] for seed in seeds], axis=(0, 1))
    return mean


def draw_sample(scores: ImageScores, resamples: int, seed: int = 0) -> Sample:
    """Draw the resamples that all rows share.

    Args:
        scores: Of any run: their images, patients and labels are the same.
        resamples: R.
        seed: Of the draw.

    Returns:
        The sample.
    """
    usable, needed = [], []
    for finding, labels in zip(scores.findings, scores.labels, strict=True):
        if (labels == 1).any() and (labels == 0).any():
            usable.append(finding)
            needed += [labels == 1, labels == 0]
    n = len(scores.images)
    counts, redrawn = np.zeros((0, n), dtype=np.int64), 0
    if usable:
        generator = np.random.default_rng(seed)
        try:
            drawn = resample_covering(scores.patients.tolist(), needed, resamples, generator)
            counts, redrawn = drawn.counts, drawn.redrawn
        except ValueError:  # a class in so few patients that there is nothing to resample
            pass
    return Sample(
        images=scores.images,
        findings=tuple(usable),
        left_out=tuple(name for name in scores.findings if name not in usable),
        weights=np.concatenate([np.ones((1, n), dtype=np.int64), counts]),
        redrawn=redrawn,
        patients=len(set(scores.patients.tolist())),
    )


def _seed_values(scores: ImageScores, sample: Sample) -> tuple[Floats, Floats]:
    """AUC and ACC of one model, [F, 1 + R] each."""
    areas, shares = [], []
    for finding in sample.findings:
        place = scores.findings.index(finding)
        known = np.isin(scores.labels[place], (0, 1))
        values, truth = scores.differences[place, known], scores.labels[place, known]
        weights = sample.weights[:, known]
        areas.append(weighted_auc(values, truth, weights))
        shares.append(weighted_accuracy(values, truth, weights))
    return np.stack(areas), np.stack(shares)


def row_values(by_seed: Mapping[int, ImageScores], sample: Sample) -> RowValues:
    """Measure a row on the images as they are and on every resample.

    Args:
        by_seed: The scores of each seed's model, on the images of the sample in their order.
        sample: What is measured on; with at least one finding.

    Returns:
        Its measures.
    """
    measured = {seed: _seed_values(scores, sample) for seed, scores in by_seed.items()}
    return RowValues(
        areas={seed: areas for seed, (areas, _) in measured.items()},
        shares={seed: shares for seed, (_, shares) in measured.items()},
        findings=sample.findings,
    )


def estimate(values: Floats) -> dict[str, float | None]:
    """A measure with its interval: ``value``, ``low`` and ``high``, the latter None without R."""
    if len(values) < 2:
        return {"value": float(values[0]), "low": None, "high": None}
    low, high = interval(values[1:], LEVEL)
    return {"value": float(values[0]), "low": low, "high": high}


def difference(first: Floats, second: Floats) -> dict[str, float | None]:
    """First less second on the same resamples: ``value``, ``low``, ``high`` and ``p``."""
    value = float(first[0] - second[0])
    if len(first) < 2:
        return {"value": value, "low": None, "high": None, "p": None}
    found = paired_difference(first[1:], second[1:], value, LEVEL)
    return {"value": value, "low": found.low, "high": found.high, "p": found.p_value}


def compare_rows(first: RowValues, second: RowValues) -> dict[str, Any] | None:
    """Compare two rows on the seeds that both have; None where they have none in common.

    Returns:
        ``AUC`` and ``ACC``: differences, first less second; ``seeds``: how many both have;
        ``seeds above``: in how many of them the first one's AUC is the higher.
    """
    common = [seed for seed in first.seeds if seed in second.areas]
    if not common:
        return None
    above = sum(first.auc([seed])[0] > second.auc([seed])[0] for seed in common)
    return {
        "AUC": difference(first.auc(common), second.auc(common)),
        "ACC": difference(first.accuracy(common), second.accuracy(common)),
        "seeds above": int(above),
        "seeds": len(common),
    }
