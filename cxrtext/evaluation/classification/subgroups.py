"""Whether a model serves every group alike: AUC by a column of the manifest."""

import math
from bisect import bisect
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.intervals.comparison import OF_FINDING
from cxrtext.evaluation.intervals.delong import Area, area, difference
from cxrtext.evaluation.intervals.estimates import Estimate
from cxrtext.evaluation.intervals.methods import AREA, PAIRS
from cxrtext.evaluation.intervals.proportions import cluster_codes
from cxrtext.evaluation.metrics import scores_and_truth
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.rows import GAP, GROUPS, Rows
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.records.cells import years as whole_years
from cxrtext.records.numbers import read_number

UNKNOWN = "unknown"
NOT_SAID = "the manifest does not say"
MINIMUM = 10
"""Fewest images with a finding, and without, with which a group is measured."""
EDGES = (40, 60, 80)
"""First years of the age bands but the youngest."""
BANDS = ("under 40", "40-59", "60-79", "80 and over")
OLDEST = 122
"""Years of the longest life that is documented."""
MOST_GROUPS = 12
"""Groups of a column beyond which it is taken for something that is not a group."""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """AUC within a group, without a value of few images; how many have the finding, or not."""

    auc: Estimate
    positives: int
    negatives: int


@dataclass(frozen=True, slots=True)
class SliceReport:
    """All groups of a column, sorted; ``gap`` is highest less lowest AUC, if two are measured."""

    slices: dict[str, SliceResult]
    gap: Estimate


def age_bands(ages: Sequence[str | float | None]) -> list[str]:
    """Name the age band of each row.

    >>> age_bands(["39", 40.0, "85", ""])
    ['under 40', '40-59', '80 and over', 'unknown']

    Ages are those of :func:`age_years`; what is none is unknown.
    """
    years = [age_years(age) for age in ages]
    return [UNKNOWN if math.isnan(one) else BANDS[bisect(EDGES, one)] for one in years]


def age_years(age: str | float | None) -> float:
    """An age in years; NaN where it is blank, no number, below 0 or above any that was lived.

    >>> age_years("45.5"), age_years("045Y"), age_years("018M"), age_years("414")
    (45.5, 45.0, 1.0, nan)

    As in DICOM headers it may end in Y, M, W or D, and is then in whole years.  ChestX-ray14 has
    ages of 148 to 414.
    """
    try:
        return read_number(age, 0, OLDEST)
    except ValueError:
        text = whole_years(str(age).strip())
    years = float(text) if text else math.nan
    return years if years <= OLDEST else math.nan


def slice_aucs(
    scores: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[str],
    patients: Sequence[Hashable],
) -> SliceReport:
    """Measure the AUC of each group, and the gap between the best and the worst.

    The gap's interval is of all pairs of groups at once: it holds whichever two turn out to be the
    best and the worst.  It takes account of patients in several groups.  The gap itself is never
    below 0 and larger by chance the smaller the groups.

    Scores are finite, labels 1 or 0, a group "" is called "unknown"; all are [n], as the patients
    are.  A group is measured with at least :data:`MINIMUM` positives and as many negatives.

    Source: Bonferroni 1936, for the pairs; the AUCs as in
        :mod:`cxrtext.evaluation.intervals.delong`.
    """
    values, truth = scores_and_truth(scores, labels, positive=False, negative=False)
    if not len(values) == len(groups) == len(patients):
        raise ValueError("scores, groups and patients must be equally long")
    names = np.asarray([group or UNKNOWN for group in groups], dtype=object)
    codes = cluster_codes(patients)
    found: dict[str, SliceResult] = {}
    areas: list[Area] = []
    for name in sorted(set(names)):
        at = names == name
        positives, negatives = int(truth[at].sum()), int((~truth[at]).sum())
        known = Estimate()
        if min(positives, negatives) >= MINIMUM:
            one = area(values[at], truth[at], codes[at], int(codes.max()) + 1)
            areas.append(one)
            known = Estimate(one.value, *one.interval())
        found[name] = SliceResult(known, positives, negatives)
    return SliceReport(found, _gap(areas))


def _gap(areas: Sequence[Area]) -> Estimate:
    pairs = list(combinations(areas, 2))
    if not pairs:
        return Estimate()
    each = 1 - (1 - 0.95) / len(pairs)
    ordered = [sorted(pair, key=lambda one: -one.value) for pair in pairs]
    found = [difference(better, worse, each) for better, worse in ordered]
    values = [one.value for one in areas]
    low, high = max(one.low for one in found), max(one.high for one in found)
    return Estimate(max(values) - min(values), max(low, 0.0), high)


def measure_slices(
    images: Images, scores: dict[str, FindingScores], settings: Settings
) -> tuple[Rows, list[str]]:
    """AUC by column and group of each finding, and the gap; a line for what was asked in vain."""
    rows = Rows()
    lines: list[str] = []
    for column in settings.slices:
        groups = _groups(images, column)
        problem = _problem(groups)
        if problem == NOT_SAID and settings.slices == SLICE_COLUMNS:
            continue  # not asked for by name
        if problem:
            lines.append(f"slices: {column}: {problem}")
            continue
        part = f"{GROUPS}, {column}"
        for finding, one in scores.items():
            report = _finding(images, groups, one)
            if report is not None:
                _add(rows, part, finding, report)
        if part not in rows:
            lines.append(
                f"slices: {column}: no group has {MINIMUM} images with a finding and {MINIMUM} "
                "without"
            )
    return rows, lines


def _add(rows: Rows, part: str, finding: str, report: SliceReport) -> None:
    for name, group in report.slices.items():
        n = group.positives + group.negatives
        rows.add(part, name, OF_FINDING + finding, group.auc, n, AREA)
        rows.add(part, name, f"with {finding}", group.positives)
        rows.add(part, name, f"without {finding}", group.negatives)
    rows.add(part, GAP, OF_FINDING + finding, report.gap, method=PAIRS)


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


def _finding(images: Images, groups: Sequence[str], one: FindingScores) -> SliceReport | None:
    if not len(one.rows):
        return None
    own = [groups[row] for row in one.rows]
    report = slice_aucs(one.scores, one.truth, own, [images.patients[row] for row in one.rows])
    return report if any(group.auc.value is not None for group in report.slices.values()) else None
