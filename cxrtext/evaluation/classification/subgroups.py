"""Whether a model serves every group alike: AUC by a column of the manifest."""

import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.rows import GAP, GROUPS, OF_FINDING, Estimate, Rows
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.metrics.intervals import Area, area, difference
from cxrtext.metrics.ranking import patient_codes
from cxrtext.records.cells import years as whole_years
from cxrtext.records.numbers import read_number

PAIRS = "paired logit-DeLong, clustered by patient, of all pairs of groups at once (Bonferroni)"
UNKNOWN = "unknown"
NOT_SAID = "the manifest does not say"
MINIMUM = 10
"""The fewest images with a finding, and without it, for a group to be measured."""
EDGES = (40, 60, 80)
"""First years of the age bands after the youngest."""
BANDS = ("under 40", "40-59", "60-79", "80 and over")
OLDEST = 122
"""Years of the longest documented life."""
MOST_GROUPS = 12
"""A column with more values does not count as groups."""


def age_bands(ages: Sequence[str | float | None]) -> list[str]:
    """Name the age band of each row.

    >>> age_bands(["39", 40.0, "85", ""])
    ['under 40', '40-59', '80 and over', 'unknown']

    Ages are those of :func:`age_years`; a cell that is not an age is unknown.
    """
    years = map(age_years, ages)
    return [UNKNOWN if math.isnan(age) else BANDS[bisect(EDGES, age)] for age in years]


def age_years(age: str | float | None) -> float:
    """An age in years; NaN if it is blank, not a number, below 0 or above the longest life.

    >>> age_years("45.5"), age_years("045Y"), age_years("018M"), age_years("414")
    (45.5, 45.0, 1.0, nan)

    As in DICOM headers, an age may end in Y, M, W or D, which gives whole years.  ChestX-ray14 has
    ages of 148 to 414.
    """
    try:
        return read_number(age, 0, OLDEST)
    except ValueError:
        text = whole_years(str(age).strip())
    years = float(text) if text else math.nan
    return years if years <= OLDEST else math.nan


def gap_of(areas: Sequence[Area]) -> Estimate | None:
    """The highest AUC of groups minus the lowest; None with fewer than two groups.

    Its interval covers all pairs of groups at once: it holds whichever two turn out best and worst.
    It accounts for patients in several groups.  The gap itself is never below 0, and small groups
    make it larger by chance.

    Source: Bonferroni 1936, for the pairs.
    """
    pairs = list(combinations(areas, 2))
    if not pairs:
        return None
    each = 1 - (1 - 0.95) / len(pairs)
    ordered = [(a, b) if a.value >= b.value else (b, a) for a, b in pairs]
    gaps = [gap for a, b in ordered if (gap := difference(a, b, each)) is not None]
    values = [area.value for area in areas]
    low, high = max(gap.low for gap in gaps), max(gap.high for gap in gaps)
    return Estimate(max(values) - min(values), max(low, 0.0), high, PAIRS)


def measure_slices(
    images: Images, scores: Mapping[str, FindingScores], settings: Settings
) -> tuple[Rows, list[str]]:
    """AUC of each finding by column and group, and the gap; a line for each column that gave none.

    A group needs at least :data:`MINIMUM` images with the finding, and as many without.
    """
    rows = Rows()
    lines: list[str] = []
    for column in settings.slices:
        groups = _groups(images, column)
        problem = _problem(groups)
        if problem == NOT_SAID and settings.slices == SLICE_COLUMNS:
            continue  # nobody asked for it by name
        if problem:
            lines.append(f"slices: {column}: {problem}")
            continue
        part = f"{GROUPS}, {column}"
        for finding, one in scores.items():
            _measure(rows, part, finding, one, images, groups)
        if part not in rows:
            lines.append(
                f"slices: {column}: no group has {MINIMUM} images with a finding and {MINIMUM} "
                "without"
            )
    return rows, lines


def _measure(
    rows: Rows,
    part: str,
    finding: str,
    one: FindingScores,
    images: Images,
    groups: Sequence[str],
) -> None:
    names = np.array([groups[row] for row in one.rows], dtype=object)
    codes = patient_codes([images.patients[row] for row in one.rows], len(one.rows))
    counts, areas = {}, {}
    for name in sorted(set(names)):
        at = names == name
        counts[name] = int(one.truth[at].sum()), int((~one.truth[at]).sum())
        if min(counts[name]) >= MINIMUM:
            total = int(codes.max()) + 1
            areas[name] = area(one.scores[at], one.truth[at], codes[at], total)
    if not areas:
        return
    for name, (positives, negatives) in counts.items():
        auc = areas.get(name)
        rows.add(part, name, OF_FINDING + finding, auc, positives + negatives)
        rows.add(part, name, f"with {finding}", positives)
        rows.add(part, name, f"without {finding}", negatives)
    rows.add(part, GAP, OF_FINDING + finding, gap_of(list(areas.values())))


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
