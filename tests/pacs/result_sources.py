"""Radiographs of five kinds of device, drawn for the tests of results; names in every field."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.uid import JPEG2000Lossless, RLELossless

from tests.conftest import draw
from tests.images.conftest import make_dicom
from tests.pacs.studies import CR, DX

KINDS: dict[str, dict[str, Any]] = {
    "cr": {"SpecificCharacterSet": "ISO_IR 100", "PatientName": "CANARÝ^Ünal"},
    "dx-mono1": {
        "SOPClassUID": DX, "photometric": "MONOCHROME1", "stored": 14,
        "SpecificCharacterSet": ["", "ISO 2022 IR 87"], "PatientName": "CANARY^Taro=山田^太郎",
    },
    "16-bit-mirrored": {
        "SOPClassUID": DX, "stored": 16, "PatientOrientation": ["R", "F"],
        "SpecificCharacterSet": "ISO_IR 192", "PatientName": "CANARY^Иван",
    },
    "jpeg-2000": {
        "SOPClassUID": DX, "syntax": JPEG2000Lossless,
        "SpecificCharacterSet": "GB18030", "PatientName": "CANARY^王小东",
    },
    "rle": {
        "syntax": RLELossless,
        "SpecificCharacterSet": "ISO_IR 144", "PatientName": "КАНАРЕЙКА^Иван",
    },
}  # fmt: skip
"""What differs from one to the next."""


def picture(rows: int, columns: int) -> NDArray[np.float64]:
    """Values in [0, 1] that differ in each corner: black, a third, two thirds, white."""
    down, across = np.mgrid[0:rows, 0:columns] / [[[rows - 1]], [[columns - 1]]]
    return np.asarray((down * 2 + across) / 3)


def write_source(
    path: Path, kind: str, *, number: int = 1, pixels: NDArray[Any] | None = None, **attributes: Any
) -> Path:
    """Write a radiograph; ``pixels`` in [0, 1] are as shown upright, else `picture`."""
    root = f"1.2.826.0.1.99.{list(KINDS).index(kind) + 1}.{number}"
    facts: dict[str, Any] = {
        "SOPClassUID": CR,
        "stored": 12,
        "PatientOrientation": ["L", "F"],
        **KINDS[kind],
    }
    depth, shown = 2 ** facts["stored"], picture(120, 100) if pixels is None else pixels
    if facts["PatientOrientation"] == ["R", "F"]:
        shown = shown[:, ::-1]
    if facts.get("photometric") == "MONOCHROME1":
        shown = 1 - shown
    values: dict[str, Any] = {
        "StudyInstanceUID": root, "SeriesInstanceUID": f"{root}.1", "SOPInstanceUID": f"{root}.1.1",
        "PatientID": f"CANARY-{number}", "PatientBirthDate": "19500102", "PatientSex": "F",
        "IssuerOfPatientID": "CANARY-HOSPITAL", "AccessionNumber": f"CANARY{number}",
        "StudyDate": "20240301", "StudyTime": "101112", "StudyID": "CANARY-S",
        "ReferringPhysicianName": facts["PatientName"], "StudyDescription": "CANARY thorax",
        "SeriesNumber": 1, "InstanceNumber": 1, "Manufacturer": "Maker",
        "Modality": "CR" if facts["SOPClassUID"] == CR else "DX",
        "BodyPartExamined": "CHEST", "ViewPosition": "PA",
        "WindowCenter": str(depth // 2), "WindowWidth": str(depth),
        "RescaleIntercept": "0", "RescaleSlope": "1", "RescaleType": "US",
    }  # fmt: skip
    stored = np.round(shown * (depth - 1)).astype("<u2")
    path.write_bytes(make_dicom(stored, **{**values, **facts, **attributes}))
    return path


def write_effusion(path: Path, kind: str = "cr", **more: Any) -> Path:
    """Write a radiograph with a bright patch at the patient's lower left."""
    return write_source(path, kind, pixels=draw("effusion", 3) / 255, **more)
