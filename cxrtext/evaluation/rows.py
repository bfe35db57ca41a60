"""The one table of what an evaluation measured, with one row for each figure.

Every part of an evaluation adds rows, ``results.csv`` holds them, and the report's tables, the
headline and the documents are pivots of them.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from cxrtext.metrics.intervals import Interval, Measured
from cxrtext.records import write_table

ZERO_SHOT = "zero-shot classification"
HEADS = "finding heads"
OPERATING, YOUDEN, CALIBRATION = "operating points", "Youden", "calibration"
NET_BENEFIT, ON_ALL = "net benefit", "net benefit of acting on all"
CLASSES = "findings as classes"
GROUPS, PROBES = "groups", "linear probes"
GROUNDING, MASKS = "grounding", "masks"
ABSENCE, SIDES = "phrases without a box", "left and right"
BOX_RETRIEVAL, RETRIEVAL = "retrieval of boxes", "retrieval"
"""Parts; some names go on after a comma: "operating points, Youden"."""
MEAN, MEAN_OF_FINDINGS, MEAN_OF_SENTENCES = "mean", "mean of findings", "mean of sentences"
ALL, ALL_IMAGES, NO_FINDING = "all sentences", "all images", "no finding"
BOTH, GAP = "both directions", "gap"
"""Groups besides findings, directions and cells of the manifest."""
OF_FINDING = "AUC of "
"""Put before a finding's name."""
BY_CHANCE = ", by chance"
ELSEWHERE, GAIN = ", other patients", ", gain over other patients"
"""Put after a measure's name: for a random order, and for other patients' images."""


class Row(NamedTuple):
    """A figure of a part of the evaluation, a group in it (a finding, a direction), and a measure.

    ``value`` is None if the figure could not be measured, which a report shows as a dash; ``n`` is
    the number of images or sentences, ``method`` says how the 95 % interval was made.
    """

    part: str
    group: str
    measure: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    method: str = ""

    @property
    def ends(self) -> Interval | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


class Estimate(NamedTuple):
    """A figure with an interval but no :class:`~cxrtext.metrics.intervals.Measured`."""

    value: float
    low: float | None
    high: float | None
    method: str


@dataclass(slots=True)
class Rows:
    """Rows in the order they were measured, found by part, group and measure.

    ``compared`` has the measures by which models are compared, by name, with what pairs them.
    """

    compared: dict[str, Measured] = field(default_factory=dict)
    _rows: dict[tuple[str, str, str], Row] = field(default_factory=dict)

    def add(
        self,
        part: str,
        group: str,
        measure: str,
        figure: Measured | Estimate | float | None,
        n: int | None = None,
    ) -> None:
        """Add a figure, with its interval if it has one."""
        value = figure if not isinstance(figure, (Measured, Estimate)) else figure.value
        ends: tuple[float | None, float | None] = (None, None)
        method = ""
        if isinstance(figure, Estimate):
            ends, method = (figure.low, figure.high), figure.method
        elif isinstance(figure, Measured) and (interval := figure.interval()) is not None:
            ends, method = interval, figure.METHOD
        row = Row(part, group, measure, value, *ends, n, method)
        self._rows[part, group, measure] = row

    def compare_by(self, name: str, figure: Measured | None, rows: tuple[Hashable, ...]) -> None:
        """Let models be compared by a figure on equal rows, if it was measured."""
        if figure is not None:
            self.compared[name] = replace(figure, rows=rows)

    def update(self, other: "Rows") -> None:
        self._rows |= other._rows
        self.compared |= other.compared

    def find(self, part: str, group: str, measure: str) -> Row | None:
        return self._rows.get((part, group, measure))

    def value(self, part: str, group: str, measure: str) -> float | None:
        row = self.find(part, group, measure)
        return None if row is None else row.value

    def count(self, part: str, group: str, measure: str) -> int:
        """A figure that counts something, or 0."""
        return int(self.value(part, group, measure) or 0)

    def groups(self, part: str) -> list[str]:
        return list(dict.fromkeys(group for of, group, _ in self._rows if of == part))

    def of(self, part: str, group: str) -> dict[str, float | None]:
        """The figures of a group by measure, in order."""
        own = (row for row in self if (row.part, row.group) == (part, group))
        return {row.measure: row.value for row in own}

    def below(self, part: str) -> list[str]:
        """What follows the name of a part and ", " in the names of parts, like "Youden"."""
        begin = f"{part}, "
        names = dict.fromkeys(of for of, _, _ in self._rows if of.startswith(begin))
        return [name.removeprefix(begin) for name in names]

    def __contains__(self, part: str) -> bool:
        return any(of == part for of, _, _ in self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> list[dict[str, Any]]:
        """The rows for JSON, with None for infinite values."""
        return [
            {
                name: None if isinstance(value, float) and not isfinite(value) else value
                for name, value in row._asdict().items()
            }
            for row in self
        ]

    def write(self, path: Path) -> None:
        """Write CSV, with all digits of the figures and an empty cell for None."""
        write_table(path, Row._fields, [row._asdict() for row in self])
