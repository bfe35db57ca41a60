"""Open-i (Indiana University): reports, projections and images as Kaggle lays them out.

Labels are those that people coded as MeSH terms, a column of the reports; a study whose only term
says that nothing was coded has none.  ``labels_mesh.csv`` beside (study_id, a column a finding)
comes first.  The set has no split; studies have the one that the recipe ``openi`` measures.
"""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import Files
from cxrtext.datasets.importing.formats.listing import find_image, read_list
from cxrtext.datasets.importing.formats.mimic import label_rows
from cxrtext.datasets.importing.reading import (
    Columns,
    FoundImage,
    LabelRow,
    Reading,
    columns_of,
    find_table,
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


def _coded(_: str, row: dict[str, str]) -> LabelRow:
    """The labels of a study, from terms such as "Opacity/lung/base/left;Cardiomegaly"."""
    heads = {term.partition("/")[0].strip() for term in row["MeSH"].split(";")}
    known = len(heads) > 1 or not heads & UNCODED
    labels = {name: str(int(bool(heads & of))) for name, of in FINDINGS.items()}
    return row["uid"], labels if known else dict.fromkeys(FINDINGS, "")


def open_openi(root: Path, out: Path) -> Reading | None:
    """Open the Indiana set; None where the folder does not hold its projections."""
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
