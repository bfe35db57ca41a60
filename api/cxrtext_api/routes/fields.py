"""Fields that several routes share, and the content types of their answers."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le
from fastapi import Form, Query, Response
from PIL import Image as Pictures
from pydantic import BaseModel

from cxrtext.errors import DataError, InputError
from cxrtext.images import encode_png
from cxrtext.images.gray import Bytes
from cxrtext.index.search.filter import parse
from cxrtext.service.questions import WHOLE

if TYPE_CHECKING:
    from cxrtext.service import Service

JSON = "application/json"
PNG = "image/png"
CSV = "text/csv"

MULTIPART = Form(media_type="multipart/form-data")
"""For the model of a form that may have a file."""

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
    """Refuse a wrong filter over the index's columns, without quoting it; None is no filter."""
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


# --- content types ---


def as_json(answer: BaseModel) -> Response:
    """A model as JSON, without checking it a second time."""
    return Response(answer.model_dump_json(), media_type=JSON)


PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {PNG: {}}}}


def answer_picture(pixels: Bytes) -> Response:
    """Pixels, [H, W], as a PNG."""
    return Response(encode_png(Pictures.fromarray(pixels)), media_type=PNG)


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The first content type of an ``Accept`` header that is offered, else the first offered."""
    names = (part.partition(";")[0].strip().lower() for part in accept.split(","))
    return next((name for name in names if name in offered), offered[0])
