"""What is wrong with a table of labels."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cxrtext.datasets.checking.manifest import Rows
from cxrtext.datasets.checking.problems import Problems
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError
from cxrtext.records import CHEX5, LeftOut
from cxrtext.records.labels import CHEXPERT, VALUES, labelled_studies
from cxrtext.records.manifest import SPLITS

_NOT_LABELS = {"study_id", "patient_id", "subject_id", "dicom_id", "image", "split", "view", "age"}


FEWEST = 5
"""Positive studies below which a figure of a split says next to nothing."""


def check_labels(
    path: Path, studies: Mapping[str, int], problems: Problems
) -> tuple[FactTable, Mapping[str, set[str]]] | None:
    """Note what is wrong with labels; return counts and positive studies, if they are readable."""
    try:
        rows = Rows(path, "study_id")
    except DataError as error:
        problems.add("labels-unusable", str(error))
        return None
    findings = _findings(rows)
    if not set(CHEX5) & set(findings):
        problems.add("no-known-finding", path.name)
    counts = {finding: Counter[int | str | None]() for finding in findings}
    positives: dict[str, set[str]] = {finding: set() for finding in findings}
    seen = _count(rows, counts, positives, problems)
    problems.add_unjoined("label", seen, studies)
    for finding, count in counts.items():
        if not (count[1] and count[0]) and (count[1] or count[0] or finding in CHEX5):
            problems.add("label-one-sided", f"{finding}: {count[1]} positive, {count[0]} negative")
    table = [
        (finding, *(str(count[value]) for value in (1, 0, -1, None, "other")))
        for finding, count in counts.items()
    ]
    return FactTable("Labels", ("finding", "1", "0", "−1", "blank", "other"), table), positives


def positives_table(
    positives: Mapping[str, set[str]], split_of: Mapping[str, str], problems: Problems
) -> FactTable:
    """How many positive studies of each finding each split has; notes where they are few."""
    splits = [split for split in SPLITS if split in split_of.values()]
    table = []
    for finding, studies in sorted(positives.items()):
        count = Counter(split_of[study] for study in studies if study in split_of)
        few = [f"{count[split]} in {split}" for split in splits if count[split] < FEWEST]
        if count and few:
            problems.add("few-positives", f"{finding}: {', '.join(few)}")
        table.append((finding, *(str(count[split]) for split in splits)))
    return FactTable("Positive studies by split", ("finding", *splits), table)


def _findings(rows: Rows) -> list[str]:
    """The columns of labels: those of CheXpert, and others whose cells mostly are labels."""
    good: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    for item in rows:
        if isinstance(item, LeftOut):
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
    rows: Rows,
    counts: dict[str, Counter[int | str | None]],
    positives: dict[str, set[str]],
    problems: Problems,
) -> dict[str, int]:
    """Count labels; return the first row of each study."""
    seen: dict[str, int] = {}
    for row in labelled_studies(rows, list(counts)):
        if isinstance(row, LeftOut):
            told = f"{row.where}: {row.why}" if row.what == "label-row" else row.where
            problems.add(row.what, told)
            continue
        for finding, count in counts.items():
            value = row.values.get(finding, "other")
            count[value] += 1
            if value == 1:
                positives[finding].add(row.study_id)
        seen.setdefault(row.study_id, row.row)
    return seen
