"""Writing a picture as a DICOM file such as a digital radiography device makes."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.phantom.scanners import SCANNERS, site
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.studies import PhantomStudy

if TYPE_CHECKING:
    from pydicom.dataset import FileDataset

DETECTOR = 400.0  # side of the detector in mm

CLASSES = {"CR": "1.2.840.10008.5.1.4.1.1.1", "DX": "1.2.840.10008.5.1.4.1.1.1.1"}
"""SOP classes: computed radiography, and digital X-ray for presentation."""


def _uid(*parts: object) -> str:
    """A UID made from a digest of what it names, so that the same set gets the same ones."""
    text = "/".join(map(str, ("phantom", *parts)))
    return f"2.25.{int(hashlib.sha256(text.encode()).hexdigest()[:32], 16)}"


def save_dicom(path: Path, picture: Map, study: PhantomStudy, seed: int) -> None:
    """Write a picture in [0, 1] with 12, 14, 15 or 16 of 16 bits; its window shows it as drawn.

    About one study in five is MONOCHROME1, where high values are dark.  One in four has a second,
    harder window after the first.
    """
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian

    generator = study.patient.stream("dicom")
    low, high = int(generator.integers(0, 500)), int(generator.integers(3000, 4096))
    inverted = bool(generator.random() < 0.2)
    bits = (12, 12, 12, 14, 15, 16)[int(generator.integers(6))]
    low, high = low << (bits - 12), high << (bits - 12)
    two_windows = bool(generator.random() < 0.25)
    modality = "CR" if study.patient.view == "AP" else "DX"
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(CLASSES[modality])
    meta.MediaStorageSOPInstanceUID = UID(_uid(seed, study.number, "instance"))
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(str(path), Dataset(), file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID = meta.MediaStorageSOPClassUID
    file.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    _describe_study(file, study, seed)
    file.Modality = modality
    shown = 1.0 - picture if inverted else picture
    stored = np.round(low + shown * (high - low)).astype("<u2")
    file.Rows, file.Columns = stored.shape
    _describe_device(file, study, modality)
    file.SamplesPerPixel = 1
    file.PhotometricInterpretation = "MONOCHROME1" if inverted else "MONOCHROME2"
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, bits, bits - 1
    file.PixelRepresentation = 0
    # With the linear function of PS3.3 C.11.2.1.2 this shows low as black and high as white.
    center, width = (low + high + 1) / 2, high - low + 1
    file.WindowCenter, file.WindowWidth = str(center), str(width)
    if two_windows:
        file.WindowCenter, file.WindowWidth = [str(center)] * 2, [str(width), str(width * 3 // 4)]
        file.WindowCenterWidthExplanation = ["NORMAL", "HARDER"]
    file.RescaleIntercept, file.RescaleSlope, file.RescaleType = "0", "1", "US"
    file.PresentationLUTShape = "INVERSE" if inverted else "IDENTITY"
    file.PixelData = stored.tobytes()
    file.save_as(path, enforce_file_format=True)


def _describe_study(file: "FileDataset", study: PhantomStudy, seed: int) -> None:
    number = int(study.patient_id[1:])
    file.PatientName = f"PHANTOM^{number:04d}"
    file.PatientID = f"PHANTOM-{seed}-{number:06d}"
    file.PatientBirthDate = ""
    file.PatientSex = study.patient.sex
    file.PatientAge = f"{study.age:03d}Y"
    file.StudyInstanceUID = _uid(seed, study.number, "study")
    file.SeriesInstanceUID = _uid(seed, study.number, "series")
    file.StudyID = study.study_id
    file.AccessionNumber = study.study_id
    file.StudyDate, file.StudyTime = "", ""
    file.ReferringPhysicianName = ""
    file.SeriesNumber, file.InstanceNumber = "1", "1"


def _describe_device(file: "FileDataset", study: PhantomStudy, modality: str) -> None:
    file.Manufacturer = "cxrtext phantom"
    file.ImageType = ["DERIVED", "PRIMARY"]
    file.BodyPartExamined = "CHEST"
    file.ViewPosition = study.patient.view
    file.PatientOrientation = ["L", "F"]
    file.Laterality = ""
    burnt = SCANNERS[site(study.patient.patient_key)].text
    file.BurnedInAnnotation = "YES" if burnt else "NO"
    file.StationName = f"SITE{site(study.patient.patient_key)}"
    file.LossyImageCompression = "00"
    spacing = f"{DETECTOR / file.Rows:.6g}"
    file.ImagerPixelSpacing = [spacing, spacing]
    if modality == "DX":
        file.PresentationIntentType = "FOR PRESENTATION"
        file.PixelIntensityRelationship = "LOG"
        file.PixelIntensityRelationshipSign = -1
