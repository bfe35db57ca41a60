"""Parquet tables as rows of text, read by a process of its own under limits.

A Parquet file of a few kilobytes may stand for gigabytes, and its footer need not say so.  Arrow
allocates what the pages ask for and has no limit of its own, so it runs in a child process that
the kernel limits (`cxrtext.records.parquet_process`).  What all rows come to is bounded here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError, WorkError
from cxrtext.files import open_regular
from cxrtext.records import parquet_process
from cxrtext.records.parquet_process import DAMAGED, END, FAULT, HEAD, HEADER, ROWS

MEMORY_BYTES = 512 << 20  # what reading may allocate, in the child
TEXT_BYTES = 256 << 20
"""What the rows of a table may come to, in bytes, beside `TIMES` the size of its file."""

TIMES = 100
ROW_BYTES = 200  # what a row counts beside its text: about what Python needs to hold one

_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve address space
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class ParquetError(DataError):
    """A Parquet file cannot be read; ``reason`` says why, and what to do."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: not a readable Parquet file: {reason}")
        self.reason = reason


class ParquetTable(AbstractContextManager["ParquetTable"]):
    """An open table, to be used in a ``with`` statement; its rows can be read once.

    ``columns`` are its names, ``no_text`` the Arrow types of those that hold lists, structs or
    dates, by name, and ``count`` the rows it says it has.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open_regular(path) as file:
                self._left = TEXT_BYTES + TIMES * os.fstat(file.fileno()).st_size
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        self._path = path
        # Not multiprocessing: its spawn runs the user's main script again.
        program = [sys.executable, "-P", parquet_process.__file__, str(path.absolute())]
        try:
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter
                [*program, str(MEMORY_BYTES), json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ENVIRONMENT},
            )
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise WorkError(f"{path}: no reading process can be started ({reason})") from None
        try:
            _, (names, no_text, count) = self._next(HEADER)
        except BaseException:
            self._end()
            raise
        self.count = int(count)
        self.columns: tuple[str, ...] = tuple(names)
        self.no_text = {name: kind for name, kind in zip(names, no_text, strict=True) if kind}

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[tuple[str, ...]]:
        """Give the rows, each cell as `cell_text` has it.

        Text that is not UTF-8 comes with lone surrogates; a binary column counts as text where it
        is named.
        """
        stdin = self._child.stdin
        assert stdin is not None  # noqa: S101 - for the type checker
        try:
            stdin.write(json.dumps(columns and list(columns)).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise self._lost() from None
        while True:
            size, content = self._next(ROWS, END)
            if content is None:
                return
            rows = list(zip(*content, strict=True))
            self._left -= size + ROW_BYTES * len(rows)
            if self._left < 0:
                raise ParquetError(
                    self._path,
                    f"its rows come to more than {TIMES} times its size plus "
                    f"{TEXT_BYTES >> 20} MiB; write it as several files, or as CSV",
                )
            yield from rows

    def _next(self, *kinds: int) -> tuple[int, Any]:
        stdout = self._child.stdout
        assert stdout is not None  # noqa: S101 - for the type checker
        head = stdout.read(HEAD.size)
        if len(head) < HEAD.size:
            raise self._lost()
        kind, size = HEAD.unpack(head)
        if kind not in (*kinds, FAULT) or size > MEMORY_BYTES:
            raise ParquetError(self._path, DAMAGED)
        data = stdout.read(size)
        if len(data) < size:
            raise self._lost()
        content = json.loads(data.decode("utf-8", "surrogatepass"))
        if kind == FAULT:
            raise ParquetError(self._path, content)
        return size, content

    def _lost(self) -> DataError | WorkError:
        if (code := self._child.wait()) < 0:
            return ParquetError(
                self._path,
                f"signal {-code} ended the process that read it: out of memory, or the file is "
                "damaged; write it again with smaller row groups",
            )
        return WorkError(
            f"{self._path}: the process that reads it ended (exit code {code}); try again"
        )

    def _end(self) -> None:
        self._child.kill()
        for stream in (self._child.stdin, self._child.stdout):
            with suppress(OSError):  # what could not be written to it any more
                stream.close()  # type: ignore[union-attr]
        self._child.wait()

    def __exit__(self, *_: object) -> None:
        self._end()
