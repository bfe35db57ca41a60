"""Reads numbers from outside: always finite and within their range."""

import json
import re
from sys import float_info
from typing import Any

WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,40}\.?[0-9]{0,400}|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?")


def read_number(given: Any, low: float = -float_info.max, high: float = float_info.max) -> float:
    """A finite number from ``low`` to ``high``, from a number or from text as people write it.

    Raises ValueError, without quoting it, also for nan, infinity and 1_0, which Python accepts.
    """
    if isinstance(given, str) and _DECIMAL.fullmatch(given.strip()):
        given = float(given)
    if isinstance(given, int | float) and not isinstance(given, bool) and low <= given <= high:
        return float(given)
    bounds = "" if high == float_info.max else f" from {low:g} to {high:g}"
    raise ValueError(f"write a number{bounds}, such as {max(low, min(high, 0.5)):g}")


def read_strict_json(text: str | bytes) -> Any:
    """Parse JSON with finite numbers only (ValueError); Python's parser accepts NaN and 1e999."""
    return json.loads(text, parse_float=read_number, parse_constant=read_number)
