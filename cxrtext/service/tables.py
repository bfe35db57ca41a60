"""Search results as a table: a row per image, and no cell that a spreadsheet would run."""

from collections.abc import Iterable, Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from cxrtext.index.store.catalogue import TEXT_COLUMNS
from cxrtext.records.tables import csv_writer

if TYPE_CHECKING:
    from cxrtext.index import ImageHit

HIT_COLUMNS = ("score", *TEXT_COLUMNS)
"""The first columns of every table of hits."""


def hit_row(hit: "ImageHit", *, labels: bool = True) -> dict[str, Any]:
    """A found image: score, names, the manifest's other columns, and what the model says."""
    row = {"score": hit.score} | {name: getattr(hit.image, name) for name in TEXT_COLUMNS}
    by_model = {f"label.{finding}": p for finding, p in hit.labels.items()} if labels else {}
    if labels and hit.unlike is not None:
        by_model["model.unlike"] = hit.unlike
    return row | dict(hit.image.metadata) | by_model


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> str:
    """Rows as lines of CSV, numbers with six decimals; missing values are empty."""
    text, names = StringIO(), list(columns)
    write = csv_writer(text)
    for row in rows:
        cells = (row.get(name, "") for name in names)
        write(round(cell, 6) if isinstance(cell, float) else cell for cell in cells)
    return text.getvalue()


def csv_table(hits: Iterable["ImageHit"], columns: Iterable[str] = ()) -> str:
    """Hits as a whole table, with its header even without hits; ``columns`` are added to it."""
    rows = [hit_row(hit) for hit in hits]
    names = list(dict.fromkeys([*HIT_COLUMNS, *columns, *(name for row in rows for name in row)]))
    return csv_lines([dict(zip(names, names, strict=True)), *rows], names)
