"""Open-i (Indiana University): reports, projections and images as Kaggle lays them out.

Labels are those that people coded as MeSH terms, a column of the reports; a study whose only term
says that nothing was coded has none.  ``labels_mesh.csv`` beside (study_id, a column a finding)
comes first.  The set has no split; studies have the one that the recipe ``openi`` measures.
"""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import existing, files_by_name
from cxrtext.datasets.importing.formats.mimic import label_rows
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    LabelRow,
    Reading,
    check_ids,
    columns_of,
    count_rows,
    find_table,
    frontal_view,
    map_rows,
)
from cxrtext.datasets.importing.reports.sources import open_table
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.errors import DataError
from cxrtext.records import LeftOut

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
"""The columns of labels, and the terms of which any makes a 1."""
UNCODED = {"No Indexing", "Technical Quality of Image Unsatisfactory"}


def split_of(study: str) -> str:
    """Three tenths are tested and one validates: SHA-256 of the ``uid``, as a number modulo 10."""
    tenth = int(hashlib.sha256(study.encode()).hexdigest(), 16) % 10
    return "test" if tenth < 3 else "val" if tenth == 3 else "train"


def _coded(path: Path) -> Iterator[LabelRow | LeftOut]:
    """The labels of the studies, from terms such as "Opacity/lung/base/left;Cardiomegaly"."""

    def make(_: str, row: dict[str, str]) -> LabelRow:
        heads = {term.partition("/")[0].strip() for term in row["MeSH"].split(";")}
        known = len(heads) > 1 or not heads & UNCODED
        labels = {name: str(int(bool(heads & of))) for name, of in FINDINGS.items()}
        return row["uid"], labels if known else dict.fromkeys(FINDINGS, "")

    return map_rows(path, ["uid", "MeSH"], make)


def open_openi(root: Path, out: Path) -> Reading | None:
    """Open the Indiana set; None where the folder does not hold its projections."""
    if (table := find_table(root, "indiana_projections")) is None:
        return None
    texts, coded = find_table(root, "indiana_reports"), find_table(root, "labels_mesh")
    columns = tuple(FINDINGS) if texts and "MeSH" in columns_of(texts) else ()
    labels = partial(_coded, texts) if texts and columns else None
    if coded is not None:
        columns = tuple(name for name in columns_of(coded) if name != "study_id")
        labels = partial(label_rows, coded, columns)

    def images(_: Columns) -> Iterator[Entry]:
        places = files_by_name(root, out)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            study, file = row["uid"], row["filename"]
            view = frontal_view(item, row["projection"])
            name, path = existing(root, item, places.get(file, ""))
            check_ids(item, study, "")
            # The set names no patients: each has one study.
            return FoundImage(path, name, study, study, split_of(study), view, box_key=file)

        yield from map_rows(table, ["uid", "filename", "projection"], make)

    def reports() -> Iterator[ReportVersion | LeftOut]:
        if texts is None:
            raise DataError(
                f"{root}: indiana_reports.csv is missing; put it beside indiana_projections.csv, "
                "or name another table of reports with --reports"
            )
        return open_table(texts, {"study_id": "uid"})

    return Reading(
        count=partial(count_rows, table),
        images=images,
        findings=columns,
        label_rows=labels,
        reports=reports,
    )
