"""Fields that several routes take, and the kinds of content that they give."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le
from fastapi import Form, Query, Response
from pydantic import BaseModel

from cxrtext.errors import DataError, InputError
from cxrtext.index.search.filter import parse
from cxrtext.service.questions import WHOLE

if TYPE_CHECKING:
    from cxrtext.service import Service

JSON = "application/json"
PNG = "image/png"
CSV = "text/csv"

MULTIPART = Form(media_type="multipart/form-data")
"""Of the model of a form that may bring a file."""

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

# --- filters, checked before anything is computed ---

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


def as_json(answer: BaseModel) -> Response:
    """A model that was checked when it was made, and is not checked again to be sent."""
    return Response(answer.model_dump_json(), media_type=JSON)


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
