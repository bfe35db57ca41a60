"""The data-check report, as data: what was counted, and what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cxrtext.datasets.checking.problems import Problem, Severity


@dataclass(frozen=True, slots=True)
class FactTable:
    """A small table of the report.

    Args:
        title: What it shows.
        columns: Their names.
        rows: Cells as text, one for each column.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How a number is distributed.

    Args:
        title: What was measured, with its unit.
        edges: Borders of the bins, one more than there are bins.
        counts: How many fall into each bin.
        median: The middle value.
    """

    title: str
    edges: list[float]
    counts: list[int]
    median: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A small picture of one image.

    Args:
        name: The image, as the manifest names it.
        caption: What is said of it.
        png: The picture.
    """

    name: str
    caption: str
    png: bytes


@dataclass(frozen=True, slots=True)
class PictureGroup:
    """Pictures shown together.

    Args:
        title: What they have in common.
        pictures: The pictures.
    """

    title: str
    pictures: list[Picture]


@dataclass(slots=True)
class CheckReport:
    """What a check of a data set found.

    Args:
        data: What was checked.
        summary: Counts by name, in order.
        problems: What is wrong, the worst first.
        tables: Small tables.
        histograms: Distributions.
        picture_groups: Pictures; None where they were left out on request.
    """

    data: str
    summary: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    tables: list[FactTable] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)
    picture_groups: list[PictureGroup] | None = None

    def count(self, severity: Severity) -> int:
        """Return how many kinds of problem there are of a severity."""
        return sum(problem.kind.severity is severity for problem in self.problems)

    def has_failed(self, *, strict: bool = False) -> bool:
        """Return whether there are errors, or with ``strict`` warnings."""
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON holds it, without pictures."""
        return {
            "data": self.data,
            "errors": self.count(Severity.ERROR),
            "warnings": self.count(Severity.WARNING),
            "notes": self.count(Severity.NOTE),
            "summary": self.summary,
            "problems": [
                {
                    "code": problem.kind.code,
                    "severity": str(problem.kind.severity),
                    "count": problem.count,
                    "title": problem.kind.title,
                    "advice": problem.kind.advice,
                    "examples": problem.examples,
                }
                for problem in self.problems
            ],
            "tables": {
                table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
                for table in self.tables
            },
            "histograms": {
                histogram.title: {
                    "edges": histogram.edges,
                    "counts": histogram.counts,
                    "median": histogram.median,
                }
                for histogram in self.histograms
            },
        }


def histogram(title: str, values: Sequence[float], bins: int = 20) -> Histogram | None:
    """Count values into at most ``bins`` bins of equal width; None where there are no values.

    Whole numbers get bins of whole width, so that none looks empty for want of a number in it.
    """
    if not len(values):
        return None
    data = np.asarray(values, dtype=np.float64)
    low, high = float(data.min()), float(data.max())
    if (data == np.rint(data)).all():
        width = max(1, int(np.ceil((high - low + 1) / bins)))
        edges = np.arange(low, high + width + 1, width)
        if len(edges) > 2 and edges[-2] > high:
            edges = edges[:-1]
    else:
        edges = np.linspace(low, high if high > low else low + 1, bins + 1)
    counts, _ = np.histogram(data, edges)
    return Histogram(title, edges.tolist(), counts.tolist(), float(np.median(data)))
