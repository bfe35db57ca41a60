"""Text of unknown making, decoded without guessing and read line by line in little memory."""

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

LINE_LIMIT = 1_000_000  # longest line that is read, in characters
JSON_LIMIT = 2**28  # largest JSON file that is read, in bytes: it is read whole
NO_LINE = 100 * LINE_LIMIT  # longer lines mean the file is not text
NOT_UTF8 = "not UTF-8 text; save it as UTF-8"
LEGACY = {"cp1252": "Windows-1252", "mac_roman": "Mac Roman"}
"""Encodings in which Excel of Western Europe writes what it calls CSV, with their names."""
LOOKED_AT = 65_536  # bytes of a table by which its encoding is told

_MAGIC = {
    b"\x1f\x8b": "compressed with gzip; unpack it first (gunzip)",
    b"PK\x03\x04": "an Excel workbook or a zip archive; save it as CSV in UTF-8, or unpack it",
    b"\xd0\xcf\x11\xe0": "an Excel or Word file; save it as CSV in UTF-8",
    b"PAR1": "a Parquet file; give it a name that ends in .parquet",
}
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Characters of more than one byte in UTF-8, and bytes that are not a character of Windows-1252.
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")
_ACCENTED = re.compile(rb"[\x80-\xff]+")
_USUAL = re.compile("[äöüßéèêëàâáçîïíìñóòôõúùûãåæøœÄÖÜÉÀÁÇÑÓØÅ„“”‚‘’–—…«»°²³µ±·•€¿¡§]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def undecoded(text: str) -> bool:
    """Whether bytes that are not text stand in it, as the lone surrogates of ``open_text``."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def unreadable(start: bytes) -> str | None:
    """Say why content is not text that can be read, from its first four bytes or more."""
    for magic, reason in _MAGIC.items():
        if start.startswith(magic):
            return reason
    if (first := start[:4]) in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "UTF-32 text; save it as UTF-8"
    if len(first) == 4 and b"\0\0" in (first[0::2], first[1::2]):
        return "UTF-16 text without a byte order mark; save it as UTF-8"
    return None


def _encoding(start: bytes) -> tuple[str, str]:
    """The encoding, and how its decoder marks what is wrong with lone surrogates."""
    if start.startswith(_UTF16_MARKS):
        return "utf-16", "surrogatepass"
    return "utf-8-sig", "surrogateescape"


def _legacy(start: bytes, least: int) -> str:
    """Which of `LEGACY` text is in that is not UTF-8: what gives usual signs; "" where none does.

    Fewer bytes than ``least`` beyond ASCII are damage.
    """
    high = b"".join(_ACCENTED.findall(start))
    if len(high) < least or _UTF8.search(start) or _CONTROLS.search(start):
        return ""
    signs = {name: len(_USUAL.findall(high.decode(name, "replace"))) for name in LEGACY}
    best = max(LEGACY, key=signs.__getitem__)
    sure = signs[best] >= 0.8 * len(high) and "\ufffd" not in high.decode(best, "replace")
    return best if sure else ""


def decode(content: bytes) -> str | None:
    """Decode a whole text, line ends as line feeds; None where it is not text.

    It is UTF-8, UTF-16 with its mark, or of `LEGACY`.
    """
    try:
        text = content.decode(_encoding(content)[0])
    except UnicodeDecodeError:
        if not (legacy := _legacy(content, 1)):
            return None
        text = content.decode(legacy)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, if_large: str, if_none: str) -> Any:
    """What a JSON file of at most `JSON_LIMIT` holds; else a DataError that ends in an advice."""
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

    A ``table``, whose stream can go back, may be of `LEGACY`; `LOOKED_AT` bytes of it decide.

    Bytes that are not text become lone surrogates (see ``undecoded``), so that what stands around
    them can be read.  Line ends are kept as they are.
    """
    start = raw.peek(4)
    if (reason := unreadable(start)) is not None:
        raise DataError(f"{name}: {reason}")
    encoding, errors = _encoding(start)
    if table and encoding != "utf-16":
        with suppress(EOFError, zlib.error):  # the reading of its lines will come to it
            encoding = _legacy(raw.read(LOOKED_AT), 3) or encoding
        raw.seek(0)
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="")


def read_lines(handle: TextIO) -> Iterator[str]:
    """Give the lines with their ends, never holding more than one.

    Of a line longer than ``LINE_LIMIT`` only the first ``LINE_LIMIT + 1`` characters are given, so
    that its length tells.  UTF-16 that ends within a character gives a last line ``undecoded``.
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
