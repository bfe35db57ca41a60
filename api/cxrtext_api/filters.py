"""Filters that a caller sends, checked before anything is computed."""

import re
from typing import TYPE_CHECKING

from cxrtext.errors import DataError, InputError

if TYPE_CHECKING:
    from cxrtext.service import Service

MAX_WHERE = 10_000
WHERE = "A filter over the columns of GET /v1/columns, such as: age > 60 and sex = 'F'."

_QUOTED = re.compile(r"(?:, found|: no column) '.*'(?=$|; there are )", re.DOTALL)


def check_where(service: "Service", where: str | None) -> None:
    """Refuse a filter that is wrong.

    Args:
        service: Whose index is to be searched.
        where: The filter; None for none.

    Raises:
        InputError: It is; what was sent is not quoted.
        NotFoundError: There is no index.
    """
    from cxrtext.index.search.filter import parse

    parts = service.archive.parts
    if where is None:
        return
    for part in parts:
        try:
            parse(where, part.catalogue.columns())
        except DataError as error:
            raise InputError(_QUOTED.sub(_unquoted, str(error))) from None


def _unquoted(match: re.Match[str]) -> str:
    return ": no such column" if match.group().startswith(": no column") else ""
