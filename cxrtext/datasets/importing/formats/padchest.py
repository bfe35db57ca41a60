"""PadChest: its table of images, labels and Spanish reports, and 16-bit PNG files.

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
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.folder import existing, files_by_name
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
    map_rows,
    read_rows,
    reject,
    sex,
)
from cxrtext.records import LeftOut, Study

KEEP = ("age", "sex", "date", "labels_by", "pediatric")
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
    """The column of a name of the set."""
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
    kind = text.upper()
    if kind in _LEFT_OUT:
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
