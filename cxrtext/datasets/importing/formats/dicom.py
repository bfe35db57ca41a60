"""A tree of DICOM files: which are frontal radiographs, of which study and patient."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.datasets.importing.folder import inside, walk_set
from cxrtext.datasets.importing.identity import digest
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    NotKeptError,
    Reading,
    Skipped,
)
from cxrtext.datasets.importing.values import check_ids, frontal_view, sex, years
from cxrtext.errors import ImageError
from cxrtext.images.dicom.file import ALLOWED, NotDicomError, read_wanted
from cxrtext.images.source import quiet
from cxrtext.records import Rejected
from cxrtext.records.report_folder import printable

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

NEEDED = (
    *("SOPClassUID", "SOPInstanceUID", "Modality", "PresentationIntentType", "StudyInstanceUID"),
    *("AccessionNumber", "PatientID", "ViewPosition", "ViewCodeSequence", "SeriesDescription"),
    *("BodyPartExamined", "NumberOfFrames", "Rows", "Columns", "PixelSpacing"),
)
"""What is looked at of every header."""

KEEP = {
    "age": "PatientAge",
    "sex": "PatientSex",
    "date": "StudyDate",
    "accession": "AccessionNumber",
    "modality": "Modality",
    "manufacturer": "Manufacturer",
    "model": "ManufacturerModelName",
    "site": "InstitutionName",
    "spacing": "ImagerPixelSpacing",
    "rows": "Rows",
    "columns": "Columns",
    "body_part": "BodyPartExamined",
}
"""What may be read into the manifest, and the element that each comes from."""

MODALITIES = ("CR", "DX", "DR")
OTHER_PARTS = (
    *("ABDOMEN", "PELVIS", "HIP", "KNEE", "HAND", "WRIST", "FOOT", "ANKLE", "ELBOW", "SHOULDER"),
    *("SKULL", "HEAD", "NECK", "SPINE", "CSPINE", "TSPINE", "LSPINE", "LEG", "FEMUR", "ARM"),
    *("EXTREMITY", "FINGER", "TOE", "JAW", "BREAST"),
)
"""Body parts that are left out; many devices leave the element out or say something else."""

NOT_DICOM = "no DICOM file"
NO_IMAGE = "no image in it (report, presentation state, or the like)"
OTHER_MODALITY = "another modality than CR, DX or DR"
RAW = "raw detector data (for processing)"
OTHER_PART = "another body part"
FRAMES = "several frames in one file"
AGAIN = "the same SOPInstanceUID as a file before"

_VIEW_CODES = {
    **dict.fromkeys(("R-10202", "399033003"), "frontal"),
    **dict.fromkeys(("R-10206", "399348003"), "AP"),
    **dict.fromkeys(("R-10214", "272479007"), "PA"),
    **dict.fromkeys(("R-10232", "R-10236", "399198007", "399173006"), "lateral"),
}
"""Codes of CID 4010 (SRT and SCT) that are read where their meaning is left out."""


def texts_of(dataset: "Dataset", keyword: str) -> list[str]:
    """The values of an element as text without space around them; [] where there is none."""
    try:
        with quiet():
            value = dataset.get(keyword)
            several = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
            return [str(one).replace("\0", "").strip() for one in several if one is not None]
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return []


def text_of(dataset: "Dataset", keyword: str) -> str:
    """The first value of an element as text; "" where there is none."""
    return next(iter(texts_of(dataset, keyword)), "")


def view_codes(dataset: "Dataset") -> list[str]:
    """The meanings of the codes of the view, such as "postero-anterior"."""
    meanings = []
    try:
        for item in dataset.get("ViewCodeSequence") or []:
            code = _VIEW_CODES.get(text_of(item, "CodeValue"), "")
            meanings += [text_of(item, "CodeMeaning"), code]
    except Exception:  # noqa: BLE001 - a damaged sequence raises anything
        return meanings
    return meanings


def _why_skipped(header: "Dataset") -> str:
    """Why a file is no single radiograph of a chest; "" where it is one."""
    kind = _class_name(text_of(header, "SOPClassUID"))
    if kind.endswith("Storage") and "Image" not in kind:
        return NO_IMAGE
    modality = text_of(header, "Modality").upper()
    if modality not in MODALITIES:
        return OTHER_MODALITY
    if not text_of(header, "Rows"):
        return NO_IMAGE
    if text_of(header, "PresentationIntentType").upper() == "FOR PROCESSING":
        return RAW
    words = text_of(header, "BodyPartExamined").upper().replace("_", " ").split()
    if set(words) & set(OTHER_PARTS) and not {"CHEST", "THORAX"} & set(words):
        return OTHER_PART
    return FRAMES if text_of(header, "NumberOfFrames") not in ("", "0", "1") else ""


def _class_name(uid: str) -> str:
    from pydicom.uid import UID

    with quiet():  # a damaged UID is a warning
        return UID(uid).name if uid else ""


def _metadata(header: "Dataset", columns: Columns) -> dict[str, str]:
    values = {}
    for name in columns:
        text = text_of(header, KEEP[name])
        if name == "age":
            text = years(text)
        elif name == "sex":
            text = sex(text)
        elif name == "date":
            text = text[:4] if text[:4].isdigit() else ""  # the year: days single out a patient
        elif name == "spacing":
            text = text or text_of(header, "PixelSpacing")
        values[name] = "".join(c for c in text if c.isprintable())[:100]
    return values


def _image(root: Path, name: str, columns: Columns, seen: set[int]) -> Entry:
    item, path = printable(name), inside(root, name)
    if path is None or not path.is_file():
        return Rejected(item, "a link that leads nowhere or out of the folder; put the file there")
    if item != name:
        return Rejected(item, "its name holds control characters or is not UTF-8; rename the file")
    found = read_wanted(path, [*NEEDED, *(KEEP[column] for column in columns)])
    header = found.dataset
    why = _why_skipped(header)
    if why:
        return Skipped(item, why)
    if not found.pixels:
        return Rejected(item, "holds no pixel data; export the image with its pixels")
    if found.syntax and found.syntax not in ALLOWED:
        return Rejected(item, "its transfer syntax is not supported; export it uncompressed")
    position = " ".join(texts_of(header, "ViewPosition"))
    series = text_of(header, "SeriesDescription")
    view = frontal_view(item, position, *view_codes(header), series)
    instance, accession = text_of(header, "SOPInstanceUID"), text_of(header, "AccessionNumber")
    study_id = text_of(header, "StudyInstanceUID") or accession
    patient_id = text_of(header, "PatientID")
    check_ids(item, study_id, patient_id)
    if instance and digest(instance) in seen:
        return Skipped(item, AGAIN)
    seen.add(digest(instance))
    return FoundImage(
        path=path,
        name=name,
        study_id=study_id,
        patient_id=patient_id,
        view=view,
        accession=accession,
        box_key=instance,
        metadata=_metadata(header, columns),
    )


def _images(root: Path, out: Path, columns: Columns) -> Iterator[Entry]:
    seen: set[int] = set()
    for name in walk_set(root, out):
        if isinstance(name, Rejected):
            yield name
            continue
        item = printable(name)
        if name.rpartition("/")[2].upper() == "DICOMDIR":
            yield Skipped(item, "DICOMDIR")
            continue
        try:
            yield _image(root, name, columns, seen)
        except NotKeptError as error:
            yield error.entry
        except NotDicomError:
            yield Skipped(item, NOT_DICOM)
        except ImageError as error:
            yield Rejected(item, str(error))
        except OSError as error:
            yield Rejected(item, f"cannot be read ({error.strerror}); see its permissions")


def _is_dicom(path: Path | None) -> bool:
    if path is None or not path.is_file():
        return False
    try:
        read_wanted(path, ["SOPClassUID"])
    except (NotDicomError, OSError):
        return False
    except ImageError:
        pass  # a damaged one
    return True


def open_dicom(root: Path, out: Path) -> Reading | None:
    """Open a tree of DICOM files; None where there is none."""
    names = (name for name in walk_set(root, out) if isinstance(name, str))
    if not any(_is_dicom(inside(root, name)) for name in names):
        return None
    return Reading(
        count=lambda: sum(1 for _ in walk_set(root, out)),
        images=partial(_images, root, out),
        offered=tuple(KEEP),
        lists_left_out=False,
    )
