"""Table 1: who and what the images of each split are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cxrtext.evaluation.classification.subgroups import MOST_GROUPS, age_years
from cxrtext.evaluation.documents.population import LABEL_NAMES, Population
from cxrtext.evaluation.metrics import Floats, Truth
from cxrtext.page import EMPTY, Estimated, Table

COLUMNS = {"sex": "patient", "view": "image", "site": "image", "manufacturer": "image"}
"""Columns of a manifest that are counted, and of what."""
MISSING = "missing"
QUARTILES = ("first quartile", "third quartile")
NOTE = (
    "Numbers with percentages of their column, or median [first and third quartile]. Age and sex "
    "are those of a patient's first image in the split that says them. A label belongs to a "
    "study and counts for each of its images."
)


@dataclass(frozen=True, slots=True)
class Characteristic:
    """A row: what is counted (a ``name``, and a ``level`` of it), of what, and a cell a column."""

    name: str
    level: str
    unit: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class TableOne:
    columns: Sequence[str]
    rows: Sequence[Characteristic]

    def page_table(self) -> Table:
        """As a table to read: levels are set in below their name, which stands once."""
        lines, before = [["", *self.columns]], ""
        for row in self.rows:
            title = f"{row.name} ({row.unit})" if row.unit else row.name
            if not row.level:
                lines.append([title, *row.cells])
            else:
                if row.name != before:
                    lines.append([title, *[""] * len(self.columns)])
                lines.append([f"\u2003{row.level}", *row.cells])
            before = row.name
        return Table(lines, "By split", ends=QUARTILES)

    def data_table(self) -> Table:
        """As a table for other programs: name, level and unit stand in each row."""
        lines = [["characteristic", "level", "unit", *self.columns]]
        lines += [[row.name, row.level, row.unit, *row.cells] for row in self.rows]
        return Table(lines, ends=QUARTILES)


def table_one(population: Population) -> TableOne:
    """Describe the images by split, and those measured where they are none of the splits."""
    parts = {name: population.of_split(name) for name in population.split_names}
    measured = population.measured
    same = next((name for name, rows in parts.items() if np.array_equal(rows, measured)), None)
    columns = {
        (f"{name} (measured)" if name == same else name): rows for name, rows in parts.items()
    }
    everything = population.all_rows
    if len(parts) > 1:
        columns["all (measured)" if np.array_equal(everything, measured) else "all"] = everything
    if same is None and not np.array_equal(everything, measured):
        columns["measured"] = measured
    masks = list(columns.values())
    rows = [*_sizes(population, masks), *_age(population, masks)]
    for column, unit in COLUMNS.items():
        rows += _levels(population, masks, column, unit)
    for finding in population.labels:
        rows += _finding(population, masks, finding)
    return TableOne(list(columns), rows)


def _sizes(population: Population, masks: Sequence[Truth]) -> list[Characteristic]:
    counts = [population.counts(mask) for mask in masks]
    rows = [
        Characteristic(name.capitalize(), "", "", [f"{getattr(one, name):,}" for one in counts])
        for name in ("images", "studies", "patients")
    ]
    each = []
    for mask in masks:
        images = Counter(population.images.patients[row] for row in np.flatnonzero(mask))
        each.append(_median(np.fromiter(images.values(), dtype=np.float64)))
    return [*rows, Characteristic("Images of a patient", "", "median [IQR]", each)]


def _median(values: Floats) -> str:
    if not len(values):
        return EMPTY
    low, middle, high = np.percentile(values, (25, 50, 75))
    return Estimated(*(f"{value:.4g}" for value in (middle, low, high)))


def _first(population: Population, mask: Truth, cells: Sequence[str]) -> dict[str, str]:
    """What the first image of each patient says that says something; "" where none does."""
    found: dict[str, str] = {}
    for row in np.flatnonzero(mask):
        patient = population.images.patients[row]
        found[patient] = found.get(patient) or cells[int(row)]
    return found


def _age(population: Population, masks: Sequence[Truth]) -> list[Characteristic]:
    if "age" not in population.images.metadata:
        return []
    ages = population.images.metadata["age"]
    cells = ["" if np.isnan(age_years(cell)) else cell for cell in ages]
    medians, missing = [], []
    for mask in masks:
        years = np.array([age_years(cell) for cell in _first(population, mask, cells).values()])
        unknown = np.isnan(years)
        medians.append(_median(years[~unknown]))
        missing.append(_share(int(unknown.sum()), len(years)))
    rows = [Characteristic("Age", "years", "patients, median [IQR]", medians)]
    return [*rows, Characteristic("Age", MISSING, "patients, %", missing)]


def _levels(
    population: Population, masks: Sequence[Truth], column: str, unit: str
) -> list[Characteristic]:
    if column not in population.images.metadata:
        return []
    cells = population.images.metadata[column]
    counts = []
    for mask in masks:
        some = (
            _first(population, mask, cells).values()
            if unit == "patient"
            else (cells[row] for row in np.flatnonzero(mask))
        )
        counts.append(Counter(cell or MISSING for cell in some))
    total = Counter(cell or MISSING for cell in cells)
    names = [name for name, _ in total.most_common() if name != MISSING]
    rest = names[MOST_GROUPS - 1 :] if len(names) > MOST_GROUPS else []
    names = sorted(set(names) - set(rest))
    title, of = column.capitalize(), f"{unit}s, %"
    rows = [
        Characteristic(title, name, of, [_share(one[name], one.total()) for one in counts])
        for name in names
    ]
    if rest:
        others = [_share(sum(one[name] for name in rest), one.total()) for one in counts]
        rows.append(Characteristic(title, f"other ({len(rest)} values)", of, others))
    cells = [_share(one[MISSING], one.total()) for one in counts]
    return [*rows, Characteristic(title, MISSING, of, cells)]


def _finding(population: Population, masks: Sequence[Truth], finding: str) -> list[Characteristic]:
    """Rows of a finding; uncertain and missing labels only where there are some."""
    labels = population.labels[finding]
    rows = []
    for value, name in LABEL_NAMES.items():
        counts = [int((labels[mask] == value).sum()) for mask in masks]
        if value in (0, 1) or any(counts):
            cells = [_share(n, int(mask.sum())) for n, mask in zip(counts, masks, strict=True)]
            rows.append(Characteristic(finding, name, "images, %", cells))
    return rows


def _share(number: int, total: int) -> str:
    return f"{number:,} ({100 * number / total:.1f})" if total else EMPTY
