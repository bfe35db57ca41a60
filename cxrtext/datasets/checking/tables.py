"""What is wrong with a table of labels, and with boxes and masks."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from cxrtext.datasets.checking.manifest import ListedImage
from cxrtext.datasets.checking.problems import Problems, printable
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError
from cxrtext.records import CHEX5, Absent, LeftOut, TableRows
from cxrtext.records.boxes import RawBox, checked_box, raw_boxes
from cxrtext.records.labels import CHEXPERT, VALUES, labelled_studies
from cxrtext.records.manifest import SPLITS

_WITHOUT_CELL = re.compile(r"'.*' (?=is none; )")  # a cell may hold report text
_NOT_LABELS = {"study_id", "patient_id", "subject_id", "dicom_id", "image", "split", "view", "age"}
FEWEST = 5  # positive studies below which a figure of a split says next to nothing


def check_labels(
    path: Path, studies: Mapping[str, int], problems: Problems
) -> tuple[FactTable, Mapping[str, set[str]]] | None:
    """Note what is wrong with labels; return counts and positive studies, if they are readable."""
    try:
        rows = TableRows(path)
        rows.require("study_id")
    except DataError as error:
        problems.add("table-unreadable", str(error))
        return None
    findings = _findings(rows)
    if not set(CHEX5) & set(findings):
        problems.add("no-known-finding", path.name)
    counts = {finding: Counter[int | str | None]() for finding in findings}
    positives: dict[str, set[str]] = {finding: set() for finding in findings}
    problems.is_joined("labels", _count(rows, counts, positives, problems), studies)
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


def _findings(rows: TableRows) -> list[str]:
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
    rows: TableRows,
    counts: dict[str, Counter[int | str | None]],
    positives: dict[str, set[str]],
    problems: Problems,
) -> dict[str, int]:
    seen: dict[str, int] = {}
    for row in labelled_studies(rows, list(counts)):
        if isinstance(row, LeftOut):
            problems.add("row-wrong", f"labels {row.where}" + _WITHOUT_CELL.sub("", f": {row.why}"))
            continue
        for finding, count in counts.items():
            value = row.values.get(finding, "other")
            count[value] += 1
            if value == 1:
                positives[finding].add(row.study_id)
        seen.setdefault(row.study_id, row.row)
    return seen


_TOLERANCE = 1.0
_MAX_FINDINGS = 40


def check_boxes(
    path: Path, images: Sequence[ListedImage], problems: Problems
) -> tuple[FactTable, dict[str, int]] | None:
    """Note what is wrong with boxes; return them by finding, and counts, unless unreadable."""
    by_name = {image.name: image for image in images}
    by_stem = {Path(image.name).stem: image for image in images}
    findings: Counter[str] = Counter()
    phrases: set[int] = set()
    boxed: set[str] = set()
    total = absent = masks = 0
    try:
        for box in raw_boxes(path, need_text=False):
            no_box = not isinstance(box, LeftOut) and box.absent and not box.segmentation
            total, absent = total + (not no_box), absent + no_box
            if isinstance(box, LeftOut):
                problems.add("box-wrong", f"{box.where}: {box.why}")
                continue
            findings[printable((box.finding or "").strip())[:40] or "(none)"] += 1
            if box.label_text.strip():
                phrases.add(hash(" ".join(box.label_text.lower().split())))
            else:
                problems.add("box-without-phrase", box.where)
            masks += bool(box.segmentation)
            named = (box.image or "").strip()
            # MS-CXR names an image by its file's name alone.
            image = (by_name.get(named) or by_stem.get(Path(named).stem)) if named else None
            _note(box, image, problems)
            if image is not None and not no_box:
                boxed.add(image.name)
    except DataError as error:
        problems.add("table-unreadable", str(error))
        return None
    rows = [(name, str(count)) for name, count in findings.most_common(_MAX_FINDINGS)]
    counts = {"boxes": total, "images with boxes": len(boxed), "different phrases": len(phrases)}
    more = {"masks": masks, "phrases without a box": absent}
    counts |= {name: count for name, count in more.items() if count}
    return FactTable("Boxes", ("finding", "boxes"), rows), counts


def _note(box: RawBox, image: ListedImage | None, problems: Problems) -> None:
    where = f"{box.where} ({image.name})" if image else box.where
    found = checked_box(box)
    if image is None:
        named = (box.image or "").strip() or "names none"
        problems.add("box-wrong", f"{where}: its image is not in the manifest: {named}")
    elif isinstance(found, LeftOut):
        problems.add("box-wrong", f"{where}: {found.why}")
    if isinstance(found, LeftOut):
        return
    if box.absent or isinstance(found, Absent):
        return
    facts = image and image.read
    # Boxes are drawn on the pixels as the file stores them.
    actual = (facts.stored_width, facts.stored_height) if facts else None
    declared = (found.width, found.height) if found.width and found.height else None
    if actual and declared and actual != declared:
        problems.add("box-image-resized", where)
    if within := declared or actual:
        x, y, w, h = found.bbox
        low = min(x, y) < -_TOLERANCE
        if low or x + w > within[0] + _TOLERANCE or y + h > within[1] + _TOLERANCE:
            problems.add("box-wrong", f"{where}: it reaches outside of its image")
