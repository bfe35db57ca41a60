"""The table of scored sentences that ``cxrtext score-text`` writes and training reads."""

import csv
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from cxrtext.errors import DataError
from cxrtext.files import replacing
from cxrtext.records.study import Sentence
from cxrtext.records.tables import read_table

COLUMNS = (
    "study_id",
    "section",
    "position",
    "sentence",
    "n_tokens",
    "log_likelihood",
    "eta",
)
"""The columns that are read, in order."""

WRITTEN_COLUMNS = (*COLUMNS, "log_likelihood_per_token")
"""The columns that are written: the last, in nats a word piece, is for people to compare by."""

ROW_GROUP = 10_000
"""Rows that a Parquet file keeps together, and that its writer holds."""


def _row(sentence: Sentence) -> dict[str, Any]:
    each = sentence.log_likelihood / sentence.n_tokens if sentence.n_tokens else None
    return {**asdict(sentence), "log_likelihood_per_token": each}


def _csv_rows(stream: TextIO) -> Callable[[dict[str, Any]], None]:
    """Write the header, and return what writes a row."""
    writer = csv.DictWriter(stream, WRITTEN_COLUMNS)
    writer.writeheader()

    def write(row: dict[str, Any]) -> None:
        writer.writerow(row)

    return write


class _ParquetRows:
    """Writes rows in groups."""

    def __init__(self, path: Path, closing: ExitStack) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        whole, real = pa.int64(), pa.float64()
        kinds = {"position": whole, "n_tokens": whole, "log_likelihood": real, "eta": real}
        kinds["log_likelihood_per_token"] = real
        self._schema = pa.schema([(name, kinds.get(name, pa.string())) for name in WRITTEN_COLUMNS])
        self._rows: list[dict[str, Any]] = []
        self._writer = closing.enter_context(pq.ParquetWriter(path, self._schema))
        closing.callback(self.flush)

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write the rows held as one group."""
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
            self._rows.clear()


class SentenceWriter:
    """Writes scored sentences one by one; a file appears whole at the end or not at all.

    ::

        with SentenceWriter(path) as writer:
            writer.add(sentence)

    Args:
        target: A path ending in ``.csv`` or ``.parquet``, or an open text stream, which gets CSV.

    Raises:
        DataError: The path ends in something else.
    """

    def __init__(self, target: Path | TextIO) -> None:
        if isinstance(target, Path) and target.suffix.lower() not in (".csv", ".parquet"):
            raise DataError(f"{target}: a table ends in .csv or .parquet")
        self._target = target
        self._closing = ExitStack()
        self._write: Callable[[dict[str, Any]], None] | None = None

    def __enter__(self) -> Self:
        target = self._target
        with ExitStack() as closing:
            if not isinstance(target, Path):
                self._write = _csv_rows(target)
                closing.callback(target.flush)
            else:
                temporary = closing.enter_context(replacing(target))
                if target.suffix.lower() == ".parquet":
                    self._write = _ParquetRows(temporary, closing).add
                else:
                    stream = temporary.open("w", encoding="utf-8", newline="")
                    self._write = _csv_rows(closing.enter_context(stream))
            self._closing = closing.pop_all()
        return self

    def add(self, sentence: Sentence) -> None:
        """Write one sentence.

        Raises:
            ValueError: The writer is not open: use it in a ``with`` statement.
        """
        if self._write is None:
            raise ValueError("the writer is not open")
        self._write(_row(sentence))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write = None
        self._closing.__exit__(kind, error, trace)


def write_sentences(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write scored sentences as CSV or Parquet, whole or not at all."""
    with SentenceWriter(path) as writer:
        for sentence in sentences:
            writer.add(sentence)


def _number(path: Path, row: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{path}: row {row}: {name} '{text}' is not a number; write the table again with "
            "'cxrtext score-text'"
        )
    return value


def read_sentences(path: Path) -> list[Sentence]:
    """Read scored sentences.

    Args:
        path: A CSV or Parquet file as ``score-text`` writes it.

    Returns:
        One sentence a row, in the order of the table.

    Raises:
        DataError: A column is missing, a number is none, or eta lies outside (0, 1).
    """
    table = read_table(path, required=COLUMNS)
    sentences = []
    for number, row in enumerate(table.rows, 1):
        eta = _number(path, number, "eta", row["eta"])
        if not 0.0 < eta < 1.0:
            raise DataError(f"{path}: row {number}: eta {eta:g} is not between 0 and 1")
        sentences.append(
            Sentence(
                study_id=row["study_id"],
                section=row["section"],
                position=int(_number(path, number, "position", row["position"])),
                sentence=row["sentence"],
                n_tokens=int(_number(path, number, "n_tokens", row["n_tokens"])),
                log_likelihood=_number(path, number, "log_likelihood", row["log_likelihood"]),
                eta=eta,
            )
        )
    return sentences
