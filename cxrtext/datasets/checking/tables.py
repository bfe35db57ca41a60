"""What is wrong with the tables of a data set: manifest, reports, labels, boxes and masks."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cxrtext.datasets.checking.facts import ImageFacts
from cxrtext.datasets.checking.images import ListedImage
from cxrtext.datasets.checking.problems import Problems
from cxrtext.errors import DataError
from cxrtext.records import CHEX5, Box, LeftOut, TableRows, iter_boxes, open_reports
from cxrtext.records.labels import CHEXPERT, VALUES, labelled_studies
from cxrtext.records.manifest import SPLITS, ImageFolder, listed_image
from cxrtext.text import study_sentences

VIEW_COLUMNS = ("view", "ViewPosition", "view_position")


def read_listing(
    manifest: Path, problems: Problems, *, allow_outside: bool = False
) -> list[ListedImage]:
    """The images that a manifest lists; wrong rows are noted."""
    table = TableRows(manifest)
    table.require("image", "study_id")
    images: list[ListedImage] = []
    places, seen = ImageFolder(manifest.parent), dict[str, int]()
    rows = without_patient = 0
    for item in table:
        rows += 1
        if isinstance(item, LeftOut):
            problems.add("row-wrong", f"manifest {item.where}: {item.why}")
            continue
        number, cells = item
        without_patient += not cells.get("patient_id", "").strip()
        name = cells["image"].strip()
        first = seen.setdefault(name, number) if name else number
        if first != number:
            problems.add("row-wrong", f"manifest row {number}: {name} is in row {first} too")
            continue
        record, wrong = listed_image(number, cells, places, allow_outside=allow_outside)
        for one in wrong:
            problems.add("row-wrong", f"manifest {one.where}: {one.why}")
        if record is not None:
            views = (record.metadata.get(column, "") for column in VIEW_COLUMNS)
            view = next(filter(None, (" ".join(text.upper().split()) for text in views)), "")
            ids = record.study_id, record.patient_id, record.split
            images.append(ListedImage(number, name, str(record.path), *ids, view))
    if not rows:
        raise DataError(f"{manifest}: the table has no rows")
    problems.add("no-patients", f"{without_patient} of {rows} rows", without_patient)
    for split in SPLITS if "split" in table.columns else ():
        if all(image.split != split for image in images):
            problems.add("empty-split", split)
    _check_groups(images, problems)
    return images


def _check_groups(images: Sequence[ListedImage], problems: Problems) -> None:
    first: dict[str, ListedImage] = {}
    owner: dict[str, ListedImage] = {}
    split_patients, mixed_studies = set[str](), set[str]()
    for image in images:
        other = first.setdefault(image.patient, image)
        if other.split != image.split and image.patient not in split_patients:
            split_patients.add(image.patient)
            rows = f"rows {other.row} ({other.split}) and {image.row} ({image.split})"
            problems.add("patient-in-two-splits", rows)
        other = owner.setdefault(image.study, image)
        if other.patient != image.patient and image.study not in mixed_studies:
            mixed_studies.add(image.study)
            problems.add("study-of-two-patients", f"rows {other.row} and {image.row}")


def check_reports(
    path: Path,
    studies: Mapping[str, int],
    problems: Problems,
    update: Callable[[int, int], None],
) -> int:
    """Note what is wrong with reports, never quoting them; count the studies with a report."""
    reported: set[str] = set()
    try:
        reports = open_reports(path)
        total = sum(1 for _ in reports)  # dividing texts into sentences takes far longer
        for done, report in enumerate(reports, 1):
            update(done, total)
            if isinstance(report, LeftOut):
                problems.add("row-wrong", f"reports {report.where}: {report.why}")
                continue
            reported.add(report.study_id)
            if not any(True for _ in study_sentences(report)):
                problems.add("report-without-sentence", f"row {report.row}")
    except DataError as error:
        problems.add("table-unreadable", str(error))
        return 0
    if problems.is_joined("reports", reported, studies):
        for study, row in studies.items():
            if study not in reported:
                problems.add("study-without-report", f"row {row} of the manifest")
    return len(reported)


_WITHOUT_CELL = re.compile(r"'.*' (?=is not a label; )")  # a cell may hold report text
_NO_LABELS = {"study_id", "patient_id", "subject_id", "dicom_id", "image", "split", "view", "age"}


def check_labels(path: Path, studies: Mapping[str, int], problems: Problems) -> None:
    try:
        rows = TableRows(path)
        rows.require("study_id")
    except DataError as error:
        problems.add("table-unreadable", str(error))
        return
    findings = _findings(rows)
    if not set(CHEX5) & set(findings):
        problems.add("no-known-finding", path.name)
    counts = {finding: Counter[int | None]() for finding in findings}
    labelled: set[str] = set()
    for row in labelled_studies(rows, findings):
        if isinstance(row, LeftOut):
            problems.add("row-wrong", f"labels {row.where}" + _WITHOUT_CELL.sub("", f": {row.why}"))
            continue
        labelled.add(row.study_id)
        for finding, value in row.values.items():
            counts[finding][value] += 1
    problems.is_joined("labels", labelled, studies)
    for finding, count in counts.items():
        if not (count[1] and count[0]) and (count[1] or count[0] or finding in CHEX5):
            problems.add("label-one-sided", f"{finding}: {count[1]} positive, {count[0]} negative")


def _findings(rows: TableRows) -> list[str]:
    """The label columns: CheXpert's, and others if most of their cells are labels."""
    good, filled = Counter[str](), Counter[str]()
    for item in rows:
        for name, cell in () if isinstance(item, LeftOut) else item[1].items():
            if cell.strip():
                filled[name] += 1
                good[name] += cell.strip() in VALUES
    return [
        name
        for name in rows.columns
        if name in CHEXPERT or (name not in _NO_LABELS and good[name] * 2 > filled[name])
    ]


_TOLERANCE = 1.0


def check_boxes(path: Path, images: Sequence[ListedImage], problems: Problems) -> int:
    """Note what is wrong with boxes, numbered from 1; return how many there are."""
    by_name = {image.name: image for image in images}
    by_stem = {Path(image.name).stem: image for image in images}
    count = 0
    try:
        for number, box in enumerate(iter_boxes(path), 1):
            if isinstance(box, LeftOut):
                problems.add("box-wrong", f"{box.where}: {box.why}")
                continue
            # MS-CXR names an image by its file name alone.
            image = by_name.get(box.image) or by_stem.get(Path(box.image).stem)
            if image is None:
                why = f"its image is not in the manifest: {box.image}"
                problems.add("box-wrong", f"box {number}: {why}")
            if isinstance(box, Box):
                count += 1
                facts = image.read if image else None
                _note(box, f"box {number} ({box.image})", facts, problems)
    except DataError as error:
        problems.add("table-unreadable", str(error))
    return count


def _note(box: Box, where: str, facts: ImageFacts | None, problems: Problems) -> None:
    # Boxes are in pixels as the file stores them.
    actual = (facts.stored_width, facts.stored_height) if facts else None
    declared = (box.width, box.height) if box.width and box.height else None
    if actual and declared and actual != declared:
        problems.add("box-image-resized", where)
    if within := declared or actual:
        x, y, w, h = box.bbox
        low = min(x, y) < -_TOLERANCE
        if low or x + w > within[0] + _TOLERANCE or y + h > within[1] + _TOLERANCE:
            problems.add("box-wrong", f"{where}: it reaches outside of its image")
