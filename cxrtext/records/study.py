"""What one row of the user's tables becomes."""

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
    report: str = ""  # the whole text, where the table has a column of it
    # texts of ``findings``, ``impression``, ``indication``, ``comparison``, as far as the table has
    # such columns.
    sections: Mapping[str, str] = field(default_factory=dict)
    row: int = 0  # of the table, the first after the header being 1


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a report, with what the language model says of it."""

    study_id: str
    section: str  # "report" where the report has no headings
    position: int  # its place in the section, from 0
    sentence: str
    n_tokens: int = 0  # word pieces, special tokens not counted
    log_likelihood: float = 0.0  # pseudo-log-likelihood, in nats
    # class probability, in (0, 1); None where the language model knows too few of the words.
    eta: float | None = 0.0
    unknown: int = 0  # words that its vocabulary lacks


@dataclass(frozen=True, slots=True)
class ImageRecord:
    path: Path  # where the image lies
    name: str  # the ``image`` cell, as written
    study_id: str
    patient_id: str
    split: str = "train"  # or "val" or "test"
    metadata: Mapping[str, str] = field(default_factory=dict)  # every other cell, by column
    row: int = 0  # of the manifest, the first after the header being 1


DAMAGED = "damaged or wrong"  # what is counted under this should have been read but could not be


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of an input that is left out."""

    where: str  # where it stands: "row 17", or the relative path of a file; never report text
    why: str = ""  # one line: what is wrong, and what to do; or what says so
    what: str = DAMAGED  # the words that it is counted under, such as "lateral view"
    other: str = ""  # the file that says so

    @property
    def damaged(self) -> bool:
        """Whether it should have been read."""
        return self.what == DAMAGED


def none_left_out(path: Path, entries: Iterable[Entry | LeftOut]) -> Iterator[Entry]:
    """What a file gives where all of it is wanted: the first that is wrong is a DataError."""
    for entry in entries:
        if isinstance(entry, LeftOut):
            raise DataError(f"{path}: {entry.where}: {entry.why}")
        yield entry
