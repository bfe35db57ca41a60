"""A tree of DICOM files: which are frontal radiographs, of which study and patient."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.datasets.importing.dicom_header import NEEDED, all_text_of, text_of, view_codes
from cxrtext.datasets.importing.found import Aside, Entry, FoundImage, Reading
from cxrtext.datasets.importing.identity import digest
from cxrtext.datasets.importing.options import ImportOptions, bad_ids, columns_kept, sex, years
from cxrtext.datasets.importing.views import LATERAL, OTHER, first_view, read_view
from cxrtext.datasets.importing.walk import inside, printable, walk
from cxrtext.errors import ImageError
from cxrtext.images.dicom_elements import NotDicomError, read_wanted
from cxrtext.images.dicom_file import ALLOWED
from cxrtext.images.quiet import quiet
from cxrtext.records import BadItem

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

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
"""Body parts that are set aside; many devices leave the element out or say something else."""

NOT_DICOM = "no DICOM file"
NO_IMAGE = "no image in it (report, presentation state, or the like)"
OTHER_MODALITY = "another modality than CR, DX or DR"
RAW = "raw detector data (for processing)"
OTHER_PART = "another body part"
FRAMES = "several frames in one file"
AGAIN = "the same SOPInstanceUID as a file before"


def _why_aside(header: "Dataset") -> str:
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


def _view(header: "Dataset") -> str:
    position = read_view(all_text_of(header, "ViewPosition"))
    return position or first_view([*view_codes(header), text_of(header, "SeriesDescription")])


def _metadata(header: "Dataset", columns: tuple[str, ...]) -> dict[str, str]:
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


def _read(root: Path, name: str, columns: tuple[str, ...], seen: set[int]) -> Entry:
    item, path = printable(name), inside(root, name)
    if path is None or not path.is_file():
        return BadItem(item, "a link that leads nowhere or out of the folder; put the file there")
    if item != name:
        return BadItem(item, "its name holds control characters or is not UTF-8; rename the file")
    kept = [KEEP[column] for column in columns]
    found = read_wanted(path, [*NEEDED, *kept, "PixelSpacing"])
    header = found.dataset
    why = _why_aside(header)
    if why:
        return Aside(item, why)
    if not found.pixels:
        return BadItem(item, "holds no pixel data; export the image with its pixels")
    if found.syntax and found.syntax not in ALLOWED:
        return BadItem(item, "its transfer syntax is not supported; export it uncompressed")
    view = _view(header)
    if view in (LATERAL, OTHER):
        return Aside(item, view)
    instance, accession = text_of(header, "SOPInstanceUID"), text_of(header, "AccessionNumber")
    study_id = text_of(header, "StudyInstanceUID") or accession
    patient_id = text_of(header, "PatientID")
    wrong = bad_ids(item, study_id, patient_id)
    if wrong is not None:
        return wrong
    if instance and digest(instance) in seen:
        return Aside(item, AGAIN)
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


def _images(root: Path, out: Path, columns: tuple[str, ...]) -> Iterator[Entry]:
    seen: set[int] = set()
    for name in walk(root, out):
        if isinstance(name, BadItem):
            yield name
            continue
        if name.rpartition("/")[2].upper() == "DICOMDIR":
            yield Aside(printable(name), "DICOMDIR")
            continue
        try:
            yield _read(root, name, columns, seen)
        except NotDicomError:
            yield Aside(printable(name), NOT_DICOM)
        except ImageError as error:
            yield BadItem(printable(name), str(error))
        except OSError as error:
            reason = f"cannot be read ({error.strerror}); see its permissions"
            yield BadItem(printable(name), reason)


def _count(root: Path, out: Path) -> int:
    return sum(1 for _ in walk(root, out))


def has_dicom(root: Path, out: Path) -> bool:
    """Whether any file of a folder is a DICOM file."""
    for name in walk(root, out):
        path = inside(root, name) if isinstance(name, str) else None
        if path is None or not path.is_file():
            continue
        try:
            read_wanted(path, ["SOPClassUID"])
        except (NotDicomError, OSError):
            continue
        except ImageError:
            return True
        return True
    return False


def open_dicom(root: Path, options: ImportOptions, out: Path) -> Reading | None:
    """Open a tree of DICOM files; None where there is none.

    Args:
        root: The folder, all links followed.
        options: What the user chose.
        out: The folder to be written, all links followed.

    Raises:
        ConfigError: Metadata is wanted that is not offered.
    """
    if not has_dicom(root, out):
        return None
    columns, _ = columns_kept(options.keep, KEEP, "dicom")
    images: Callable[[], Iterator[Entry]] = partial(_images, root, out, columns)
    return Reading("dicom", partial(_count, root, out), images, columns)
