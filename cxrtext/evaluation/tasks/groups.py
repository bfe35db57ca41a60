"""Whether a model serves every group alike, for a cohort."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.evaluation.slices import UNKNOWN, age_bands, slice_aucs
from cxrtext.evaluation.tasks.zero_shot import FindingScores

NOT_SAID = "the manifest does not say"

MINIMUM = 10
"""Fewest images with a finding, and without, with which a group is measured."""

MOST_GROUPS = 12
"""Groups of a column beyond which it is taken for something that is not a group."""


def measure_slices(
    cohort: Cohort, scores: dict[str, FindingScores], settings: Settings
) -> tuple[dict[str, Any], list[str]]:
    """AUC by column and finding.

    Args:
        cohort: The images.
        scores: Scores by finding.
        settings: How.

    Returns:
        ``column -> finding -> slices, too_small, gap, gap_low, gap_high``, and a line for each
        column that was asked for and could not be measured.
    """
    found: dict[str, Any] = {}
    lines: list[str] = []
    for number, column in enumerate(settings.slices):
        groups = _groups(cohort, column)
        problem = _problem(groups)
        if problem == NOT_SAID and settings.slices == SLICE_COLUMNS:
            continue  # not asked for by name
        if problem:
            lines.append(f"slices: {column}: {problem}")
            continue
        measured = {}
        for finding, one in scores.items():
            report = _slice(cohort, groups, one, settings, number)
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


def _groups(cohort: Cohort, column: str) -> list[str]:
    cells = [str(record.metadata.get(column, "")).strip() for record in cohort.records]
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


def _slice(
    cohort: Cohort, groups: Sequence[str], one: FindingScores, settings: Settings, number: int
) -> dict[str, Any] | None:
    if not len(one.rows):
        return None
    generator = np.random.default_rng([settings.seed, 5, number])
    try:
        report = slice_aucs(
            one.scores,
            one.truth,
            [groups[row] for row in one.rows],
            [cohort.patients[row] for row in one.rows],
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
