"""Whether a model serves every group alike: AUC by a column of the manifest."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.intervals.bootstrap import interval, resample_covering
from cxrtext.evaluation.metrics import Floats, Truth, area_under_curve, scores_and_truth
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings

UNKNOWN = "unknown"
NOT_SAID = "the manifest does not say"
MINIMUM = 10
"""Fewest images with a finding, and without, with which a group is measured."""
MOST_GROUPS = 12
"""Groups of a column beyond which it is taken for something that is not a group."""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """AUC within a group and its interval, None where it has too few images of a class.

    ``positives`` and ``negatives`` count the images with the finding and without it.
    """

    auc: float | None
    low: float | None
    high: float | None
    positives: int
    negatives: int


@dataclass(frozen=True, slots=True)
class SliceReport:
    """All groups of a column by name, in sorted order; those too small to measure among them.

    ``gap`` is highest less lowest AUC, with its interval; None where fewer than two groups can be
    measured.  ``redrawn`` counts resamples drawn again because a group lacked a class.
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

    Ages are in years; what is blank, no number or below 0 is unknown.  ``edges`` are the first
    year of each band but the youngest, rising.
    """
    if not edges or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"edges must be at least one number, and rise: {list(edges)}")
    names = [f"under {edges[0]}"]
    names += [f"{a}-{b - 1}" for a, b in pairwise(edges)]
    names.append(f"{edges[-1]} and over")
    return [_band(age, edges, names) for age in ages]


def age_years(age: str | float | None) -> float:
    """An age in years; NaN where it is blank, no number or below 0."""
    try:
        years = float(age) if age is not None else math.nan
    except ValueError:
        years = math.nan
    return years if 0 <= years < math.inf else math.nan


def _band(age: str | float | None, edges: Sequence[int], names: Sequence[str]) -> str:
    years = age_years(age)
    return UNKNOWN if math.isnan(years) else names[sum(years >= edge for edge in edges)]


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

    Scores are finite, labels 1 or 0, a group "" is called "unknown"; all are [n], as the patients
    are.  A group is measured with at least ``minimum`` positives and as many negatives.
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
        name: area_under_curve(values[at], truth[at], drawn.counts[:, at])
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


def measure_slices(
    images: Images, scores: dict[str, FindingScores], settings: Settings
) -> tuple[dict[str, Any], list[str]]:
    """AUC by column and finding, of the images measured.

    Returns:
        ``column -> finding -> slices, too_small, gap, gap_low, gap_high``, and a line for each
        column that was asked for and could not be measured.
    """
    found: dict[str, Any] = {}
    lines: list[str] = []
    for number, column in enumerate(settings.slices):
        groups = _groups(images, column)
        problem = _problem(groups)
        if problem == NOT_SAID and settings.slices == SLICE_COLUMNS:
            continue  # not asked for by name
        if problem:
            lines.append(f"slices: {column}: {problem}")
            continue
        measured = {}
        for finding, one in scores.items():
            report = _finding(images, groups, one, settings, number)
            if report is not None:
                measured[finding] = report
        if measured:
            found[column] = measured
        else:
            lines.append(
                f"slices: {column}: no group has {MINIMUM} images with a finding and {MINIMUM} "
                "without"
            )
    return found, lines


def _groups(images: Images, column: str) -> list[str]:
    cells = images.metadata.get(column) or [""] * len(images)
    if column == "age" and any(cells):
        return age_bands(cells)
    return [cell or UNKNOWN for cell in cells]


def _problem(groups: Sequence[str]) -> str:
    names = set(groups) - {UNKNOWN}
    if not names:
        return NOT_SAID
    if len(names) > MOST_GROUPS:
        return f"{len(names)} different values, more than {MOST_GROUPS}; group them first"
    return ""


def _finding(
    images: Images, groups: Sequence[str], one: FindingScores, settings: Settings, number: int
) -> dict[str, Any] | None:
    if not len(one.rows):
        return None
    generator = np.random.default_rng([settings.seed, 5, number])
    try:
        report = slice_aucs(
            one.scores,
            one.truth,
            [groups[row] for row in one.rows],
            [images.patients[row] for row in one.rows],
            generator,
            resamples=max(settings.resamples, 1),
            minimum=MINIMUM,
        )
    except ValueError:  # a group whose patients hardly ever hold both classes
        return None
    if all(group.auc is None for group in report.slices.values()):
        return None
    values = asdict(report)
    if not settings.resamples:  # one resample makes no interval
        values |= {"gap_low": None, "gap_high": None}
        for group in values["slices"].values():
            group |= {"low": None, "high": None}
    return values
