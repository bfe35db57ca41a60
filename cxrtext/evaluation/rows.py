"""The one table of what an evaluation measured: a row a figure.

Every measuring part gives such rows, ``results.csv`` holds them, and the report's tables, the
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
"""Parts; of some the name goes on after a comma: "operating points, Youden"."""
MEAN, MEAN_OF_FINDINGS, MEAN_OF_SENTENCES = "mean", "mean of findings", "mean of sentences"
ALL, ALL_IMAGES, NO_FINDING = "all sentences", "all images", "no finding"
BOTH, GAP = "both directions", "gap"
"""Groups beside findings, directions and cells of the manifest."""
OF_FINDING = "AUC of "
"""Before a finding's name: its AUC."""
BY_CHANCE = ", by chance"
ELSEWHERE, GAIN = ", other patients", ", gain over other patients"
"""What a measure's name goes on with: of a random order, and of other patients' images."""


class Row(NamedTuple):
    """A figure: of a part of the evaluation, a group in it (a finding, a direction), a measure.

    ``value`` is None where the figure could not be measured, which a report shows as a dash;
    ``n`` says how many images or sentences it is of, ``method`` how its 95 % interval was made.
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
    """A figure whose interval is not a :class:`~cxrtext.metrics.intervals.Measured`'s."""

    value: float
    low: float | None
    high: float | None
    method: str


@dataclass(slots=True)
class Rows:
    """Rows in the order in which they were measured, found by part, group and measure.

    ``compared`` has by name the measures that models are compared by, with what pairs them.
    """

    compared: dict[str, Measured] = field(default_factory=dict)
    _rows: dict[tuple[str, str, str], Row] = field(default_factory=dict)

    def add(
        self,
        part: str,
        group: str,
        measure: str,
        found: Measured | Estimate | float | None,
        n: int | None = None,
    ) -> None:
        """Add a figure, with its interval where it has one."""
        value = found if not isinstance(found, (Measured, Estimate)) else found.value
        ends: tuple[float | None, float | None] = (None, None)
        method = ""
        if isinstance(found, Estimate):
            ends, method = (found.low, found.high), found.method
        elif isinstance(found, Measured) and (known := found.interval()) is not None:
            ends, method = known, found.METHOD
        row = Row(part, group, measure, value, *ends, n, method)
        self._rows[part, group, measure] = row

    def compare_by(self, name: str, found: Measured | None, rows: tuple[Hashable, ...]) -> None:
        """Let models be compared by a figure, if it was measured, on equal rows."""
        if found is not None:
            self.compared[name] = replace(found, rows=rows)

    def update(self, other: "Rows") -> None:
        self._rows |= other._rows
        self.compared |= other.compared

    def find(self, part: str, group: str, measure: str) -> Row | None:
        return self._rows.get((part, group, measure))

    def value(self, part: str, group: str, measure: str) -> float | None:
        row = self.find(part, group, measure)
        return None if row is None else row.value

    def count(self, part: str, group: str, measure: str) -> int:
        """A figure that counts something; 0 where there is none."""
        return int(self.value(part, group, measure) or 0)

    def groups(self, part: str) -> list[str]:
        return list(dict.fromkeys(group for of, group, _ in self._rows if of == part))

    def of(self, part: str, group: str) -> dict[str, float | None]:
        """The figures of a group by measure, in order."""
        own = (row for row in self if (row.part, row.group) == (part, group))
        return {row.measure: row.value for row in own}

    def below(self, part: str) -> list[str]:
        """What follows the name of a part and ", " in names of parts: "Youden"."""
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
        """As JSON has them, without what is infinite."""
        return [
            {
                name: None if isinstance(value, float) and not isfinite(value) else value
                for name, value in row._asdict().items()
            }
            for row in self
        ]

    def write(self, path: Path) -> None:
        """Write them as CSV, figures with all their digits, an empty cell for None."""
        write_table(path, Row._fields, [row._asdict() for row in self])
