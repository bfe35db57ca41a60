"""The table of scored sentences that ``cxrtext score-text`` writes and training reads."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.study import Sentence
from cxrtext.records.tables import read_table, write_table

COLUMNS = (
    "study_id",
    "section",
    "position",
    "sentence",
    "n_tokens",
    "log_likelihood",
    "eta",
)
"""The columns, in order."""


def write_sentences(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write scored sentences as CSV or Parquet, whole or not at all."""
    write_table(path, COLUMNS, map(asdict, sentences))


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
