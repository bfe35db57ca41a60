"""Sources of text: they give studies or sentences, and rows that were rejected."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cxrtext.errors import DataError
from cxrtext.records.columns import SECTION_COLUMNS, found_columns
from cxrtext.records.rows import Row
from cxrtext.records.study import LeftOut, Sentence, Study

Holds = Literal["reports", "sentences"]
"""Reports are split into sections and sentences; sentences are used as they are."""

Item = Study | Sentence | LeftOut
REPORT_COLUMNS = ("study_id", "report", *SECTION_COLUMNS)
SENTENCE_COLUMNS = ("study_id", "section", "position", "sentence")

_WHOLE_NUMBER = re.compile(r"\d{1,15}(\.0*)?", re.ASCII)


def choose_columns(name: str, columns: Sequence[str]) -> tuple[Holds, tuple[str, ...]]:
    """What a table holds, and which of its columns to read (DataError)."""
    for column in (*REPORT_COLUMNS, *SENTENCE_COLUMNS):
        if columns.count(column) > 1:
            raise DataError(f"{name}: column '{column}' occurs more than once; keep one of them")
    listed = found_columns(columns)
    if not set(REPORT_COLUMNS[1:]).isdisjoint(columns):
        if "study_id" not in columns:
            raise DataError(
                f"{name}: column 'study_id' is missing; every report needs one ({listed})"
            )
        return "reports", tuple(column for column in REPORT_COLUMNS if column in columns)
    if "sentence" in columns:
        return "sentences", tuple(column for column in SENTENCE_COLUMNS if column in columns)
    raise DataError(
        f"{name}: no text to read; columns are 'study_id' with 'report' or any of "
        f"{', '.join(SECTION_COLUMNS)} for reports; 'sentence', and optionally study_id, section, "
        f"position, for sentences ({listed})"
    )


def _digest(*texts: str) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return int.from_bytes(digest.digest())


def distinct_studies(
    studies: Iterable[tuple[str, Study] | LeftOut], unit: str
) -> Iterator[Study | LeftOut]:
    """Give each study once, and reject a second report of a study if its words differ.

    A study comes with the name of its row or file.  Numbers count from 1 in ``unit``: "row",
    "line" or "file".  A study takes about 130 bytes of memory.
    """
    seen: dict[int, int] = {}  # row and digest of the text, by the digest of the id
    for entry in studies:
        if isinstance(entry, LeftOut):
            yield entry
            continue
        item, study = entry
        parts = (study.report, *(part for pair in study.sections.items() for part in pair))
        text = _digest(*(" ".join(part.split()) for part in parts))
        first = seen.setdefault(_digest(study.study_id), study.row << 64 | text)
        row, first_text = first >> 64, first & (1 << 64) - 1
        if row == study.row:
            yield study
        elif first_text != text:
            yield LeftOut(
                item,
                f"a second, different report for the study_id of {unit} {row}, which is used; "
                "give every report a study_id of its own",
            )


def _study(row: int, cells: Mapping[str, str], item: str) -> tuple[str, Study] | LeftOut:
    if not (study_id := cells.get("study_id", "").strip()):
        return LeftOut(item, "empty study_id; give every report one")
    sections = {name: cells[name] for name in SECTION_COLUMNS if name in cells}
    return item, Study(study_id, cells.get("report", ""), sections, row)


def _sentences(rows: Iterable[Row | LeftOut]) -> Iterator[Sentence | LeftOut]:
    places = Counter[int]()
    for entry in rows:
        if isinstance(entry, LeftOut):
            yield entry
            continue
        row, cells = entry
        if not cells.get("sentence", "").strip():
            continue
        study_id = cells.get("study_id", "").strip() or str(row)
        section = cells.get("section", "").strip() or "sentence"
        place = 0
        if cells.get("study_id", "").strip():
            key = _digest(study_id, section)
            place = places[key]
            places[key] += 1
        position = cells.get("position", "").strip() or str(place)
        if _WHOLE_NUMBER.fullmatch(position):
            yield Sentence(study_id, section, int(position.partition(".")[0]), cells["sentence"])
        else:
            yield LeftOut(f"row {row}", "position is not a whole number; fix or empty it")


def read_items(holds: Holds, rows: Iterable[Row | LeftOut]) -> Iterator[Item]:
    """Turn the rows of a table into studies or sentences.

    A sentence without study_id gets its row number; without section, "sentence"; without position,
    its place among the earlier rows of the same study and section.  Rows with an empty sentence are
    skipped; a study may have no text.
    """
    if holds == "sentences":
        return _sentences(rows)
    studies = (e if isinstance(e, LeftOut) else _study(*e, item=f"row {e[0]}") for e in rows)
    return distinct_studies(studies, "row")


@dataclass
class TextSource:
    """Reports or sentences that can be read again and again, and are never all in memory."""

    description: str  # its name in messages: the path, or "standard input"
    holds: Holds  # whether it gives reports (each a ``Study``) or sentences (each a ``Sentence``)
    # from the bytes of a file, or from a folder's names, sizes and times.
    compute_digest: Callable[[], str]
    items: Callable[[], Iterator[Item]]  # starts reading from the beginning

    @cached_property
    def digest(self) -> str:
        with self._named_errors():
            return self.compute_digest()

    def __iter__(self) -> Iterator[Item]:
        """Give the studies or sentences, and the rejected rows, in the same order every time."""
        with self._named_errors():
            yield from self.items()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"cannot be read ({error.strerror}); try again"
            raise DataError(f"{self.description}: {reason}") from None
