"""Fields that several routes take, and the kinds of content that they give."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le
from fastapi import Form, Query
from pydantic import BeforeValidator

from cxrtext.errors import DataError, InputError
from cxrtext.index.search.filter import parse
from cxrtext.records.numbers import WHOLE as WHOLE_NUMBER
from cxrtext.records.numbers import read_number

if TYPE_CHECKING:
    from cxrtext.service import Service

JSON = "application/json"
PNG = "image/png"
CSV = "text/csv"

# --- numbers, which come as text: written as numbers are, and no other way ---


def _whole(value: Any) -> Any:
    if isinstance(value, str) and not WHOLE_NUMBER.fullmatch(value):
        raise ValueError("write a whole number, such as 10")
    return value


def _decimal(value: Any) -> Any:
    return read_number(value) if isinstance(value, str) else value


WHOLE = BeforeValidator(_whole)
"""Takes 10, and neither 10.0 nor 1_0, which Python would take too.  It stands behind bounds, else
the API's description does not have them."""

DECIMAL = BeforeValidator(_decimal)  # takes 0.5, 1 and 5e-1, and neither 1_0 nor infinity
MIN_SIDE = 32
MAX_SIDE = 4096
DEFAULT_SIDE = 1536

Side = Annotated[
    int,
    Ge(MIN_SIDE),
    Le(MAX_SIDE),
    WHOLE,
    Query(description="Longest side of the picture, in pixels."),
]

AsWritten = Annotated[
    bool, Form(description="Embed sentences as they were sent, not in the wording of the reports.")
]
Threshold = Annotated[
    float | None,
    Ge(-1),
    Le(1),
    DECIMAL,
    Form(
        description="From this score on a region counts for the boxes; by default the lower of the "
        "sentence's limits, or, without reference images, halfway between "
        "the mean and the maximum."
    ),
]

# --- filters, checked before anything is computed ---

MAX_WHERE = 10_000
WHERE = "A filter over the columns of GET /v1/columns, such as: age > 60 and sex = 'F'."
_QUOTED = re.compile(r"(?:, found|: no column) '.*'(?=$|; there are )", re.DOTALL)


def check_where(service: "Service", where: str | None) -> None:
    """Refuse a filter over the index's columns that is wrong, without quoting it; None is none."""
    catalogue = service.archive.catalogue
    if where is None:
        return
    try:
        parse(where, catalogue.columns())
    except DataError as error:
        said = _QUOTED.sub(
            lambda one: ": no such column" if one[0].startswith(": no column") else "",
            str(error),
        )
        raise InputError(said) from None


# --- what a caller wants to get ---


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The kind of content, of those offered, that an ``Accept`` header wants most.

    Of equal qualities the kind named first counts; the first offered is given where none is named.
    """
    best, answer = 0.0, offered[0]
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = _quality(parameters)
        kind = offered[0] if name == "*/*" else name
        if name.endswith("/*") and name != "*/*":
            kind = next((one for one in offered if one.startswith(name[:-1])), "")
        if kind in offered and quality > best:
            best, answer = quality, kind
    return answer


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return min(1.0, max(0.0, float(parameter[2:])))
            except ValueError:
                return 0.0
    return 1.0
