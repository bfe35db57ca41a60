"""The data-check report, as data: what was counted, and what is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cxrtext.datasets.checking.manifest import ListedImage
from cxrtext.datasets.checking.problems import Problem, Severity
from cxrtext.page import Gallery


@dataclass(frozen=True, slots=True)
class FactTable:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]  # cells as text, one for each column


@dataclass(frozen=True, slots=True)
class Histogram:
    title: str  # what was measured, with its unit
    edges: list[float]  # borders of the bins, one more than there are bins
    counts: list[int]  # how many fall into each bin
    median: float


@dataclass(slots=True)
class CheckReport:
    data: str
    summary: dict[str, int] = field(default_factory=dict)  # counts by name, in order
    problems: list[Problem] = field(default_factory=list)  # what is wrong, the worst first
    tables: list[FactTable] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)
    galleries: list[Gallery] | None = None  # pictures; None where they were left out on request
    images: Sequence[ListedImage] = ()  # what the manifest lists, with what was seen

    def add_histograms(self, measured: Mapping[str, Sequence[float]]) -> None:
        """Add the distribution of what was measured, by its title; none of no values."""
        self.histograms += [
            histogram(title, values) for title, values in measured.items() if values
        ]

    def count(self, severity: Severity) -> int:
        return sum(problem.kind.severity is severity for problem in self.problems)

    def has_failed(self, *, strict: bool = False) -> bool:
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON holds it, without pictures."""
        return {
            "data": self.data,
            **{f"{severity}s": self.count(severity) for severity in Severity},
            "summary": self.summary,
            "problems": [problem.as_dict() for problem in self.problems],
            "tables": {
                table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
                for table in self.tables
            },
            "histograms": {
                one.title: {"edges": one.edges, "counts": one.counts, "median": one.median}
                for one in self.histograms
            },
        }


def verdict(report: CheckReport) -> str:
    counts = {severity: report.count(severity) for severity in Severity}
    found = ", ".join(f"{n:,} {severity}{'' if n == 1 else 's'}" for severity, n in counts.items())
    if counts[Severity.ERROR]:
        return f"Fix the errors before training or evaluation ({found})."
    if counts[Severity.WARNING]:
        return f"Usable; look at the warnings ({found})."
    return f"No error and no warning was found ({found})."


def histogram(title: str, values: Sequence[float], bins: int = 20) -> Histogram:
    """Count values in equal bins; of whole numbers of whole width, so that none looks empty."""
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
