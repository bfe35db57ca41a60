"""Public sets of pictures listed in a table: MIMIC-CXR, CheXpert and Open-i.

MIMIC-CXR and MIMIC-CXR-JPG: their tables, the files under ``files/``, and MS-CXR's boxes.

CheXpert: ``train.csv``, ``valid.csv``, ``test.csv`` and the images that they list.

With ``chexpert_5x200.csv``, GLoRIA's list (CheXpert's columns and "Report Impression"), its images
are the test split: 200 for each of five findings, drawn from the frontal images of ``train.csv``
with exactly one finding.  Other images of its patients, and the images of ``test.csv``, are left
out, so the test split is the list and nothing else.

Open-i (Indiana University): reports, projections and images as laid out by Kaggle.

Labels are MeSH terms coded by people, a column of the reports; a study whose only term says that
nothing was coded has none.  A ``labels_mesh.csv`` (study_id, one column per finding) in the folder
replaces them.  The set has no split; studies get the split that the recipe ``openi`` measures.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.folder import Files, existing
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
    findings_of,
    frontal_view,
    label_rows,
    label_values,
    map_rows,
    read_rows,
    reject,
)
from cxrtext.datasets.importing.reports.sources import open_table
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Study, iter_boxes, open_reports
from cxrtext.records.cells import moment, sex, years
from cxrtext.records.manifest import ACQUIRED, DATES, DAYS


def find_image(
    root: Path, item: str, names: Iterable[str], ids: tuple[str, str], columns: Columns = (),
    known: Mapping[str, str] | None = None, *, views: Iterable[str] = (), **more: Any,
) -> FoundImage:  # fmt: skip
    """The image of a row; its file is the first of ``names`` that exists (LeftOutError).

    Args:
        ids: Its study and its patient.
        columns: The metadata in ``known`` that the user asked for.
        views: Cells that may name the view; the first that does counts.
        more: Other fields of `FoundImage`.
    """
    check_ids(item, *ids)
    view = frontal_view(item, *views)
    name, path = existing(root, item, *names)
    metadata = {column: (known or {})[column] for column in columns}
    return FoundImage(path, name, *ids, **{"view": view, "metadata": metadata, **more})


def read_list(
    table: Path,
    required: Iterable[str],
    make: Callable[[Columns, str, dict[str, str]], FoundImage],
    **more: Any,
) -> Reading:
    """A set with one image per row of a table; ``more`` are other fields of `Reading`."""
    return Reading(
        count=partial(count_rows, table),
        images=lambda columns: map_rows(table, required, partial(make, columns)),
        **more,
    )


# --- MIMIC-CXR

PREFIX = "mimic-cxr-2.0.0-"
KEEP = ("rows", "columns", "date", ACQUIRED, DAYS, DATES, "procedure")
SPLITS = {"train": "train", "validate": "val", "test": "test"}

_NEEDED = ("dicom_id", "subject_id", "study_id", "ViewPosition")
_IDS = re.compile(r"[0-9A-Za-z-]{1,80} [0-9]{1,20} [0-9]{1,20}")


def _table(root: Path, stem: str) -> Path:
    if (path := find_table(root, PREFIX + stem)) is None:
        raise DataError(
            f"{root}: {PREFIX}{stem}.csv (or .csv.gz) is missing; MIMIC-CXR-JPG has it, put it "
            "into this folder"
        )
    return path


def open_mimic(root: Path, _: Path) -> Reading | None:
    files = root / "files"
    named = find_table(root, *(PREFIX + stem for stem in ("metadata", "split", "chexpert")))
    if not named and not any(files.glob("p1[0-9]/p*/s*")):
        return None
    metadata, split = _table(root, "metadata"), _table(root, "split")
    labels = find_table(root, PREFIX + "chexpert", PREFIX + "negbio")
    findings = findings_of(columns_of(labels)) if labels else ()
    boxes = [*sorted(root.glob("MS_CXR*.json")), *sorted(root.glob("MS_CXR*.csv"))]

    @cache
    def splits() -> dict[str, str]:
        rows = (row[1] for row in read_rows(split, ["dicom_id", "split"]) if isinstance(row, tuple))
        return {r["dicom_id"]: SPLITS[r["split"]] for r in rows if r["split"] in SPLITS}

    def make(columns: Columns, item: str, row: dict[str, str]) -> FoundImage:
        image, subject, study = row["dicom_id"], row["subject_id"], row["study_id"]
        if not _IDS.fullmatch(f"{image} {subject} {study}"):
            raise reject(item, "dicom_id, subject_id or study_id is not valid; fix the row")
        if (part := splits().get(image)) is None:
            raise reject(item, f"its dicom_id has no split in {PREFIX}split; fix that table")
        day = row.get("StudyDate", "")
        known = {
            "rows": row.get("Rows", ""),
            "columns": row.get("Columns", ""),
            "date": day[:4],
            # "shifted by a random amount, consistently for a patient": intervals are kept
            **dict.fromkeys((ACQUIRED, DAYS), moment(day, row.get("StudyTime", ""))),
            DATES: "shifted",
            "procedure": row.get("PerformedProcedureStepDescription", ""),
        }
        stem = f"files/p{subject[:2]}/p{subject}/s{study}/{image}"
        names = (stem + ending for ending in (".jpg", ".dcm", ".png"))
        return find_image(
            root, item, names, (study, subject), columns, known, views=[row["ViewPosition"]],
            split=part, box_key=image,
        )  # fmt: skip

    return read_list(
        metadata, _NEEDED, make,
        offered=KEEP,
        findings=findings,
        label_rows=partial(label_rows, labels, findings) if labels else None,
        reports=partial(open_reports, files) if any(files.glob("p*/p*/*.txt")) else None,
        boxes=partial(iter_boxes, boxes[0]) if boxes else None,
    )  # fmt: skip


# --- CheXpert

TABLES = {"train": "train", "valid": "val", "test": "test"}
LIST_5X200 = "chexpert_5x200"
IMPRESSION = "Report Impression"
OF_LISTED = f"another image of a patient of {LIST_5X200}"
OTHER_TEST = f"of test.csv; {LIST_5X200} is the test set"

_PLACE = re.compile(r"(?:^|/)((?:train|valid|test)/)?(patient\d+)/(study\d+)/(view\w+\.\w+)$")


def _image(
    root: Path, stem: str, match: re.Match[str], columns: Columns, findings: Columns, item: str,
    row: dict[str, str],
) -> FoundImage:  # fmt: skip
    frontal = row.get("Frontal/Lateral", "")
    if frontal.lower() == "lateral":
        raise LeftOutError(LeftOut(item, what=LATERAL))
    view = row.get("AP/PA", "")
    if frontal.lower() == "frontal" and view not in ("AP", "PA"):
        view = ""  # 17 images of train.csv say LL or RL; this column and the name say frontal
    # Tables say ``CheXpert-v1.0-small/train/patient…`` or only the end of it.
    below = "/".join(match.groups()[1:])
    folder = "train" if stem == LIST_5X200 else stem
    names = (row["Path"], f"{match[1] or ''}{below}", f"{folder}/{below}")
    letter = sex(row.get("Sex", "")).replace("O", "")
    return find_image(
        root, item, names, (f"{match[2]}-{match[3]}", match[2]), columns,
        {"age": years(row.get("Age", "")), "sex": letter}, views=[view, frontal, match[4]],
        split=TABLES.get(stem, "test"), labels=label_values(item, row, findings),
    )  # fmt: skip


def _impressions(table: Path) -> Iterator[Study]:
    for number, row in enumerate(read_rows(table, ["Path", IMPRESSION]), 1):
        match = _PLACE.search(row[1]["Path"]) if isinstance(row, tuple) else None
        if isinstance(row, tuple) and match and row[1][IMPRESSION]:
            sections = {"impression": row[1][IMPRESSION]}
            yield Study(f"{match[2]}-{match[3]}", sections=sections, row=number)


def open_chexpert(root: Path, _: Path) -> Reading | None:
    named = {stem: find_table(root, stem) for stem in (LIST_5X200, *TABLES)}
    tables = {stem: path for stem, path in named.items() if path and "Path" in columns_of(path)}
    if not tables:
        return None
    findings = findings_of({name for path in tables.values() for name in columns_of(path)})
    five = tables.get(LIST_5X200)

    def images(columns: Columns) -> Iterator[Entry]:
        rows = read_rows(five, ["Path"]) if five else ()
        places = (_PLACE.search(row[1]["Path"]) for row in rows if isinstance(row, tuple))
        listed = {match.groups()[1:] for match in places if match}  # patient, study and view
        patients = {patient for patient, *_ in listed}

        def make(stem: str, item: str, row: dict[str, str]) -> FoundImage | None:
            if (match := _PLACE.search(row["Path"])) is None:
                raise reject(item, "Path does not end in patient…/study…/view…; fix the row")
            if five and stem != LIST_5X200:
                if match.groups()[1:] in listed:
                    return None
                if stem == "test":
                    raise LeftOutError(LeftOut(item, what=OTHER_TEST))
                if match[2] in patients:
                    raise LeftOutError(LeftOut(item, what=OF_LISTED))
            return _image(root, stem, match, columns, findings, item, row)

        for stem, path in tables.items():
            yield from map_rows(path, ["Path"], partial(make, stem))

    has_reports = five is not None and IMPRESSION in columns_of(five)
    return Reading(
        count=lambda: sum(map(count_rows, tables.values())),
        images=images,
        offered=("age", "sex"),
        findings=findings,
        reports=partial(_impressions, five) if has_reports and five else None,
    )


# --- Open-i

FINDINGS = {
    "No Finding": {"normal"},
    "Cardiomegaly": {"Cardiomegaly"},
    "Pleural Effusion": {"Pleural Effusion"},
    "Atelectasis": {"Pulmonary Atelectasis"},
    "Edema": {"Pulmonary Edema"},
    "Consolidation": {"Consolidation"},
    "Pneumothorax": {"Pneumothorax", "Hydropneumothorax"},
    "Lung Opacity": {
        *("Opacity", "Airspace Disease", "Infiltrate", "Consolidation", "Pneumonia", "Density")
    },
    **{name: {name} for name in ("Pneumonia", "Nodule", "Mass")},
    "Emphysema": {"Emphysema", "Pulmonary Emphysema"},
    "Fibrosis": {"Pulmonary Fibrosis"},
    "Hernia": {"Hernia, Hiatal"},
    "Fracture": {"Fractures, Bone"},
    "Calcified Granuloma": {"Calcified Granuloma"},
    "Support Devices": {
        *("Catheters, Indwelling", "Implanted Medical Device", "Tube, Inserted", "Medical Device"),
        "Stents",
    },
}
"""The label columns; any of a column's terms makes a 1."""
UNCODED = {"No Indexing", "Technical Quality of Image Unsatisfactory"}


def split_of(study: str) -> str:
    """The split of a study: SHA-256 of its ``uid`` modulo 10 is 0 to 2 for test, 3 for val."""
    tenth = int(hashlib.sha256(study.encode()).hexdigest(), 16) % 10
    return "test" if tenth < 3 else "val" if tenth == 3 else "train"


def _coded(_: str, row: dict[str, str]) -> LabelRow:
    """The labels of a study, from terms such as "Opacity/lung/base/left;Cardiomegaly"."""
    heads = {term.partition("/")[0].strip() for term in row["MeSH"].split(";")}
    known = len(heads) > 1 or not heads & UNCODED
    labels = {name: str(int(bool(heads & of))) for name, of in FINDINGS.items()}
    return row["uid"], labels if known else dict.fromkeys(FINDINGS, "")


def open_openi(root: Path, out: Path) -> Reading | None:
    if (table := find_table(root, "indiana_projections")) is None:
        return None
    texts, coded = find_table(root, "indiana_reports"), find_table(root, "labels_mesh")
    findings = tuple(FINDINGS) if texts and "MeSH" in columns_of(texts) else ()
    labels = partial(map_rows, texts, ["uid", "MeSH"], _coded) if texts and findings else None
    if coded is not None:
        findings = tuple(name for name in columns_of(coded) if name != "study_id")
        labels = partial(label_rows, coded, findings)
    places = Files(root, out)

    def make(_: Columns, item: str, row: dict[str, str]) -> FoundImage:
        study, file = row["uid"], row["filename"]
        # The set names no patients: each has one study.
        return find_image(
            root, item, [places[file]], (study, study), views=[row["projection"]],
            split=split_of(study), box_key=file,
        )  # fmt: skip

    def reports() -> Iterator[ReportVersion | LeftOut]:
        if texts is None:
            raise DataError(
                f"{root}: indiana_reports.csv is missing; put it beside indiana_projections.csv, "
                "or name another table of reports with --reports"
            )
        return open_table(texts, {"study_id": "uid"})

    required = ["uid", "filename", "projection"]
    return read_list(table, required, make, findings=findings, label_rows=labels, reports=reports)
