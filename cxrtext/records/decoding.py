"""Text of unknown origin, decoded strictly and read line by line in little memory."""

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from cxrtext.errors import DataError
from cxrtext.files import open_regular

LINE_LIMIT = 1_000_000  # longest line, in characters
JSON_LIMIT = 2**28  # largest JSON file, in bytes, because it is read whole
NO_LINE = 100 * LINE_LIMIT  # longer lines mean the file is not text
NOT_UTF8 = "not UTF-8 text; save it as UTF-8"
LEGACY = {"cp1252": "Windows-1252", "mac_roman": "Mac Roman"}
"""Encodings of "CSV" from Excel in Western Europe, with their names."""
LOOKED_AT = 65_536  # bytes of a table that decide its encoding

_MAGIC = {
    b"\x1f\x8b": "compressed with gzip; unpack it first (gunzip)",
    b"PK\x03\x04": "an Excel workbook or a zip archive; save it as CSV in UTF-8, or unpack it",
    b"\xd0\xcf\x11\xe0": "an Excel or Word file; save it as CSV in UTF-8",
    b"PAR1": "a Parquet file; give it a name that ends in .parquet",
}
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Characters that take several bytes in UTF-8.
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")
_ACCENTED = re.compile(rb"[\x80-\xff]+")
_USUAL = re.compile("[äöüßéèêëàâáçîïíìñóòôõúùûãåæøœÄÖÜÉÀÁÇÑÓØÅ„“”‚‘’–—…«»°²³µ±·•€¿¡§]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def undecoded(text: str) -> bool:
    """Whether a text has bytes that are not text, as lone surrogates from ``open_text``."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def unreadable(start: bytes) -> str | None:
    """Why content is not readable text, from its first four or more bytes; None if it may be."""
    for magic, reason in _MAGIC.items():
        if start.startswith(magic):
            return reason
    if (first := start[:4]) in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "UTF-32 text; save it as UTF-8"
    if len(first) == 4 and b"\0\0" in (first[0::2], first[1::2]):
        return "UTF-16 text without a byte order mark; save it as UTF-8"
    return None


def _encoding(start: bytes) -> tuple[str, str]:
    """The encoding, and the error handler that turns bad bytes into lone surrogates."""
    if start.startswith(_UTF16_MARKS):
        return "utf-16", "surrogatepass"
    return "utf-8-sig", "surrogateescape"


def _legacy(start: bytes, least: int) -> str:
    """Which of `LEGACY` text that is not UTF-8 is in, by how usual its characters are; "" if none.

    Fewer bytes than ``least`` beyond ASCII count as damage.
    """
    high = b"".join(_ACCENTED.findall(start))
    if len(high) < least or _UTF8.search(start) or _CONTROLS.search(start):
        return ""
    signs = {name: len(_USUAL.findall(high.decode(name, "replace"))) for name in LEGACY}
    best = max(LEGACY, key=signs.__getitem__)
    sure = signs[best] >= 0.8 * len(high) and "\ufffd" not in high.decode(best, "replace")
    return best if sure else ""


def decode(content: bytes) -> str | None:
    """Decode a whole text, with line feeds as line ends; None if it is not text.

    It may be UTF-8, UTF-16 with its mark, or `LEGACY`.
    """
    try:
        text = content.decode(_encoding(content)[0])
    except UnicodeDecodeError:
        if not (legacy := _legacy(content, 1)):
            return None
        text = content.decode(legacy)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, if_large: str, if_none: str) -> Any:
    """Parse a JSON file of at most `JSON_LIMIT`; a DataError ends in one of the given hints."""
    try:
        with open_regular(path) as handle:
            data = handle.read(JSON_LIMIT + 1)
        if len(data) > JSON_LIMIT:
            raise DataError(f"{path}: larger than {JSON_LIMIT >> 20} MiB; {if_large}")
        return json.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: not readable JSON in UTF-8; {if_none}") from None


def open_text(
    raw: io.BufferedReader | gzip.GzipFile, name: str, *, table: bool = False
) -> io.TextIOWrapper:
    """Open UTF-8, or UTF-16 with its mark, from the start of a binary stream.

    A ``table`` may also be in `LEGACY`, decided by its first `LOOKED_AT` bytes; its stream must be
    seekable.  Bytes that are not text become lone surrogates (see ``undecoded``), so that the rest
    can be read.  Line ends stay as they are.
    """
    start = raw.peek(4)
    if (reason := unreadable(start)) is not None:
        raise DataError(f"{name}: {reason}")
    encoding, errors = _encoding(start)
    if table and encoding != "utf-16":
        with suppress(EOFError, zlib.error):  # reading the lines will raise it again
            encoding = _legacy(raw.read(LOOKED_AT), 3) or encoding
        raw.seek(0)
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="")


def read_lines(handle: TextIO) -> Iterator[str]:
    """Give the lines with their ends, one at a time.

    A line longer than ``LINE_LIMIT`` is cut after ``LINE_LIMIT + 1`` characters, so that callers
    can tell.  If UTF-16 ends within a character, the last line is ``undecoded``.
    """
    while True:
        try:
            line = handle.readline(LINE_LIMIT + 1)
            rest, length = line if len(line) > LINE_LIMIT else "\n", len(line)
            while rest and not rest.endswith(("\n", "\r")):
                rest = handle.readline(65536)
                length += len(rest)
                if length > NO_LINE:
                    raise DataError(
                        f"{getattr(handle, 'name', 'standard input')}: a line is longer than "
                        f"{NO_LINE:,} characters; is it the right file?"
                    )
        except UnicodeDecodeError:
            yield "\udc00"
            return
        if not line:
            return
        yield line
