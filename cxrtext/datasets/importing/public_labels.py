"""Label columns of public sets, under the names that this project gives them."""

from collections.abc import Iterable, Mapping

from cxrtext.records.labels import VALUES

CHEXPERT = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
"""The 14 columns of CheXpert and MIMIC-CXR."""

NIH = {
    "Atelectasis": "Atelectasis",
    "Cardiomegaly": "Cardiomegaly",
    "Consolidation": "Consolidation",
    "Edema": "Edema",
    "Effusion": "Pleural Effusion",
    "Emphysema": "Emphysema",
    "Fibrosis": "Fibrosis",
    "Hernia": "Hernia",
    "Infiltration": "Infiltration",
    "Mass": "Mass",
    "Nodule": "Nodule",
    "Pleural_Thickening": "Pleural Thickening",
    "Pneumonia": "Pneumonia",
    "Pneumothorax": "Pneumothorax",
}
"""The 14 names of ChestX-ray14, and the columns that they become."""

NIH_COLUMNS = ("No Finding", *NIH.values())


def findings_of(columns: Iterable[str]) -> tuple[str, ...]:
    """Those of the 14 CheXpert columns that a table has."""
    present = set(columns)
    return tuple(name for name in CHEXPERT if name in present)


def label_values(row: Mapping[str, str], findings: Iterable[str]) -> dict[str, str] | str:
    """The labels of a row as "1", "0", "-1" or ""; the name of the first wrong one instead."""
    labels = {}
    for name in findings:
        text = row.get(name, "")
        if text not in VALUES:
            return name
        value = VALUES[text]
        labels[name] = "" if value is None else str(value)
    return labels


def nih_labels(text: str) -> dict[str, str] | None:
    """Labels from "Effusion|Mass" or "No Finding"; None where a name is not one of the set's.

    The set says of every finding whether its reports mention it, so none is blank.
    """
    names = text.split("|")
    if any(name != "No Finding" and name not in NIH for name in names):
        return None
    present = {NIH.get(name, name) for name in names}
    return {name: "1" if name in present else "0" for name in NIH_COLUMNS}
