"""Tables and radiographs that tests write and read; it knows nothing of the product."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian

COMPUTED_RADIOGRAPHY = "1.2.840.10008.5.1.4.1.1.1"


def load_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def save_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def dicom_file(path: Path, sop_class: str, instance: str) -> FileDataset:
    """A DICOM file of nothing but its kind and its UID, not yet written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = UID(sop_class), UID(instance)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(str(path), Dataset(), file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID, file.SOPInstanceUID = UID(sop_class), UID(instance)
    return file


def save_radiograph(path: Path, instance: str, pixels: np.ndarray, **elements: Any) -> None:
    """Write a frontal radiograph of 8 or 12 bits; None as a value leaves an element out."""
    file = dicom_file(path, COMPUTED_RADIOGRAPHY, instance)
    bits = 8 if pixels.itemsize == 1 else 12
    values: dict[str, Any] = {
        "Modality": "CR", "ViewPosition": "PA", "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2", "Rows": pixels.shape[0],
        "Columns": pixels.shape[1], "BitsAllocated": 8 * pixels.itemsize, "BitsStored": bits,
        "HighBit": bits - 1, "PixelRepresentation": 0, "PixelData": pixels.tobytes(), **elements,
    }  # fmt: skip
    for keyword, value in values.items():
        if value is not None:
            setattr(file, keyword, value)
        elif keyword in file:
            delattr(file, keyword)
    file.save_as(path, enforce_file_format=True)
