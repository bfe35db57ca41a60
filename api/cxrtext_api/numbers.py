"""Numbers in forms and addresses, which come as text: written as numbers are, and no other way."""

import re
from typing import Any

from pydantic import BeforeValidator

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,20}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")


def _whole(value: Any) -> Any:
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise ValueError("write a whole number, such as 10")
    return value


def _decimal(value: Any) -> Any:
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise ValueError("write a number, such as 0.5")
    return value


WHOLE = BeforeValidator(_whole)
"""Takes 10, and neither 10.0 nor 1_0, which Python would take too.  It stands behind bounds, else
the API's description does not have them."""

DECIMAL = BeforeValidator(_decimal)
"""Takes 0.5, 1 and 5e-1, and neither 1_0 nor infinity."""
