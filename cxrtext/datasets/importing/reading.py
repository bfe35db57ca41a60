"""What an import is asked for, what the reader of a set gives, and the tables and cells of sets."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cxrtext.datasets.admission.views import LATERAL, OTHER, read_view
from cxrtext.datasets.importing.loose import IdMatching
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.errors import ConfigError, DataError
from cxrtext.records import Absent, Box, LeftOut, Study, TableRows
from cxrtext.records.columns import NAMES, NO_COLUMNS, ORDERING
from cxrtext.records.decoding import read_json
from cxrtext.records.labels import CHEXPERT, VALUES
from cxrtext.records.manifest import ACQUIRED, DATES, DAYS, is_own_column
from cxrtext.records.numbers import read_number

# The split of an image that its set leaves to be divided into these two.
TRAIN_OR_VAL = "train or val"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user may choose about an import."""

    layout: str = "auto"  # the name of a layout, or "auto"
    keep: tuple[str, ...] = ()  # metadata to be read into the manifest
    reports: Path | None = None  # a table or folder of reports, instead of those of the set
    # what columns of the table of reports, or of images, are called, by their own names.
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Path | None = None  # a table of labels, instead of those of the set
    label_sentences: bool = False  # whether reports are made of labels, for sets without
    boxes: Path | None = None  # a box file, instead of that of the set
    # a file whose content keys the hashes that replace ids; None keeps the ids.
    hash_key: Path | None = None
    # shares of train, val and test, for sets without a split of their own.
    split: tuple[int, int, int] = (80, 10, 10)
    link: bool = False  # whether images are hard links, made read-only, instead of copies
    merged_patients: Path | None = None  # a table of patients that were merged
    issuer: str = ""  # of patient ids whose header names none
    # whether ids that a spreadsheet changed are joined to those of the films ("loose").
    ids: IdMatching = "exact"
    follow_links: bool = False  # whether links are followed that lead out of the folder
    max_rejected: int = 100  # how many rows and files may be damaged

    def check(self) -> None:
        """Refuse shares that do not add up, and dates where ids are hashed."""
        if len(self.split) != 3 or min(self.split) < 0 or not sum(self.split):
            shares = ",".join(map(str, self.split))
            raise ConfigError(f"--split is {shares}; give three shares such as 80,10,10")
        if self.ids not in ("exact", "loose"):
            raise ConfigError("--ids is exact or loose")
        if self.label_sentences and self.reports:
            raise ConfigError(
                "--label-sentences goes without --reports: it makes reports of labels"
            )
        for name in ("date", ACQUIRED):
            if self.hash_key is not None and name in self.keep:
                raise ConfigError(
                    f"--keep {name}: dates are dropped with --hash-ids; leave {name} out"
                )


@dataclass(frozen=True, slots=True)
class FoundImage:
    """A frontal radiograph, as its set names it."""

    path: Path  # the file, all links followed
    name: str  # its path relative to the folder, with forward slashes
    study_id: str  # its study, as the set names it
    patient_id: str  # its patient; "" where the set does not say
    split: str = ""  # "train", "val", "test", ``TRAIN_OR_VAL``, or "" where it is to be drawn
    view: str = ""  # "AP", "PA", "frontal" (either), or "" where nothing says
    accession: str = ""  # another number by which a report may name the study
    accession_issuer: str = ""
    issuer: str = ""  # of the patient's id, which begins with it; "" where nothing names one
    instance: str = ""  # its SOPInstanceUID, or "" where it has none
    changed: str = ""  # when its header was last changed, as the header says
    modified_ns: int | None = None  # when its file was; None where its header was not read
    notes: tuple[str, ...] = ()  # what there is to know of it
    box_key: str = ""  # what box files call the image; "" for the name
    metadata: Mapping[str, str] = field(default_factory=dict)  # the columns that the user asked for
    # labels of its study by finding: "1", "0", "-1" or "".
    labels: Mapping[str, str] = field(default_factory=dict)


class LeftOutError(Exception):
    """Ends the reading of one image; ``entry`` says why it is not kept."""

    def __init__(self, entry: LeftOut) -> None:
        super().__init__(entry)
        self.entry = entry


Names = Mapping[str, str]
"""The headers of columns by the names that they are read under; see `match_columns`."""
Entry = FoundImage | ReportVersion | LeftOut
Columns = tuple[str, ...]
LabelRow = tuple[str, Mapping[str, str]]  # a study and its labels by finding


@dataclass(frozen=True, slots=True)
class Reading:
    """A set opened for import; everything in it is read when it is iterated over."""

    count: Callable[[], int]  # counts the files or rows to come, for the progress; called once
    images: Callable[[Columns], Iterator[Entry]]  # reads the images and these of their metadata
    offered: Columns = ()  # the metadata that there are
    lists_left_out: bool = True  # whether metadata that the user did not ask for are named
    findings: Columns = ()  # columns of the labels; empty where there are none
    # reads the labels that do not come with the images.
    label_rows: Callable[[], Iterable[LabelRow | LeftOut]] | None = None
    by_image: bool = False  # whether reports or labels name studies by their images
    names: Names = field(default_factory=dict)  # of the table that the user named
    notes: tuple[str, ...] = ()  # what there is to know of it
    # of metadata that cannot all be read, what to say.
    unread: Mapping[str, str] = field(default_factory=dict)
    # open the reports and boxes of the set, where it has some.
    reports: Callable[[], Iterable[Study | ReportVersion | LeftOut]] | None = None
    boxes: Callable[[], Iterable[Box | Absent | LeftOut]] | None = None


def columns_kept(
    keep: Columns, offered: Columns, layout: str, names: Names
) -> tuple[Columns, Columns]:
    """Divide what a set offers into what the user asked for, in the user's order, and the rest."""
    called = {header: name for name, header in names.items()}
    keep = tuple(called.get(name, name) for name in keep if name != "view")  # always there
    offered = tuple(name for name in offered if not is_own_column(name))
    for name in keep:
        if name not in offered:
            has = ", ".join(offered) or "none"
            raise ConfigError(
                f"--keep {name}: the {layout} layout has no such metadata; it has: {has}"
                + f"; if one is it, add --columns {name}=HEADER" * (name in NAMES)
            )
    if {ACQUIRED, DAYS} & {*keep} and DATES in offered:
        keep = (*keep, DATES)  # without which nobody knows what a date is worth
    rest = (name for name in offered if name not in (*keep, *ORDERING))
    return tuple(dict.fromkeys(keep)), tuple(rest)


Made = TypeVar("Made")
Row = tuple[str, dict[str, str]]
"""Where a row stands ("train.csv row 17"), and its cells by column, without space around them."""


def find_table(folder: Path, *stems: str) -> Path | None:
    """The first table of some names without ending: ``.csv``, ``.csv.gz`` or ``.parquet``."""
    paths = (folder / (s + end) for s in stems for end in (".csv", ".csv.gz", ".parquet"))
    return next((path for path in paths if path.is_file()), None)


def columns_of(path: Path, names: Names = NO_COLUMNS) -> tuple[str, ...]:
    """The columns of a table; () where there is none that can be read."""
    try:
        return TableRows(path, names).columns
    except DataError:
        return ()


def count_rows(path: Path) -> int:
    """About how many rows a table has."""
    try:
        return max(TableRows(path).count, 1)
    except DataError:
        return 1  # reading the rows will say why


def read_rows(
    table: Path | TableRows, required: Iterable[str] = (), names: Names = NO_COLUMNS
) -> Iterator[Row | LeftOut]:
    """Give the rows of a table; one that is unreadable, or lacks a column, raises a DataError."""
    table = TableRows(table, names) if isinstance(table, Path) else table
    path = table.path
    for name in required:
        if name not in table.columns:
            # A table without a header has a patient's row where the names should be.
            raise DataError(
                f"{path}: column '{name}' is missing from its first line; is it the right file?"
            )
    # Of a table of the user's it was settled which of two columns is read.
    table.require(*(required if table.names else filter(None, table.columns)))
    for entry in table:
        if isinstance(entry, LeftOut):
            yield LeftOut(f"{path.name} {entry.where}", entry.why)
        else:
            number, cells = entry
            yield f"{path.name} row {number}", {n: text.strip() for n, text in cells.items()}


def read_objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON file that holds a list of them; its other entries are passed over."""
    value = read_json(path, "is it the right file?", "get the file again")
    if not isinstance(value, list):
        raise DataError(f"{path}: holds no list; is it the right file?")
    return [entry for entry in value if isinstance(entry, dict)]


def make_each(
    given: Iterable[tuple[Any, ...] | LeftOut], make: Callable[..., Made | None]
) -> Iterator[Made | LeftOut]:
    """Give what is made of each, or why nothing is; None is passed over."""
    for one in given:
        if isinstance(one, LeftOut):
            yield one
            continue
        try:
            made = make(*one)
        except LeftOutError as error:
            yield error.entry
        else:
            if made is not None:
                yield made


def map_rows(
    path: Path, required: Iterable[str], make: Callable[[str, dict[str, str]], Made | None],
    names: Names = NO_COLUMNS,
) -> Iterator[Made | LeftOut]:  # fmt: skip
    """:func:`make_each` of the rows of a table, by where each stands and its cells."""
    return make_each(read_rows(path, required, names), make)


def first_rows(path: Path, required: Sequence[str]) -> Iterator[Row | LeftOut]:
    """The rows of a table with more than one of an image: the first by the first column."""
    seen: set[str] = set()
    for row in read_rows(path, required):
        if isinstance(row, LeftOut):
            yield row
        elif row[1][required[0]] not in seen:
            seen.add(row[1][required[0]])
            yield row


def reject(item: str, reason: str) -> LeftOutError:
    """What to raise about an image whose row or file is wrong."""
    return LeftOutError(LeftOut(item, reason))


def frontal_view(item: str, *texts: str) -> str:
    """The view that the first text with an answer names; "" where none has one."""
    view = next((view for view in map(read_view, texts) if view), "")
    if view in (LATERAL, OTHER):
        raise LeftOutError(LeftOut(item, what=view))
    return view


def numbers(row: Mapping[str, str], *names: str) -> tuple[float, ...]:
    """Some cells as numbers; all of them NaN, which lies within no bounds, where one is none."""
    try:
        return tuple(read_number(row[name]) for name in names)
    except ValueError:
        return (math.nan,) * len(names)


def findings_of(columns: Iterable[str]) -> tuple[str, ...]:
    """Those of the 14 CheXpert columns that a table has."""
    present = set(columns)
    return tuple(name for name in CHEXPERT if name in present)


_YES = "ja yes true positiv positive positivo positif sí si oui sim"
_NO = "nein no false negativ negative negativo negatif nee non não"
_SAID = {**dict.fromkeys(_YES.split(), "1"), **dict.fromkeys(_NO.split(), "0")}


def label_values(item: str, row: Mapping[str, str], findings: Iterable[str]) -> dict[str, str]:
    """The labels of a row as "1", "0", "-1" or ""."""
    labels = {}
    for name in findings:
        text = row.get(name, "")
        if (text := _SAID.get(text.lower(), text)) not in VALUES:
            raise reject(item, f"{name}: a label is 1, 0, -1 or blank; fix the cell")
        value = VALUES[text]
        labels[name] = "" if value is None else str(value)
    return labels


def label_rows(
    path: Path, findings: Columns, names: Names = NO_COLUMNS,
    study_of: Callable[[str, dict[str, str]], str] | None = None,
) -> Iterator[LabelRow | LeftOut]:  # fmt: skip
    """Give the labels of a table with a column a finding, of studies, or as ``study_of`` has it."""

    def labels(item: str, row: dict[str, str]) -> LabelRow:
        study = study_of(item, row) if study_of else row["study_id"]
        return study, label_values(item, row, findings)

    return map_rows(path, () if study_of else ["study_id"], labels, names)


def check_ids(item: str, study_id: str, patient_id: str) -> None:
    """Refuse the ids of a row or a file."""
    if not study_id:
        raise reject(item, "no study id; give every image one")
    for name, value in (("study", study_id), ("patient", patient_id)):
        if not value.isprintable() or len(value) > 200:
            raise reject(item, f"its {name} id is not plain text; fix it")
