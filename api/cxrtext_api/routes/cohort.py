"""A cohort as CSV, with the columns of ``cxrtext search --out``.

A header and a line an image: score, names, the manifest's other columns, and the zero-shot labels.
"""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from cxrtext_api.routes.answers import rounded

if TYPE_CHECKING:
    from cxrtext.index import ImageHit

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters that make a spreadsheet take a text for a formula."""

FIRST = ("score", "image", "study_id", "patient_id", "split")


def _plain(value: Any) -> Any:
    """A cell that no spreadsheet runs."""
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return value


def write_cohort(hits: "Sequence[ImageHit]") -> str:
    """Found images, best first, as a whole table."""
    columns = list(dict.fromkeys(name for hit in hits for name in _row(hit)))
    return cohort_header(columns) + cohort_lines(hits, columns)


def cohort_header(columns: Sequence[str]) -> str:
    """The first line of a table with columns after the first five, which every table has."""
    return _lines([_columns(columns)])


def cohort_lines(hits: "Sequence[ImageHit]", columns: Sequence[str]) -> str:
    """Lines of a table with the columns of :func:`cohort_header`."""
    named = _columns(columns)
    return _lines([row.get(name, "") for name in named] for row in map(_row, hits))


def _columns(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*FIRST, *columns)))


def _lines(rows: Iterable[Sequence[Any]]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return text.getvalue()


def _row(hit: "ImageHit") -> dict[str, Any]:
    image = hit.image
    return {
        "score": rounded(hit.score),
        "image": image.image,
        "study_id": image.study_id,
        "patient_id": image.patient_id,
        "split": image.split,
        **image.metadata,
        **{f"label.{finding}": rounded(p) for finding, p in hit.labels.items()},
    }
