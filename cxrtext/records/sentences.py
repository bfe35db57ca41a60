"""The table of scored sentences that ``cxrtext score-text`` writes and training reads."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from cxrtext.errors import DataError
from cxrtext.files import read_sealed, sha256, write_sealed
from cxrtext.records.numbers import read_number
from cxrtext.records.study import Sentence
from cxrtext.records.tables import Kind, RowWriter, read_table

META = ".meta.json"
"""Appended to a table's name for its notes: how it was made, and its digest."""

TABLE = "table_sha256"

WRITTEN_COLUMNS: dict[str, Kind] = {
    "study_id": "text",
    "section": "text",
    "position": "whole",
    "sentence": "text",
    "n_tokens": "whole",
    "log_likelihood": "real",
    "eta": "real",
    "log_likelihood_per_token": "real",
    "unknown": "whole",
}
"""The written columns: ``log_likelihood_per_token``, in nats per word piece, is for people to
compare; ``unknown`` counts words that are not in the language model's vocabulary."""

COLUMNS = tuple(WRITTEN_COLUMNS)[:-2]  # the columns that a reader needs


class SentenceWriter(RowWriter):
    """Writes scored sentences one by one; see `RowWriter`."""

    def __init__(self, target: Path | TextIO) -> None:
        super().__init__(target, WRITTEN_COLUMNS)

    def add(self, sentence: Sentence) -> None:
        each = sentence.log_likelihood / sentence.n_tokens if sentence.n_tokens else None
        self.write({**asdict(sentence), "log_likelihood_per_token": each})


def write_notes(path: Path, notes: Mapping[str, Any], digest: str | None = None) -> None:
    """Write ``<path>.meta.json``: how a table was made, and its digest.

    ``digest`` is for a table that is not at ``path`` yet; by default the file there is read.
    """
    write_sealed(path.with_name(path.name + META), {**notes, TABLE: digest or sha256(path)})


def check_notes(path: Path) -> None:
    """Refuse a table that does not match its notes; a table without notes passes."""
    notes = path.with_name(path.name + META)
    fix = f"copy both again, score again, or, if you changed the table yourself, remove {notes}"
    try:
        digest = read_sealed(notes).get(TABLE)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise DataError(f"{notes}: {error}; {fix}") from None
    if digest != sha256(path):
        raise DataError(f"{path}: is not the table that {notes.name} was written for; {fix}")


def _number(path: Path, row: int, name: str, text: str) -> float:
    """The number in a cell, within the range of its column (DataError)."""
    again = "write the table again with 'cxrtext score-text'"
    try:
        value = read_number(text)
    except ValueError:
        raise DataError(f"{path}: row {row}: {name} '{text}' is not a number; {again}") from None
    if name == "eta":
        if not 0.0 < value < 1.0:
            raise DataError(f"{path}: row {row}: eta {value:g} is not between 0 and 1")
    elif name == "log_likelihood":
        if value > 0.0:
            raise DataError(f"{path}: row {row}: log_likelihood {value:g} is above 0; {again}")
    elif value < 0.0 or not value.is_integer():
        raise DataError(
            f"{path}: row {row}: {name} '{text}' is not a whole number of at least 0; {again}"
        )
    return value


def read_sentences(path: Path) -> list[Sentence]:
    """Read scored sentences, one per row; with unknown words, η may be empty."""
    table = read_table(path, required=COLUMNS)
    check_notes(path)
    sentences = []
    for number, row in enumerate(table.rows, 1):
        unknown = int(_number(path, number, "unknown", row.get("unknown") or "0"))
        eta = None if unknown and not row["eta"] else _number(path, number, "eta", row["eta"])
        sentences.append(
            Sentence(
                study_id=row["study_id"],
                section=row["section"],
                position=int(_number(path, number, "position", row["position"])),
                sentence=row["sentence"],
                n_tokens=int(_number(path, number, "n_tokens", row["n_tokens"])),
                log_likelihood=_number(path, number, "log_likelihood", row["log_likelihood"]),
                eta=eta,
                unknown=unknown,
            )
        )
    return sentences
