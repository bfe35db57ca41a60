"""The elements of a DICOM header that an import looks at, as text."""

from typing import TYPE_CHECKING

from cxrtext.images.quiet import quiet

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

NEEDED = (
    "SOPClassUID",
    "SOPInstanceUID",
    "Modality",
    "PresentationIntentType",
    "StudyInstanceUID",
    "AccessionNumber",
    "PatientID",
    "ViewPosition",
    "ViewCodeSequence",
    "SeriesDescription",
    "BodyPartExamined",
    "NumberOfFrames",
    "Rows",
    "Columns",
)


def text_of(dataset: "Dataset", keyword: str) -> str:
    """The first value of an element as text without space around it; "" where there is none."""
    try:
        with quiet():
            value = dataset.get(keyword)
            if value is None:
                return ""
            if not isinstance(value, str) and hasattr(value, "__iter__"):
                value = next(iter(value), "")
            return str(value).replace("\0", "").strip()
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return ""


def all_text_of(dataset: "Dataset", keyword: str) -> str:
    """All values of an element as text, separated by spaces."""
    try:
        with quiet():
            value = dataset.get(keyword)
            several = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
            return " ".join(str(one) for one in several if one is not None).strip()
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return ""


def view_codes(dataset: "Dataset") -> list[str]:
    """The meanings of the codes of the view, such as "postero-anterior"."""
    meanings = []
    try:
        for item in dataset.get("ViewCodeSequence") or []:
            code = text_of(item, "CodeValue")
            meanings.append(text_of(item, "CodeMeaning") or _VIEW_CODES.get(code, ""))
            meanings.append(_VIEW_CODES.get(code, ""))
    except Exception:  # noqa: BLE001 - a damaged sequence raises anything
        return meanings
    return meanings


_VIEW_CODES = {
    "R-10202": "frontal",
    "R-10206": "AP",
    "R-10214": "PA",
    "R-10232": "lateral",
    "R-10236": "lateral",
    "399033003": "frontal",
    "399348003": "AP",
    "272479007": "PA",
    "399198007": "lateral",
    "399173006": "lateral",
}
"""Codes of CID 4010 (SRT and SCT) that are read where their meaning is left out."""
