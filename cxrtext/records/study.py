"""The records that rows of the user's tables become."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cxrtext.errors import DataError

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Study:
    """One report: a whole text, or texts by section."""

    study_id: str
    report: str = ""  # the whole text, if the table has a column for it
    # texts of ``findings``, ``impression``, ``indication``, ``comparison``, if the table has them.
    sections: Mapping[str, str] = field(default_factory=dict)
    row: int = 0  # row of the table, counted from 1 after the header


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a report with the language model's scores."""

    study_id: str
    section: str  # "report" if the report has no headings
    position: int  # its place in the section, from 0
    sentence: str
    n_tokens: int = 0  # word pieces without special tokens
    log_likelihood: float = 0.0  # pseudo-log-likelihood, in nats
    # class probability, in (0, 1); None if the language model knows too few of the words.
    eta: float | None = 0.0
    unknown: int = 0  # words that are not in the language model's vocabulary


@dataclass(frozen=True, slots=True)
class ImageRecord:
    path: Path
    name: str  # the ``image`` cell as written
    study_id: str
    patient_id: str
    split: str = "train"  # or "val" or "test"
    metadata: Mapping[str, str] = field(default_factory=dict)  # every other cell, by column
    row: int = 0  # row of the manifest, counted from 1 after the header


DAMAGED = "damaged or wrong"  # counts what should have been read but could not be


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of an input that is left out."""

    where: str  # where it stands: "row 17", or the relative path of a file; never report text
    why: str = ""  # one line: what is wrong and what to do; or what decided
    what: str = DAMAGED  # the words it is counted under, such as "lateral view"
    other: str = ""  # the file that decided

    @property
    def damaged(self) -> bool:
        return self.what == DAMAGED


def none_left_out(path: Path, entries: Iterable[Entry | LeftOut]) -> Iterator[Entry]:
    """Give the entries of a file; the first one left out raises a DataError."""
    for entry in entries:
        if isinstance(entry, LeftOut):
            raise DataError(f"{path}: {entry.where}: {entry.why}")
        yield entry
