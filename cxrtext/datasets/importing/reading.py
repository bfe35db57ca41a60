"""The options of an import, what the reader of a set returns, and the tables and cells of sets."""

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

TRAIN_OR_VAL = "train or val"  # the split of an image if its set does not tell these two apart


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user may choose about an import."""

    layout: str = "auto"  # the name of a layout, or "auto"
    keep: tuple[str, ...] = ()  # metadata to read into the manifest
    reports: Path | None = None  # a table or folder of reports that replaces the set's own
    # headers in the table of reports or images, by the column's name here.
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Path | None = None  # a table of labels that replaces the set's own
    label_sentences: bool = False  # whether to make reports from labels
    boxes: Path | None = None  # a box file that replaces the set's own
    # a file with the key for hashing ids; None keeps the ids.
    hash_key: Path | None = None
    # shares of train, val and test, for sets without a split of their own.
    split: tuple[int, int, int] = (80, 10, 10)
    link: bool = False  # whether images are hard links, made read-only, instead of copies
    merged_patients: Path | None = None  # a table of merged patients
    issuer: str = ""  # for patient ids without an issuer in their header
    # "loose" also joins ids that a spreadsheet changed to those of the films.
    ids: IdMatching = "exact"
    follow_links: bool = False  # whether to follow links that lead out of the folder
    max_rejected: int = 100  # how many rows and files may be damaged

    def check(self) -> None:
        """Refuse wrong shares, and options that do not go together (ConfigError)."""
        if len(self.split) != 3 or min(self.split) < 0 or not sum(self.split):
            shares = ",".join(map(str, self.split))
            raise ConfigError(f"--split is {shares}; give three shares such as 80,10,10")
        if self.ids not in ("exact", "loose"):
            raise ConfigError("--ids is exact or loose")
        if self.label_sentences and self.reports:
            raise ConfigError("--label-sentences makes reports from labels; leave --reports out")
        for name in ("date", ACQUIRED):
            if self.hash_key is not None and name in self.keep:
                raise ConfigError(
                    f"--keep {name}: dates are dropped with --hash-ids; leave {name} out"
                )


@dataclass(frozen=True, slots=True)
class FoundImage:
    """A frontal radiograph, as its set describes it."""

    path: Path  # the file, all links followed
    name: str  # its path relative to the folder, with forward slashes
    study_id: str
    patient_id: str  # "" if the set does not say
    split: str = ""  # "train", "val", "test", ``TRAIN_OR_VAL``, or "" to draw it
    view: str = ""  # "AP", "PA", "frontal" (either), or "" if nothing says
    accession: str = ""  # another number by which a report may name the study
    accession_issuer: str = ""
    issuer: str = ""  # of the patient's id, which begins with it; "" if none is named
    instance: str = ""  # its SOPInstanceUID, or ""
    changed: str = ""  # when its header was last changed, as the header says
    modified_ns: int | None = None  # when its file was; None if its header was not read
    notes: tuple[str, ...] = ()  # what to know about it
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
"""The headers of columns by the names they are read under; see `match_columns`."""
Entry = FoundImage | ReportVersion | LeftOut
Columns = tuple[str, ...]
LabelRow = tuple[str, Mapping[str, str]]  # a study and its labels by finding


@dataclass(frozen=True, slots=True)
class Reading:
    """A set opened for import; it is read while it is iterated over."""

    count: Callable[[], int]  # counts the files or rows to come, for the progress; called once
    images: Callable[[Columns], Iterator[Entry]]  # reads the images with these metadata
    offered: Columns = ()  # the metadata that the set has
    lists_left_out: bool = True  # whether to name the metadata that the user did not ask for
    findings: Columns = ()  # the label columns
    # reads the labels that do not come with the images.
    label_rows: Callable[[], Iterable[LabelRow | LeftOut]] | None = None
    by_image: bool = False  # whether reports or labels name studies by their images
    names: Names = field(default_factory=dict)  # of the table that the user named
    notes: tuple[str, ...] = ()  # what to know about the set
    # notes on metadata that could not be read in full.
    unread: Mapping[str, str] = field(default_factory=dict)
    # open the reports and boxes of the set, if it has any.
    reports: Callable[[], Iterable[Study | ReportVersion | LeftOut]] | None = None
    boxes: Callable[[], Iterable[Box | Absent | LeftOut]] | None = None


def columns_kept(
    keep: Columns, offered: Columns, layout: str, names: Names
) -> tuple[Columns, Columns]:
    """Split a set's metadata into what the user asked for, in the user's order, and the rest."""
    called = {header: name for name, header in names.items()}
    keep = tuple(called.get(name, name) for name in keep if name != "view")  # always there
    offered = tuple(name for name in offered if not is_own_column(name))
    for name in keep:
        if name not in offered:
            has = ", ".join(offered) or "none"
            raise ConfigError(
                f"--keep {name}: the {layout} layout has no such metadata; it has: {has}"
                + f"; if one of them is meant, add --columns {name}=HEADER" * (name in NAMES)
            )
    if {ACQUIRED, DAYS} & {*keep} and DATES in offered:
        keep = (*keep, DATES)  # says whether dates are shifted
    rest = (name for name in offered if name not in (*keep, *ORDERING))
    return tuple(dict.fromkeys(keep)), tuple(rest)


Made = TypeVar("Made")
Row = tuple[str, dict[str, str]]
"""Where a row stands ("train.csv row 17"), and its cells by column, stripped."""


def find_table(folder: Path, *stems: str) -> Path | None:
    """The first table with one of these stems, as ``.csv``, ``.csv.gz`` or ``.parquet``."""
    paths = (folder / (s + end) for s in stems for end in (".csv", ".csv.gz", ".parquet"))
    return next((path for path in paths if path.is_file()), None)


def columns_of(path: Path, names: Names = NO_COLUMNS) -> tuple[str, ...]:
    """The columns of a table; () if it cannot be read."""
    try:
        return TableRows(path, names).columns
    except DataError:
        return ()


def count_rows(path: Path) -> int:
    """About how many rows a table has, at least 1."""
    try:
        return max(TableRows(path).count, 1)
    except DataError:
        return 1  # reading the rows will say why


def read_rows(
    table: Path | TableRows, required: Iterable[str] = (), names: Names = NO_COLUMNS
) -> Iterator[Row | LeftOut]:
    """Give the rows of a table; an unreadable table or a missing column raises a DataError."""
    table = TableRows(table, names) if isinstance(table, Path) else table
    path = table.path
    for name in required:
        if name not in table.columns:
            # The first line is not quoted: without a header it is a patient's row.
            raise DataError(
                f"{path}: column '{name}' is missing from its first line; is it the right file?"
            )
    # For a user's table it is already settled which of two columns is read.
    table.require(*(required if table.names else filter(None, table.columns)))
    for entry in table:
        if isinstance(entry, LeftOut):
            yield LeftOut(f"{path.name} {entry.where}", entry.why)
        else:
            number, cells = entry
            yield f"{path.name} row {number}", {n: text.strip() for n, text in cells.items()}


def read_objects(path: Path) -> list[dict[str, Any]]:
    """The objects in a JSON file's list; other entries are skipped."""
    value = read_json(path, "is it the right file?", "get the file again")
    if not isinstance(value, list):
        raise DataError(f"{path}: holds no list; is it the right file?")
    return [entry for entry in value if isinstance(entry, dict)]


def make_each(
    given: Iterable[tuple[Any, ...] | LeftOut], make: Callable[..., Made | None]
) -> Iterator[Made | LeftOut]:
    """Give what ``make`` returns for each, or why it could not; None is skipped."""
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
    """:func:`make_each` for the rows of a table: ``make`` gets a row's place and its cells."""
    return make_each(read_rows(path, required, names), make)


def first_rows(path: Path, required: Sequence[str]) -> Iterator[Row | LeftOut]:
    """The first row of each image, named by the first required column."""
    seen: set[str] = set()
    for row in read_rows(path, required):
        if isinstance(row, LeftOut):
            yield row
        elif row[1][required[0]] not in seen:
            seen.add(row[1][required[0]])
            yield row


def reject(item: str, reason: str) -> LeftOutError:
    """The error to raise for an image with a wrong row or file."""
    return LeftOutError(LeftOut(item, reason))


def frontal_view(item: str, *texts: str) -> str:
    """The view named by the first text that names one, or ""; other views raise LeftOutError."""
    view = next((view for view in map(read_view, texts) if view), "")
    if view in (LATERAL, OTHER):
        raise LeftOutError(LeftOut(item, what=view))
    return view


def numbers(row: Mapping[str, str], *names: str) -> tuple[float, ...]:
    """Cells as numbers; if one is not a number, all are NaN, which is within no bounds."""
    try:
        return tuple(read_number(row[name]) for name in names)
    except ValueError:
        return (math.nan,) * len(names)


def findings_of(columns: Iterable[str]) -> tuple[str, ...]:
    """The CheXpert columns (of 14) that a table has."""
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
    """Give the labels of a table with one column per finding; ``study_of`` finds a row's study."""

    def labels(item: str, row: dict[str, str]) -> LabelRow:
        study = study_of(item, row) if study_of else row["study_id"]
        return study, label_values(item, row, findings)

    return map_rows(path, () if study_of else ["study_id"], labels, names)


def check_ids(item: str, study_id: str, patient_id: str) -> None:
    """Refuse a missing study id, and ids that are not plain text."""
    if not study_id:
        raise reject(item, "no study id; give every image one")
    for name, value in (("study", study_id), ("patient", patient_id)):
        if not value.isprintable() or len(value) > 200:
            raise reject(item, f"its {name} id is not plain text; fix it")
