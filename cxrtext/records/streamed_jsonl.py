"""JSON Lines: one object a line, with the columns of a table as its keys."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records.rejects import BadItem
from cxrtext.records.tables import cell_text
from cxrtext.records.text_files import LINE_LIMIT, NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.text_rows import (
    REPORT_COLUMNS,
    SENTENCE_COLUMNS,
    Row,
    choose_columns,
    read_items,
)
from cxrtext.records.text_source import StreamedSource

LOOKED_AT = 100
"""Lines that are read to learn the keys: writers leave out the keys of missing values."""

_KEYS = frozenset((*REPORT_COLUMNS, *SENTENCE_COLUMNS))


def _parse(line: str) -> dict[str, Any] | str:
    """The object of a line, or what is wrong with it."""
    if len(line) > LINE_LIMIT:
        return f"longer than {LINE_LIMIT:,} characters; write one report a line"
    if undecoded(line):
        return NOT_UTF8
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"not JSON at character {error.colno}; write one JSON object a line"
    except (ValueError, RecursionError):
        return "not JSON that can be read; write one JSON object a line"
    if not isinstance(value, dict):
        return 'not a JSON object; write one object a line, such as {"study_id": ...}'
    for key in _KEYS & value.keys():
        if isinstance(value[key], dict | list | bool):
            return f"{key} is no text; write it as a string"
    return value


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    with path.open("rb") as raw, open_text(raw, str(path)) as handle:
        for number, line in enumerate(read_lines(handle), 1):
            if line.strip():
                yield number, _parse(line)


def _rows(path: Path) -> Iterator[Row | BadItem]:
    for number, value in _objects(path):
        if isinstance(value, str):
            yield BadItem(f"line {number}", value)
        else:
            yield number, {key: cell_text(value[key]) for key in _KEYS & value.keys()}


def open_jsonl(path: Path) -> StreamedSource:
    """Open a file of JSON Lines with reports or sentences.

    Raises:
        DataError: The file is empty, or its first lines hold no object with accepted keys.
    """
    keys: dict[str, None] = {}
    wrong = ""
    for number, value in islice(_objects(path), LOOKED_AT):
        if isinstance(value, str):
            wrong = wrong or f"line {number}: {value}"
        else:
            keys.update(dict.fromkeys(value))
    if not keys:
        raise DataError(f"{path}: {wrong or 'the file is empty'}")
    holds, _ = choose_columns(str(path), list(keys))
    return StreamedSource(
        str(path),
        holds,
        digest=partial(sha256, path),
        items=lambda: read_items(holds, _rows(path), unit="line"),
    )
