"""A cohort as CSV."""

import csv
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from cxrtext_api.schemas.rounding import rounded

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
    """Found images as CSV, with the columns of ``cxrtext search --out``.

    Args:
        hits: The images, best first.

    Returns:
        A header and a line an image: score, names, the manifest's other columns, and the
        zero-shot labels.
    """
    rows = [_row(hit) for hit in hits]
    columns = list(dict.fromkeys((*FIRST, *(name for row in rows for name in row))))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_plain(name) for name in columns])
    writer.writerows([_plain(row.get(name, "")) for name in columns] for row in rows)
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
