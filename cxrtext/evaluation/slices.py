"""Whether a model serves every group alike: AUC by a column of the manifest."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.binary import Floats, Truth, scores_and_truth
from cxrtext.evaluation.bootstrap import interval, resample_covering
from cxrtext.evaluation.classification import area_under_curve
from cxrtext.evaluation.weighted import weighted_auc

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SliceResult:
    """One group.

    Args:
        auc: Area under the ROC curve within the group; None where it has too few of a class.
        low: Lower end of its interval; None likewise.
        high: Upper end of its interval; None likewise.
        positives: Images with the finding.
        negatives: Images without it.
    """

    auc: float | None
    low: float | None
    high: float | None
    positives: int
    negatives: int


@dataclass(frozen=True, slots=True)
class SliceReport:
    """All groups of a column.

    Args:
        slices: By name, in sorted order; groups too small to measure are among them.
        too_small: Names of those.
        gap: Highest less lowest AUC; None where fewer than two groups can be measured.
        gap_low: Lower end of its interval; None likewise.
        gap_high: Upper end of its interval; None likewise.
        redrawn: Resamples drawn again because a group lacked a class.
    """

    slices: dict[str, SliceResult]
    too_small: list[str]
    gap: float | None
    gap_low: float | None
    gap_high: float | None
    redrawn: int


def age_bands(ages: Sequence[str | float | None], edges: Sequence[int] = (40, 60, 80)) -> list[str]:
    """Name the age band of each row.

    >>> age_bands(["39", 40.0, "85", ""])
    ['under 40', '40-59', '80 and over', 'unknown']

    Args:
        ages: [n], in years; what is blank, no number or below 0 is unknown.
        edges: First year of each band but the youngest, rising.

    Raises:
        ValueError: The edges do not rise.
    """
    if not edges or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"edges must be at least one number, and rise: {list(edges)}")
    names = [f"under {edges[0]}"]
    names += [f"{a}-{b - 1}" for a, b in pairwise(edges)]
    names.append(f"{edges[-1]} and over")
    return [_band(age, edges, names) for age in ages]


def _band(age: str | float | None, edges: Sequence[int], names: Sequence[str]) -> str:
    try:
        years = float(age) if age is not None else math.nan
    except ValueError:
        years = math.nan
    if not 0 <= years < math.inf:
        return UNKNOWN
    return names[sum(years >= edge for edge in edges)]


def slice_aucs(
    scores: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[str],
    patients: Sequence[Hashable],
    generator: np.random.Generator,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    minimum: int = 10,
) -> SliceReport:
    """Measure the AUC of each group, and the gap between the best and the worst.

    All groups share the resamples, so the gap's interval takes account of patients in several.
    The gap is never below 0 and larger by chance the smaller the groups: read its interval beside
    those of the groups.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0.
        groups: [n], the cell of the column; "" is called "unknown".
        patients: [n].
        generator: Source of randomness.
        resamples: How many resamples of the patients.
        level: Of the intervals.
        minimum: Fewest positives, and fewest negatives, with which a group is measured.

    Raises:
        ValueError: The lengths differ, ``minimum`` is below 1, or see
            :func:`~cxrtext.evaluation.bootstrap.resample_covering`.
    """
    values, truth = scores_and_truth(scores, labels, positive=False, negative=False)
    if not len(values) == len(groups) == len(patients):
        raise ValueError("scores, groups and patients must be equally long")
    if minimum < 1:
        raise ValueError(f"minimum must be at least 1, not {minimum}")
    names = np.asarray([group or UNKNOWN for group in groups], dtype=object)
    rows: dict[str, NDArray[np.bool_]] = {name: names == name for name in sorted(set(names))}
    fewest = {name: min((truth[at]).sum(), (~truth[at]).sum()) for name, at in rows.items()}
    large = {name: at for name, at in rows.items() if fewest[name] >= minimum}
    areas, redrawn = _areas(values, truth, large, patients, resamples, generator)
    found = {name: _slice(values, truth, at, areas.get(name), level) for name, at in rows.items()}
    too_small = [name for name in rows if name not in large]
    if len(large) < 2:
        return SliceReport(found, too_small, None, None, None, redrawn)
    measured = [one.auc for one in found.values() if one.auc is not None]
    low, high = interval(np.ptp(np.stack(list(areas.values())), axis=0), level)
    return SliceReport(found, too_small, max(measured) - min(measured), low, high, redrawn)


def _areas(
    values: Floats,
    truth: Truth,
    groups: dict[str, NDArray[np.bool_]],
    patients: Sequence[Hashable],
    resamples: int,
    generator: np.random.Generator,
) -> tuple[dict[str, Floats], int]:
    """The AUC of each group over the resamples, [R] each, and how many were drawn again."""
    if not groups:
        return {}, 0
    needed = [at & side for at in groups.values() for side in (truth, ~truth)]
    drawn = resample_covering(patients, needed, resamples, generator)
    areas = {
        name: weighted_auc(values[at], truth[at], drawn.counts[:, at])
        for name, at in groups.items()
    }
    return areas, drawn.redrawn


def _slice(
    values: Floats, truth: Truth, at: NDArray[np.bool_], areas: Floats | None, level: float
) -> SliceResult:
    positives, negatives = int(truth[at].sum()), int((~truth[at]).sum())
    if areas is None:
        return SliceResult(None, None, None, positives, negatives)
    auc = area_under_curve(values[at], truth[at])
    return SliceResult(auc, *interval(areas, level), positives, negatives)
