"""Text line by line: JSON Lines, and standard input as one sentence a line."""

import hashlib
import io
import json
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TextIO

from cxrtext.errors import DataError, WorkError
from cxrtext.files import sha256
from cxrtext.records.decoding import LINE_LIMIT, NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.parquet_process import cell_text
from cxrtext.records.rows import Row, clean_row
from cxrtext.records.study import Rejected, Sentence
from cxrtext.records.text_source import (
    REPORT_COLUMNS,
    SENTENCE_COLUMNS,
    TextSource,
    choose_columns,
    read_items,
)

LOOKED_AT = 100
"""Lines that are read to learn the keys: writers leave out the keys of missing values."""

_KEYS = tuple(dict.fromkeys((*REPORT_COLUMNS, *SENTENCE_COLUMNS)))
_TOO_LONG = f"longer than {LINE_LIMIT:,} characters"


def _parse(line: str) -> dict[str, Any] | str:
    """The object of a line, or what is wrong with it."""
    if len(line) > LINE_LIMIT:
        return f"{_TOO_LONG}; write one report a line"
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
    for key in _KEYS:
        if isinstance(value.get(key), dict | list | bool):
            return f"{key} is no text; write it as a string"
    return value


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    with path.open("rb") as raw, open_text(raw, str(path)) as handle:
        for number, line in enumerate(read_lines(handle), 1):
            if line.strip():
                yield number, _parse(line)


def _rows(path: Path) -> Iterator[Row | Rejected]:
    for number, value in _objects(path):
        if isinstance(value, str):
            yield Rejected(f"line {number}", value)
            continue
        names = [key for key in _KEYS if key in value]
        yield clean_row(number, names, [cell_text(value[key]) for key in names], "line")


def open_jsonl(path: Path) -> TextSource:
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
    return TextSource(
        str(path), holds, partial(sha256, path), lambda: read_items(holds, _rows(path), "line")
    )


NAME = "standard input"


class _Spool:
    """A file without a name, for its owner alone, gone when the process ends however it ends."""

    def __init__(self, stream: IO[bytes]) -> None:
        digest, self.blank = hashlib.sha256(), True
        try:
            with tempfile.TemporaryFile() as file:
                while block := stream.read(1 << 20):
                    digest.update(block)
                    self.blank = self.blank and not block.strip()
                    file.write(block)
                file.flush()
                self.handle = os.dup(file.fileno())
        except OSError as error:
            raise WorkError(
                f"{NAME} cannot be kept in {tempfile.gettempdir()} ({error.strerror}); make room, "
                "or set TMPDIR to a folder that has some"
            ) from None
        weakref.finalize(self, os.close, self.handle)
        self.digest = digest.hexdigest()

    def open(self) -> TextIO:
        """Open it as text from its beginning."""
        return open_text(io.BufferedReader(_Reader(self)), NAME)


class _Reader(io.RawIOBase):
    """A reader with a position of its own, so that several do not disturb each other."""

    def __init__(self, spool: _Spool) -> None:
        self._spool, self._place = spool, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = os.pread(self._spool.handle, len(buffer), self._place)
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def _sentences(spool: _Spool) -> Iterator[Sentence | Rejected]:
    with spool.open() as handle:
        for number, line in enumerate(read_lines(handle), 1):
            item, text = f"line {number}", line.strip()
            if len(line) > LINE_LIMIT:
                yield Rejected(item, f"{_TOO_LONG}; give one sentence a line")
            elif undecoded(text):
                yield Rejected(item, NOT_UTF8)
            elif text:
                yield Sentence(str(number), "sentence", 0, text)


def open_stdin() -> TextSource:
    """Read standard input to its end, and open it as one sentence a line.

    Sentences have the number of their line for a study_id; blank lines are passed over.

    Raises:
        DataError: There is no sentence, or it is not text.
        WorkError: The temporary folder has no room for it.
    """
    stream = getattr(sys.stdin, "buffer", None)
    spool = None if stream is None else _Spool(stream)
    if spool is None or spool.blank:
        state = "closed" if spool is None else "empty"
        raise DataError(f"{NAME} is {state}; pipe sentences into it, one a line")
    with spool.open():
        pass
    return TextSource(NAME, "sentences", lambda: spool.digest, lambda: _sentences(spool))
