"""Radiographs of five kinds of device, drawn for the tests of results; names in every field."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian, JPEG2000Lossless, RLELossless

CR = "1.2.840.10008.5.1.4.1.1.1"
DX = "1.2.840.10008.5.1.4.1.1.1.1"

KINDS: dict[str, dict[str, Any]] = {
    "cr": {"klass": CR, "charset": "ISO_IR 100", "name": "CANARÝ^Ünal"},
    "dx-mono1": {
        "klass": DX, "photometric": "MONOCHROME1", "bits": 14,
        "charset": ["", "ISO 2022 IR 87"], "name": "CANARY^Taro=山田^太郎",
    },
    "16-bit-mirrored": {
        "klass": DX,
        "bits": 16,
        "orientation": ["R", "F"],
        "charset": "ISO_IR 192",
        "name": "CANARY^Иван",
    },
    "jpeg-2000": {
        "klass": DX,
        "syntax": JPEG2000Lossless,
        "charset": "GB18030",
        "name": "CANARY^王小东",
    },
    "rle": {"klass": CR, "syntax": RLELossless, "charset": "ISO_IR 144", "name": "КАНАРЕЙКА^Иван"},
}  # fmt: skip
"""What differs from one to the next."""


def picture(rows: int, columns: int) -> NDArray[np.float64]:
    """Values in [0, 1] that differ in each corner: black, a third, two thirds, white."""
    down, across = np.mgrid[0:rows, 0:columns] / [[[rows - 1]], [[columns - 1]]]
    return np.asarray((down * 2 + across) / 3)


def write_source(
    path: Path,
    kind: str,
    *,
    rows: int = 120,
    columns: int = 100,
    number: int = 1,
    pixels: NDArray[Any] | None = None,
    **attributes: Any,
) -> Path:
    """Write a radiograph; ``pixels`` in [0, 1] are as shown upright, else `picture`."""
    facts = KINDS[kind]
    bits, shown = facts.get("bits", 12), picture(rows, columns) if pixels is None else pixels
    if facts.get("orientation") == ["R", "F"]:
        shown = shown[:, ::-1]
    inverted = facts.get("photometric") == "MONOCHROME1"
    values = np.round((1 - shown if inverted else shown) * (2**bits - 1)).astype("<u2")
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(facts["klass"])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(str(path), Dataset(), file_meta=meta, preamble=b"\0" * 128)
    file.SpecificCharacterSet = facts["charset"]
    root = f"1.2.826.0.1.99.{list(KINDS).index(kind) + 1}.{number}"
    file.SOPClassUID = meta.MediaStorageSOPClassUID
    file.StudyInstanceUID, file.SeriesInstanceUID = root, f"{root}.1"
    file.SOPInstanceUID = meta.MediaStorageSOPInstanceUID = UID(f"{root}.1.1")
    file.PatientName, file.PatientID = facts["name"], f"CANARY-{number}"
    file.PatientBirthDate, file.PatientSex = "19500102", "F"
    file.IssuerOfPatientID = "CANARY-HOSPITAL"
    file.StudyDate, file.StudyTime, file.StudyID = "20240301", "101112", "CANARY-S"
    file.AccessionNumber, file.ReferringPhysicianName = f"CANARY{number}", facts["name"]
    file.StudyDescription = "CANARY thorax"
    file.SeriesNumber, file.InstanceNumber = 1, 1
    file.Modality = "CR" if facts["klass"] == CR else "DX"
    file.Manufacturer, file.BodyPartExamined, file.ViewPosition = "Maker", "CHEST", "PA"
    file.PatientOrientation = facts.get("orientation", ["L", "F"])
    file.Rows, file.Columns = values.shape
    file.SamplesPerPixel = 1
    file.PhotometricInterpretation = facts.get("photometric", "MONOCHROME2")
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, bits, bits - 1
    file.PixelRepresentation = 0
    file.WindowCenter, file.WindowWidth = str(2 ** (bits - 1)), str(2**bits)
    file.RescaleIntercept, file.RescaleSlope, file.RescaleType = "0", "1", "US"
    file.PixelData = values.tobytes()
    file["PixelData"].VR = "OW"
    if "syntax" in facts:
        file.compress(facts["syntax"], generate_instance_uid=False)
    for keyword, value in attributes.items():
        setattr(file, keyword, value)
    file.save_as(path, enforce_file_format=True)
    return path
