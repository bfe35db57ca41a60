"""PadChest, and PadChest-GR, which grounds the reports of some of its images.

PadChest: ``PADCHEST_chest_x_ray_images_labels_….csv`` with one row per image, and 16-bit PNG files
in any folders.  Labels is a Python list ("['cardiomegaly', 'unchanged']"); names not in it count as
absent.  Projection is PA, AP, AP_horizontal (lying), L, COSTAL (ribs), EXCLUDE or UNK.  Reports are
Spanish, in small letters and cut to word stems.  There is no official split; papers test on the
images labelled by physicians: ``labels_by`` (MethodLabel) says "Physician" or "RNN_model".

PadChest-GR: ``grounded_reports_….json``, a list of studies with StudyID, ImageID and findings.
Each finding has sentence_en, abnormal and, if abnormal, boxes (left, top, right, bottom as shares
of the image's width and height) and labels.  ``master_table.csv`` has StudyID, PatientID, the
official split, PatientSex_DICOM, PatientAge, Year.  Reports are the English sentences; a second
reader's ``extra_boxes`` are not used.  A sentence about something absent is a phrase without a box;
an abnormal finding without boxes gives no phrase.  All images are frontal.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.folder import Files, inside
from cxrtext.datasets.importing.formats.listed import find_image, read_list
from cxrtext.datasets.importing.joining import image_size
from cxrtext.datasets.importing.reading import (
    Columns,
    FoundImage,
    LabelRow,
    LeftOutError,
    Reading,
    columns_of,
    find_table,
    make_each,
    map_rows,
    read_objects,
    read_rows,
    reject,
)
from cxrtext.errors import DataError
from cxrtext.records import Absent, Box, LeftOut, Study
from cxrtext.records.cells import moment, sex, years
from cxrtext.records.manifest import DAYS

KEEP = ("age", "sex", "date", "acquired", DAYS, "labels_by", "pediatric")
NORMAL = "normal"
NO_FINDINGS = ("", NORMAL, "unchanged", "exclude", "suboptimal study")
"""Names among the labels that are not findings."""
NO_FINDING = "No Finding"
_SHARED = "atelectasis cardiomegaly consolidation emphysema fracture nodule pneumonia pneumothorax"
COLUMNS = {
    NORMAL: NO_FINDING,
    **{name: name.capitalize() for name in _SHARED.split()},
    "pleural effusion": "Pleural Effusion",
    "pleural thickening": "Pleural Thickening",
    "pulmonary edema": "Edema",
}
"""CheXpert's or ChestX-ray14's spelling of shared names; other names stay as they are."""

_VIEWS = {"PA": "PA", "AP": "AP", "AP_HORIZONTAL": "AP", "UNK": "", "": ""}
_LEFT_OUT = {"L": LATERAL, "COSTAL": "view of the ribs", "EXCLUDE": "excluded by its set"}
_NEEDED = ("ImageID", "StudyID", "PatientID", "Projection", "Labels")


def names_in(item: str, text: str) -> tuple[str, ...] | None:
    """The names in a cell of Labels; None if it is blank."""
    if text.lower() in ("", "nan"):
        return None
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise reject(item, "Labels is not a list of names; fix the cell")
    return tuple(" ".join(name.lower().split()) for name in names)


def _labels_of(names: Iterable[str], findings: Columns) -> dict[str, str]:
    """The labels of a study by column: 1 for its names, 0 for all others."""
    present = {COLUMNS.get(name, name) for name in names}
    return {name: "1" if name in present else "0" for name in findings}


def _findings_of(names: Iterable[str]) -> Columns:
    """The columns for a set's names: No Finding, then the others in alphabetical order."""
    columns = {COLUMNS.get(name, name) for name in names if name not in NO_FINDINGS}
    return (NO_FINDING, *sorted(columns, key=str.lower))


def _view(item: str, text: str) -> str:
    if (kind := text.upper()) in _LEFT_OUT:
        raise LeftOutError(LeftOut(item, what=_LEFT_OUT[kind]))
    if kind not in _VIEWS:
        raise reject(item, "Projection is not one of the set's; fix the cell")
    return _VIEWS[kind]


def _known(row: dict[str, str]) -> dict[str, str]:
    day, birth = row.get("StudyDate_DICOM", ""), row.get("PatientBirth", "")
    year, born = (text[:4] if text[:4].isdigit() else "" for text in (day, birth))
    age = int(year) - int(born) if year and born else -1
    return {
        "age": str(age) if age >= 0 else "",
        "sex": sex(row.get("PatientSex_DICOM", "")),
        "date": year,
        **dict.fromkeys(("acquired", DAYS), moment(day)),
        "labels_by": row.get("MethodLabel", ""),
        "pediatric": row.get("Pediatric", ""),
    }


def _reports(table: Path) -> Iterator[Study | LeftOut]:
    """The report of each study, taken from the first of its images."""
    seen: set[str] = set()
    for number, row in enumerate(read_rows(table, ["StudyID", "Report"]), 1):
        if isinstance(row, LeftOut):
            continue  # reported for the image
        study, report = row[1]["StudyID"], row[1]["Report"]
        if study and report and study not in seen:
            seen.add(study)
            yield Study(study, report=report, row=number)


def open_padchest(root: Path, out: Path) -> Reading | None:
    tables = sorted(root.glob("PADCHEST_chest_x_ray_images_labels_*.csv*"))
    table = next((path for path in tables if set(_NEEDED) <= set(columns_of(path))), None)
    if table is None:
        return None
    places = Files(root, out)

    def make(columns: Columns, item: str, row: dict[str, str]) -> FoundImage:
        image, ids = row["ImageID"], (row["StudyID"], row["PatientID"])
        more = {"view": _view(item, row["Projection"]), "box_key": image}
        return find_image(root, item, [places[image]], ids, columns, _known(row), **more)

    rows = map_rows(table, ["Labels"], lambda item, row: names_in(item, row["Labels"]))
    findings = _findings_of({name for row in rows if isinstance(row, tuple) for name in row})

    def labels(item: str, row: dict[str, str]) -> LabelRow | None:
        names = names_in(item, row["Labels"])
        return None if names is None else (row["StudyID"], _labels_of(names, findings))

    return read_list(
        table, _NEEDED, make,
        offered=KEEP,
        findings=findings,
        label_rows=partial(map_rows, table, ["StudyID", "Labels"], labels),
        reports=partial(_reports, table),
    )  # fmt: skip


# --- PadChest-GR

SPLITS = {"train": "train", "validation": "val", "test": "test"}


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
    findings = entry.get("findings")
    return [one for one in findings if isinstance(one, dict)] if isinstance(findings, list) else []


def _names(finding: dict[str, Any]) -> list[str]:
    """The set's names for a finding that is present, in small letters."""
    names = finding.get("labels")
    if not finding.get("abnormal") or not isinstance(names, list):
        return []
    return [" ".join(name.lower().split()) for name in names if isinstance(name, str)]


def _corners(item: str, box: Any) -> tuple[float, float, float, float]:
    """Left, top, width and height of a box, as shares of the image."""
    good = isinstance(box, list) and len(box) == 4
    if not good or not all(isinstance(place, int | float) for place in box):
        raise reject(item, "a box is not left, top, right, bottom; get the file again")
    left, top, right, bottom = (min(max(float(place), 0.0), 1.0) for place in box)
    if left >= right or top >= bottom:
        raise reject(item, "a box has no width or height within its image; fix it")
    return left, top, right - left, bottom - top


def _boxes(
    root: Path, places: Files, item: str, entry: dict[str, Any]
) -> Iterator[Box | Absent | LeftOut]:
    """A study's sentences: one `Box` for each box, `Absent` for those about something absent."""
    image = _text(entry, "ImageID")
    path = inside(root, places[image])
    width, height = image_size(path) if path is not None and path.is_file() else (1, 1)
    for finding in _entries(entry):
        sentence, drawn = _text(finding, "sentence_en"), finding.get("boxes") or []
        if sentence and not finding.get("abnormal"):
            yield Absent(image, width, height, NO_FINDING, sentence)
        elif sentence and isinstance(drawn, list):
            name = next((COLUMNS.get(one, one) for one in _names(finding)), "")
            corners = make_each(((item, box) for box in drawn), _corners)
            for one in corners:
                if isinstance(one, LeftOut):
                    yield one
                    continue
                x, y, w, h = one
                place = (x * width, y * height, w * width, h * height)
                yield Box(image, width, height, name, sentence, place)


def open_padchest_gr(root: Path, out: Path) -> Reading | None:
    if (grounded := next(iter(sorted(root.glob("grounded_reports*.json"))), None)) is None:
        return None
    if (master := find_table(root, "master_table")) is None:
        raise DataError(
            f"{root}: master_table.csv is missing, which has the patients and the official split; "
            "unpack it beside grounded_reports"
        )
    entries = enumerate(read_objects(grounded), 1)
    listed = [(f"{grounded.name} row {number}", entry) for number, entry in entries]
    findings = _findings_of(n for _, entry in listed for f in _entries(entry) for n in _names(f))
    places = Files(root, out)

    @cache
    def studies() -> dict[str, dict[str, str]]:
        rows = [row[1] for row in read_rows(master, ("StudyID", "PatientID", "split"))
                if isinstance(row, tuple)]  # fmt: skip
        return {row["StudyID"]: row for row in reversed(rows)}  # the first row of each study

    def make(columns: Columns, item: str, entry: dict[str, Any]) -> FoundImage:
        study, image = _text(entry, "StudyID"), _text(entry, "ImageID")
        row = studies().get(study)
        if row is None or row["split"] not in SPLITS:
            raise reject(item, "its study has no split in master_table; get that table again")
        known = {
            "age": years(row.get("PatientAge", "")),
            "sex": sex(row.get("PatientSex_DICOM", "")),
            "date": row.get("Year", "")[:4],
        }
        ids, split = (study, row["PatientID"]), SPLITS[row["split"]]
        more = {"view": "frontal", "split": split, "box_key": image}
        return find_image(root, item, [places[image]], ids, columns, known, **more)

    def labels() -> Iterator[LabelRow]:
        for _, entry in listed:
            own_findings = _entries(entry)
            names = [name for one in own_findings for name in _names(one)]
            normal = not any(one.get("abnormal") for one in own_findings)
            values = _labels_of(names, findings[1:])
            yield _text(entry, "StudyID"), {NO_FINDING: "1" if normal else "0", **values}

    def reports() -> Iterator[Study]:
        for number, (_, entry) in enumerate(listed, 1):
            text = " ".join(filter(None, (_text(one, "sentence_en") for one in _entries(entry))))
            if text:
                yield Study(_text(entry, "StudyID"), sections={"findings": text}, row=number)

    def boxes() -> Iterator[Box | Absent | LeftOut]:
        for item, entry in listed:
            yield from _boxes(root, places, item, entry)

    return Reading(
        count=lambda: len(listed),
        images=lambda columns: make_each(listed, partial(make, columns)),
        offered=("age", "sex", "date"),
        findings=findings,
        label_rows=labels,
        reports=reports,
        boxes=boxes,
    )
