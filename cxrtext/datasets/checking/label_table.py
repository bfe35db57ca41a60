"""What is wrong with a table of labels."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cxrtext.datasets.checking.problems import Kind, Problems, Severity
from cxrtext.datasets.checking.report import FactTable
from cxrtext.datasets.checking.rows import BadRow, Rows
from cxrtext.errors import DataError
from cxrtext.records import CHEX5
from cxrtext.records.labels import VALUES

UNUSABLE = Kind(
    "labels-unusable",
    Severity.ERROR,
    "tables of labels that cannot be read",
    "do what the reason says",
)
BAD = Kind(
    "label-row",
    Severity.ERROR,
    "rows of the labels that cannot be read",
    "mend the rows: quote cells that hold a comma or a line break, and save as UTF-8",
)
NO_FINDING = Kind(
    "no-known-finding",
    Severity.ERROR,
    "tables of labels without any of the five findings that are evaluated",
    f"name the columns {', '.join(CHEX5)}",
)
UNKNOWN = Kind(
    "label-value",
    Severity.ERROR,
    "labels that are not 1, 0, -1 or blank",
    "use 1 present, 0 absent, -1 uncertain, or leave the cell blank",
)
CONTRADICT = Kind(
    "labels-contradict",
    Severity.ERROR,
    "studies with two different rows of labels",
    "keep one row for each study; such a table stops training and evaluation",
)
TWICE = Kind(
    "labels-twice",
    Severity.NOTE,
    "studies with the same row of labels twice",
    "keep one row for each study",
)
ONE_SIDED = Kind(
    "label-one-sided",
    Severity.WARNING,
    "findings without a positive or without a negative study",
    "no figure can be computed for them; blank is not 0: fill in 0 where the finding is absent",
)
NO_STUDY = Kind(
    "label-without-study",
    Severity.NOTE,
    "rows of labels of studies without an image",
    "normal for a table of all labels; otherwise see that both spell study_id alike",
)
WITHOUT = Kind(
    "study-without-label",
    Severity.NOTE,
    "studies without a row of labels",
    "normal outside the test split; otherwise see that both spell study_id alike",
)
NONE_JOINED = Kind(
    "no-label-joined",
    Severity.ERROR,
    "tables of labels in which no row belongs to an image",
    "see that study_id is spelt alike in the manifest and the labels",
)

CHEXPERT = frozenset(
    {
        *CHEX5,
        "Atelectasis",
        "Consolidation",
        "Enlarged Cardiomediastinum",
        "Fracture",
        "Lung Lesion",
        "Lung Opacity",
        "No Finding",
        "Pleural Other",
        "Support Devices",
    }
)
"""The fourteen labels of CheXpert and MIMIC-CXR."""

_NOT_LABELS = {"study_id", "patient_id", "subject_id", "dicom_id", "image", "split", "view", "age"}


def check_labels(path: Path, studies: Mapping[str, int], problems: Problems) -> FactTable | None:
    """Read labels and note what is wrong with them.

    Args:
        path: A table with ``study_id`` and a column a finding.
        studies: The studies of the images, and the first row of each.
        problems: What is wrong is added.

    Returns:
        Counts by finding, or None where the table cannot be read.
    """
    try:
        rows = Rows(path)
        rows.require("study_id")
    except DataError as error:
        problems.add(UNUSABLE, str(error))
        return None
    findings = _findings(rows)
    if not set(CHEX5) & set(findings):
        problems.add(NO_FINDING, path.name)
    counts = {finding: Counter[int | str | None]() for finding in findings}
    seen = _count(rows, counts, problems)
    _join(seen, studies, problems)
    for finding, count in counts.items():
        if not (count[1] and count[0]) and (count[1] or count[0] or finding in CHEX5):
            problems.add(ONE_SIDED, f"{finding}: {count[1]} positive, {count[0]} negative")
    table = [
        (finding, *(str(count[value]) for value in (1, 0, -1, None, "other")))
        for finding, count in counts.items()
    ]
    return FactTable("Labels", ("finding", "1", "0", "−1", "blank", "other"), table)


def _findings(rows: Rows) -> list[str]:
    """The columns of labels: those of CheXpert, and others whose cells mostly are labels."""
    good: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    for item in rows:
        if isinstance(item, BadRow):
            continue
        for name, cell in item[1].items():
            if cell.strip():
                filled[name] += 1
                good[name] += cell.strip() in VALUES
    return [
        name
        for name in rows.columns
        if name in CHEXPERT or (name not in _NOT_LABELS and good[name] * 2 > filled[name])
    ]


def _count(
    rows: Rows, counts: dict[str, Counter[int | str | None]], problems: Problems
) -> dict[str, tuple[int, int]]:
    """Count labels; return the row and a digest of the labels of each study."""
    seen: dict[str, tuple[int, int]] = {}
    for item in rows:
        if isinstance(item, BadRow):
            problems.add(BAD, f"row {item.row}: {item.reason}")
            continue
        number, cells = item
        study = cells["study_id"].strip()
        if not study:
            problems.add(BAD, f"row {number} has an empty study_id")
        values: list[int | str | None] = []
        for finding, count in counts.items():
            value = VALUES.get(cells[finding].strip(), "other")
            count[value] += 1
            values.append(value)
            if value == "other":
                problems.add(UNKNOWN, f"row {number}, column {finding}")
        digest = hash(tuple(values))
        first, before = seen.setdefault(study, (number, digest))
        if first != number:
            problems.add(TWICE if before == digest else CONTRADICT, f"rows {first} and {number}")
    return seen


def _join(seen: dict[str, tuple[int, int]], studies: Mapping[str, int], problems: Problems) -> None:
    if seen and studies and studies.keys().isdisjoint(seen):
        problems.add(NONE_JOINED, f"{len(seen)} rows, {len(studies)} studies")
        return
    for study, row in studies.items():
        if study not in seen:
            problems.add(WITHOUT, f"row {row} of the manifest")
    for study, (number, _) in seen.items():
        if study and study not in studies:
            problems.add(NO_STUDY, f"row {number}")
