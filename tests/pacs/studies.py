"""Made-up studies for a PACS, with one planted name in every field that may hold one."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence as Items

from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.retrieval.follow_state import FollowState
from tests.images.conftest import make_dicom

PLANTED = "QUETZALCOATL"
"""It stands in names, numbers, texts and private elements; it may be in no log and no error."""

CR, DX = "1.2.840.10008.5.1.4.1.1.1", "1.2.840.10008.5.1.4.1.1.1.1"
CT, CAPTURE = "1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.7"
ROOT = "1.2.826.0.1.3680043.8.498.22"

KINDS: dict[str, dict[str, Any]] = {
    "PA": {"ViewPosition": "PA", "PatientOrientation": ["L", "F"]},
    "AP": {"ViewPosition": "AP", "PatientOrientation": ["L", "F"]},
    "lateral": {"ViewPosition": "LL", "PatientOrientation": ["A", "F"]},
    "lateral by orientation": {"ViewPosition": "", "PatientOrientation": ["A", "F"]},
    "knee": {"BodyPartExamined": "KNEE", "ViewPosition": "AP", "SeriesDescription": "Knie ap"},
    "CT": {"SOPClassUID": CT, "Modality": "CT"},
    "capture": {"SOPClassUID": CAPTURE, "Modality": "OT"},
    "raw": {"PresentationIntentType": "FOR PROCESSING", "ViewPosition": "PA"},
}
"""Kinds of object, and what their headers say."""

BEGIN = date(2024, 3, 1)


def uid(*numbers: int) -> str:
    return ".".join([ROOT, *map(str, numbers)])


def instance(
    study: int, number: int = 1, kind: str = "PA", *, day: date = BEGIN, size: int = 64, **more: Any
) -> bytes:
    """One object of a study, whose pixels no other has; ``more`` are what `make_dicom` takes."""
    draw, high = np.random.default_rng([study, number]), 2 ** more.get("stored", 12)
    pixels = draw.integers(0, high, (size, size)).astype("<u2")
    values = {
        "stored": 12,
        **_planted(study),
        "SOPClassUID": DX,
        "SOPInstanceUID": uid(study, number, 1),
        "SeriesInstanceUID": uid(study, number),
        "StudyInstanceUID": uid(study),
        "StudyDate": day.strftime("%Y%m%d"),
        "StudyTime": f"{study % 24:02d}{number % 60:02d}00",
        "SeriesDate": day.strftime("%Y%m%d"),
        "SeriesNumber": number,
        "InstanceNumber": 1,
        "Modality": "DX",
        "BodyPartExamined": "CHEST",
        "PresentationIntentType": "FOR PRESENTATION",
        **KINDS[kind],
        **more,
    }
    return make_dicom(pixels, **values)


def _planted(study: int) -> dict[str, Any]:
    accession = Dataset()
    accession.LocalNamespaceEntityID = f"{PLANTED} RIS"
    request = Dataset()
    request.RequestedProcedureDescription = f"{PLANTED} asks"
    request.ScheduledProcedureStepDescription = f"{PLANTED} thorax"
    return {
        "PatientName": f"{PLANTED}^Ana^^Dr.", "PatientID": f"{PLANTED}{study:06d}",
        "IssuerOfPatientID": f"{PLANTED}-HIS", "PatientBirthDate": "19700102",
        "PatientSex": "F", "PatientAge": "054Y", "OtherPatientIDs": f"{PLANTED}-OLD{study}",
        "PatientAddress": f"{PLANTED} street 1",
        "PatientComments": f"{PLANTED} says that it hurts",
        "PatientMotherBirthName": f"{PLANTED}^Eva", "EthnicGroup": PLANTED,
        "Occupation": PLANTED, "AccessionNumber": f"A{study:06d}",
        "IssuerOfAccessionNumberSequence": Items([accession]),
        "StudyID": f"{PLANTED[:8]}{study}", "StudyDescription": f"Chest {PLANTED}",
        "SeriesDescription": f"Thorax {PLANTED}", "ProtocolName": f"Chest {PLANTED}",
        "InstitutionName": f"{PLANTED} hospital", "InstitutionAddress": f"{PLANTED} square 2",
        "InstitutionalDepartmentName": f"{PLANTED} radiology",
        "ReferringPhysicianName": f"{PLANTED}^Ref",
        "PerformingPhysicianName": f"{PLANTED}^Perf",
        "NameOfPhysiciansReadingStudy": f"{PLANTED}^Read", "OperatorsName": f"{PLANTED}^Op",
        "StationName": PLANTED, "Manufacturer": f"{PLANTED} Inc", "DeviceSerialNumber": PLANTED,
        "ImageComments": f"{PLANTED} coughs", "RequestAttributesSequence": Items([request]),
        "RequestingPhysician": f"{PLANTED}^Req", "AdmissionID": PLANTED,
        "CurrentPatientLocation": f"{PLANTED} ward",
    }  # fmt: skip


def accept_all(inbox: Inbox) -> int:
    """Accept all that is held or failed; gives how much."""
    numbers = [one.number for one in inbox.held()]
    for number in numbers:
        inbox.accept(number)
    return len(numbers)


def assert_nowhere(texts: Iterable[str], *folders: Path) -> None:
    for path in [path for folder in folders for path in folder.rglob("*") if path.is_file()]:
        data = path.read_bytes()
        for text in texts:
            assert text.encode() not in data, (path, text)


def compare_next(file: Path) -> None:
    """Let the next turn of a follower compare all days, whenever that is due."""
    if file.is_file():
        with FollowState(file) as state:
            state.note("compared", "")


def study(number: int, kinds: Sequence[str] = ("PA", "lateral"), **more: Any) -> list[bytes]:
    return [instance(number, place, kind, **more) for place, kind in enumerate(kinds, 1)]


def archive(studies: int) -> list[bytes]:
    """The objects of studies of all kinds over five days.

    Of each eight studies one has a lateral known by its orientation alone, one holds a knee, one a
    CT slice and a capture, one nothing that is wanted.
    """
    turns = (
        *(("PA", "lateral"), ("PA",), ("AP",), ("PA", "lateral by orientation")),
        *(("knee", "PA"), ("AP", "CT", "capture"), ("lateral",), ("PA", "raw")),
    )
    return [
        one
        for number in range(1, studies + 1)
        for one in study(number, turns[number % 8], day=BEGIN + timedelta(days=number % 5))
    ]


def wanted(studies: int) -> list[str]:
    """The UIDs of the images of an `archive` that may enter."""
    turns = (1, 1, 1, 1, 2, 1, 0, 1)  # the place of the frontal view in its study; 0 for none
    places = ((number, turns[number % 8]) for number in range(1, studies + 1))
    return sorted(uid(number, place, 1) for number, place in places if place)
