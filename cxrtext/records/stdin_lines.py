"""Standard input as sentences, one a line, kept in a file so that it can be read again."""

import hashlib
import io
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from typing import IO

from cxrtext.errors import DataError, WorkError
from cxrtext.records.rejects import BadItem
from cxrtext.records.study import Sentence
from cxrtext.records.text_files import LINE_LIMIT, NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.text_source import StreamedSource

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
                self._handle = os.dup(file.fileno())
        except OSError as error:
            raise WorkError(
                f"{NAME} cannot be kept in {tempfile.gettempdir()} ({error.strerror}); make room, "
                "or set TMPDIR to a folder that has some"
            ) from None
        weakref.finalize(self, os.close, self._handle)
        self.digest = digest.hexdigest()

    def read_at(self, place: int, size: int) -> bytes:
        """Read without a common position, so that several readers do not disturb each other."""
        return os.pread(self._handle, size, place)


class _Reader(io.RawIOBase):
    """A reader of a spool with a position of its own."""

    def __init__(self, spool: _Spool) -> None:
        self._spool = spool
        self._place = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._spool.read_at(self._place, len(buffer))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def _sentences(spool: _Spool) -> Iterator[Sentence | BadItem]:
    with open_text(io.BufferedReader(_Reader(spool)), NAME) as handle:
        for number, line in enumerate(read_lines(handle), 1):
            text = line.strip()
            if len(line) > LINE_LIMIT:
                yield BadItem(
                    f"line {number}",
                    f"longer than {LINE_LIMIT:,} characters; give one sentence a line",
                )
            elif undecoded(text):
                yield BadItem(f"line {number}", NOT_UTF8)
            elif text:
                yield Sentence(str(number), "sentence", 0, text)


def open_stdin() -> StreamedSource:
    """Read standard input to its end, and open it as one sentence a line.

    Returns:
        A source whose sentences have the number of their line for a study_id; blank lines are
        passed over.

    Raises:
        DataError: There is no sentence, or it is not text.
        WorkError: The temporary folder has no room for it.
    """
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise DataError(f"{NAME} is closed; pipe sentences into it, one a line")
    spool = _Spool(stream)
    if spool.blank:
        raise DataError(f"{NAME} is empty; pipe sentences into it, one a line")
    with open_text(io.BufferedReader(_Reader(spool)), NAME):
        pass
    return StreamedSource(
        NAME, "sentences", digest=lambda: spool.digest, items=lambda: _sentences(spool)
    )
