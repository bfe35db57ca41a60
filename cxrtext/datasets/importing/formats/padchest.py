"""PadChest, and PadChest-GR, which grounds the reports of some of its images.

PadChest: its table of images, labels and Spanish reports, and 16-bit PNG files.

``PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv`` (also ``.csv.gz``; another date at its end
is taken too) with a row an image: ImageID, ImageDir, StudyID, PatientID, PatientBirth,
PatientSex_DICOM, StudyDate_DICOM, Projection, Report, MethodLabel, Labels and others.  Labels is a
list in Python's spelling ("['cardiomegaly', 'unchanged']"); a name that is not in it is taken for
absent.  Projection is PA, AP, AP_horizontal (lying), L, COSTAL (ribs), EXCLUDE or UNK.  Reports
are Spanish, in small letters and cut to word stems.  Images lie in numbered folders (``0/`` …);
they are found by their names, in any folders.  Verified on the table that torchxrayvision 1.5.7
carries: 160,861 images, 110,641 of them frontal, 190 columns of labels here.

There is no official split.  Test sets in papers are the images whose labels physicians set:
``labels_by`` (MethodLabel) says "Physician" or "RNN_model".

PadChest-GR: grounded reports of 4,555 images of PadChest.

``grounded_reports_20240819.json`` (another date is taken too): a list of studies with StudyID,
ImageID and findings; of each finding sentence_en, sentence_es, abnormal, and where it is abnormal
boxes and extra_boxes (left, top, right, bottom as shares of the image's width and height), labels,
locations, progression.  ``master_table.csv``: a row a study and label, with StudyID, PatientID, the
official split (train, validation, test), PatientSex_DICOM, PatientAge, Year.  16-bit PNG files in
``Padchest_GR_files`` (parts of one ZIP, to be joined and unpacked); they are found by their names,
in any folders.  All of this is verified by programs of several projects that read the release.

Taken from it: sentences in English as reports; ``boxes`` with their sentences, not ``extra_boxes``,
which a second reader drew.  A sentence that says that something is not there is a phrase without a
box; one of a finding that was not drawn (abnormal, without boxes) is neither.  Images are frontal,
as the set's paper says; nothing says AP or PA.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.folder import existing, files_by_name, inside
from cxrtext.datasets.importing.joining import image_size
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    LabelRow,
    LeftOutError,
    Reading,
    check_ids,
    columns_of,
    count_rows,
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
"""What stands among the labels and is no finding."""
COLUMNS = {
    NORMAL: "No Finding",
    "atelectasis": "Atelectasis",
    "cardiomegaly": "Cardiomegaly",
    "consolidation": "Consolidation",
    "emphysema": "Emphysema",
    "fracture": "Fracture",
    "nodule": "Nodule",
    "pleural effusion": "Pleural Effusion",
    "pleural thickening": "Pleural Thickening",
    "pneumonia": "Pneumonia",
    "pneumothorax": "Pneumothorax",
    "pulmonary edema": "Edema",
}
"""Names that CheXpert or ChestX-ray14 have too, in their spelling; others stay as they are."""

_VIEWS = {"PA": "PA", "AP": "AP", "AP_HORIZONTAL": "AP", "UNK": "", "": ""}
_LEFT_OUT = {"L": LATERAL, "COSTAL": "view of the ribs", "EXCLUDE": "excluded by its set"}
_NEEDED = ("ImageID", "StudyID", "PatientID", "Projection", "Labels")


def column_of(name: str) -> str:
    return COLUMNS.get(name, name)


def names_in(item: str, text: str) -> tuple[str, ...] | None:
    """The names of a cell of Labels; None where it is blank."""
    if text.lower() in ("", "nan"):
        return None
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise reject(item, "Labels is no list of names; fix the cell")
    return tuple(" ".join(name.lower().split()) for name in names)


def labels_of(names: Iterable[str], findings: Columns) -> dict[str, str]:
    """The labels of a study by column; of every name that its study lacks the set says 0."""
    present = set(map(column_of, names))
    return {name: "1" if name in present else "0" for name in findings}


def findings_of_names(names: Iterable[str]) -> Columns:
    """The columns of the names of a set, in the order of the alphabet, No Finding first."""
    columns = {column_of(name) for name in names if name not in NO_FINDINGS}
    return ("No Finding", *sorted(columns, key=str.lower))


def _view(item: str, text: str) -> str:
    if (kind := text.upper()) in _LEFT_OUT:
        raise LeftOutError(LeftOut(item, what=_LEFT_OUT[kind]))
    if kind not in _VIEWS:
        raise reject(item, "Projection is none of the set's; fix the cell")
    return _VIEWS[kind]


def _year(text: str) -> str:
    return text[:4] if text[:4].isdigit() else ""


def _metadata(row: dict[str, str], columns: Columns) -> dict[str, str]:
    year, born = _year(row.get("StudyDate_DICOM", "")), _year(row.get("PatientBirth", ""))
    age = int(year) - int(born) if year and born else -1
    known = {
        "age": str(age) if age >= 0 else "",
        "sex": sex(row.get("PatientSex_DICOM", "")),
        "date": year,
        **dict.fromkeys(("acquired", DAYS), moment(row.get("StudyDate_DICOM", ""))),
        "labels_by": row.get("MethodLabel", ""),
        "pediatric": row.get("Pediatric", ""),
    }
    return {name: known[name] for name in columns}


def _reports(table: Path) -> Iterator[Study | LeftOut]:
    """The report of each study, which every image of it repeats."""
    seen: set[str] = set()
    for number, row in enumerate(read_rows(table, ["StudyID", "Report"]), 1):
        if isinstance(row, LeftOut):
            continue  # said of the image
        study, report = row[1]["StudyID"], row[1]["Report"]
        if study and report and study not in seen:
            seen.add(study)
            yield Study(study, report=report, row=number)


def open_padchest(root: Path, out: Path) -> Reading | None:
    """Open PadChest; None where the folder does not hold its table."""
    tables = sorted(root.glob("PADCHEST_chest_x_ray_images_labels_*.csv*"))
    table = next((path for path in tables if set(_NEEDED) <= set(columns_of(path))), None)
    if table is None:
        return None

    def images(columns: Columns) -> Iterator[Entry]:
        places = files_by_name(root, out)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            image, study, patient = row["ImageID"], row["StudyID"], row["PatientID"]
            check_ids(item, study, patient)
            view = _view(item, row["Projection"])
            name, path = existing(root, item, places.get(image, ""))
            said = _metadata(row, columns)
            return FoundImage(path, name, study, patient, view=view, box_key=image, metadata=said)

        yield from map_rows(table, _NEEDED, make)

    @cache
    def findings() -> Columns:
        rows = map_rows(table, ["Labels"], lambda item, row: names_in(item, row["Labels"]))
        cells = (names for names in rows if isinstance(names, tuple))
        return findings_of_names({name for names in cells for name in names})

    def labels() -> Iterator[LabelRow | LeftOut]:
        def take(item: str, row: dict[str, str]) -> LabelRow | None:
            names = names_in(item, row["Labels"])
            return None if names is None else (row["StudyID"], labels_of(names, findings()))

        return map_rows(table, ["StudyID", "Labels"], take)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=KEEP,
        findings=findings(),
        label_rows=labels,
        reports=partial(_reports, table),
    )


# --- PadChest-GR

SPLITS = {"train": "train", "validation": "val", "test": "test"}
KEEP_GR = ("age", "sex", "date")
NO_FINDING = "No Finding"
_MASTER = ("StudyID", "PatientID", "split")


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _findings(entry: dict[str, Any]) -> list[dict[str, Any]]:
    found = entry.get("findings")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _names(finding: dict[str, Any]) -> list[str]:
    """The names of a finding that is there, as the set has them, in small letters."""
    names = finding.get("labels")
    if not finding.get("abnormal") or not isinstance(names, list):
        return []
    return [" ".join(name.lower().split()) for name in names if isinstance(name, str)]


def _studies(master: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in read_rows(master, _MASTER):
        if isinstance(row, tuple):
            found.setdefault(row[1]["StudyID"], row[1])
    return found


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
    root: Path, places: dict[str, str], item: str, entry: dict[str, Any]
) -> Iterator[Box | Absent | LeftOut]:
    """The sentences of a study: with each of their boxes, or as a phrase that has none."""
    image = _text(entry, "ImageID")
    path = inside(root, places.get(image, ""))
    width, height = image_size(path) if path is not None and path.is_file() else (1, 1)
    for finding in _findings(entry):
        sentence, drawn = _text(finding, "sentence_en"), finding.get("boxes") or []
        names = _names(finding)
        if not sentence:
            continue
        if not finding.get("abnormal"):
            yield Absent(image, width, height, NO_FINDING, sentence)
            continue
        for box in drawn if isinstance(drawn, list) else []:
            try:
                x, y, w, h = _corners(item, box)
            except LeftOutError as error:
                yield error.entry
                continue
            place = (x * width, y * height, w * width, h * height)
            yield Box(image, width, height, column_of(names[0]) if names else "", sentence, place)


def open_padchest_gr(root: Path, out: Path) -> Reading | None:
    """Open PadChest-GR; None where the folder does not hold its grounded reports."""
    if (grounded := next(iter(sorted(root.glob("grounded_reports*.json"))), None)) is None:
        return None
    if (master := find_table(root, "master_table")) is None:
        raise DataError(
            f"{root}: master_table.csv is missing, which has the patients and the official split; "
            "unpack it beside grounded_reports"
        )

    @cache
    def listed() -> list[tuple[str, dict[str, Any]]]:
        entries = enumerate(read_objects(grounded), 1)
        return [(f"{grounded.name} row {number}", entry) for number, entry in entries]

    @cache
    def findings() -> Columns:
        return findings_of_names(
            {name for _, entry in listed() for one in _findings(entry) for name in _names(one)}
        )

    def images(columns: Columns) -> Iterator[Entry]:
        places, studies = files_by_name(root, out), _studies(master)

        def make(item: str, entry: dict[str, Any]) -> FoundImage:
            study, image = _text(entry, "StudyID"), _text(entry, "ImageID")
            row = studies.get(study)
            if row is None or row["split"] not in SPLITS:
                raise reject(item, "its study has no split in master_table; get that table again")
            check_ids(item, study, row["PatientID"])
            name, path = existing(root, item, places.get(image, ""))
            known = {
                "age": years(row.get("PatientAge", "")),
                "sex": sex(row.get("PatientSex_DICOM", "")),
                "date": row.get("Year", "")[:4],
            }
            split = SPLITS[row["split"]]
            said = {column: known[column] for column in columns}
            return FoundImage(
                path, name, study, row["PatientID"], split, "frontal", box_key=image, metadata=said
            )

        yield from make_each(listed(), make)

    def labels() -> Iterator[LabelRow]:
        for _, entry in listed():
            found = _findings(entry)
            names = [name for one in found for name in _names(one)]
            normal = not any(one.get("abnormal") for one in found)
            labels = labels_of(names, findings()[1:])
            yield _text(entry, "StudyID"), {NO_FINDING: "1" if normal else "0", **labels}

    def reports() -> Iterator[Study]:
        for number, (_, entry) in enumerate(listed(), 1):
            text = " ".join(filter(None, (_text(one, "sentence_en") for one in _findings(entry))))
            if text:
                yield Study(_text(entry, "StudyID"), sections={"findings": text}, row=number)

    def boxes() -> Iterator[Box | Absent | LeftOut]:
        places = files_by_name(root, out)
        for item, entry in listed():
            yield from _boxes(root, places, item, entry)

    return Reading(
        count=lambda: len(listed()),
        images=images,
        offered=KEEP_GR,
        findings=findings(),
        label_rows=labels,
        reports=reports,
        boxes=boxes,
    )
