"""The source image of a result: its header, checked, and what a result repeats from it."""

import hashlib
import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.datasets.admission.decide import RADIOGRAPHS
from cxrtext.datasets.admission.ids import IDS, ObjectIds, object_ids
from cxrtext.errors import ImageError
from cxrtext.files import sha256
from cxrtext.images.dicom.described import described, text_of, texts_of
from cxrtext.images.dicom.file import NotDicomError, read_wanted
from cxrtext.images.dicom.header import whole_number
from cxrtext.images.dicom.orientation import KEYWORDS as ORIENTATION
from cxrtext.images.dicom.orientation import directions, read_placement
from cxrtext.images.placement import Placement
from cxrtext.images.source import quiet, shown

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

UIDS = ("SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID")
PATIENT = (
    *("PatientName", "PatientID", "IssuerOfPatientID", "IssuerOfPatientIDQualifiersSequence"),
    *("PatientBirthDate", "PatientSex"),
)
STUDY = (
    *("StudyInstanceUID", "StudyDate", "StudyTime", "StudyID", "AccessionNumber"),
    *("IssuerOfAccessionNumberSequence", "ReferringPhysicianName", "StudyDescription"),
)
"""What a result repeats unchanged, so that it joins its patient and study."""
_SHOWN = (
    *("Rows", "Columns", "NumberOfFrames", "BurnedInAnnotation", "FrameOfReferenceUID", "Modality"),
    *ORIENTATION,
)
_UID = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))+")
_OPPOSITE = dict(zip("LRAPHF", "RLPAFH", strict=True))
_SEX = ("M", "F", "O")


@dataclass(frozen=True, slots=True)
class SourceImage:
    """A DICOM image that results can be made from.

    ``header`` has the elements above as they are in the file; ``fingerprint`` covers the file and
    the patient and study it names, so that a corrected header makes new results.
    """

    path: Path
    header: "Dataset"
    placement: Placement
    fingerprint: str
    ids: ObjectIds

    def text(self, keyword: str) -> str:
        """The first value of an element, or ""."""
        return text_of(self.header, keyword)

    @property
    def orientation(self) -> tuple[str, str] | None:
        """Where rows and columns of the displayed picture lead, such as L and F, if known."""
        with quiet():
            stored = directions(self.header)
        if stored is None:
            return None
        moved = self.placement
        across, down = stored[::-1] if moved.transposed else stored
        return (
            _OPPOSITE[across] if moved.mirrored else across,
            _OPPOSITE[down] if moved.inverted else down,
        )

    @property
    def instance(self) -> str:
        return self.text("SOPInstanceUID")

    @property
    def study(self) -> str:
        return self.text("StudyInstanceUID")


def read_source(path: Path) -> SourceImage:
    name = shown(path)
    try:
        with quiet():
            wanted = read_wanted(path, dict.fromkeys((*UIDS, *PATIENT, *STUDY, *IDS, *_SHOWN)))
            header, ids = wanted.dataset, object_ids(described(wanted, IDS))
            _check(header)
            size = whole_number(header, "Rows"), whole_number(header, "Columns")
            placement = read_placement(header, *size)
            owner = [texts_of(header, keyword) for keyword in (*UIDS, *PATIENT, *STUDY)]
    except NotDicomError:
        raise ImageError(
            f"{name}: is not a DICOM file; results join the study of a DICOM image"
        ) from None
    except ImageError as error:
        raise ImageError(f"{name}: {error}") from None
    except OSError as error:
        raise ImageError(f"{name}: cannot be opened ({error.strerror}); check the path") from None
    digest = hashlib.sha256(f"{sha256(path)}\0{owner}".encode("utf-8", "surrogatepass"))
    return SourceImage(path, header, placement, digest.hexdigest(), ids)


def _check(header: "Dataset") -> None:
    for keyword in UIDS:
        value = text_of(header, keyword)
        if not value:
            raise ImageError(f"names no {keyword}; results join the study of a DICOM image")
        if len(value) > 64 or not _UID.fullmatch(value):
            raise ImageError(f"its {keyword} is not a UID; export the file again")
    if text_of(header, "SOPClassUID") not in RADIOGRAPHS:
        raise ImageError("is not a radiograph (CR or DX); results need a radiograph")
    if text_of(header, "NumberOfFrames") not in ("", "0", "1"):
        raise ImageError("has several frames; results need a single image")
    if min(whole_number(header, "Rows"), whole_number(header, "Columns")) < 1:
        raise ImageError("its size is not known; export the file again")


def reference(source: SourceImage) -> "Dataset":
    """The header as highdicom needs it: complete, and without values that it refuses.

    :func:`repeat` adds patient and study afterwards.
    """
    given = deepcopy(source.header)
    given.SpecificCharacterSet = "ISO_IR 192"
    for keyword in ("PatientID", "PatientName", "AccessionNumber", "StudyID"):
        setattr(given, keyword, "")
    for keyword in ("PatientBirthDate", "StudyDate", "StudyTime"):
        setattr(given, keyword, None)
    given.PatientSex = ""
    given.ReferringPhysicianName = ""
    given.Modality = source.text("Modality") or "DX"
    return given


def repeat(source: SourceImage, result: "Dataset") -> None:
    """Copy an image's patient and study into a result, as UTF-8."""
    from pydicom.valuerep import PersonName

    result.SpecificCharacterSet = "ISO_IR 192"
    for keyword in dict.fromkeys((*PATIENT, *STUDY)):
        value = source.header.get(keyword)
        if value is not None and value != "":
            # A name as text: as a PersonName it would keep the source's character set.
            setattr(result, keyword, str(value) if isinstance(value, PersonName) else value)
    if source.text("PatientSex") not in _SEX:
        result.PatientSex = ""
    if source.text("BurnedInAnnotation").upper() in ("YES", "NO") and "PixelData" in result:
        result.BurnedInAnnotation = source.text("BurnedInAnnotation").upper()
