"""DICOM structured reports written by a radiologist, as versions of a report.

Measurements (TID 1500) and other results of programs are not reports and are skipped.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.datasets.admission.ids import IDS, object_ids
from cxrtext.datasets.importing.versions import ReportVersion, Status
from cxrtext.images.dicom.described import described, text_of
from cxrtext.images.dicom.file import read_wanted
from cxrtext.records.cells import read_time

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

CLASSES = frozenset(f"1.2.840.10008.5.1.4.1.1.88.{n}" for n in (11, 22, 33, 34))
_NO_REPORTS = frozenset({"126000", "126001", "122292", "111400", "113701"})
"""Titles of measurements and logs, as coded by DCM."""
_TIMES = ("ContentDate", "ContentTime")
_WANTED = (
    *("SOPClassUID", *IDS, *_TIMES, "CompletionFlag", "VerificationFlag", "PreliminaryFlag"),
    *("PredecessorDocumentsSequence", "ConceptNameCodeSequence", "ContentSequence"),
)
_MAX_DEPTH = 16
_ADDENDUM = "ADDENDUM"


def read_sr(path: Path, item: str) -> ReportVersion | None:
    """Read a structured report; None if it is another object or holds no report."""
    if text_of(read_wanted(path, ["SOPClassUID"]).dataset, "SOPClassUID") not in CLASSES:
        return None
    header = read_wanted(path, _WANTED)
    dataset = header.dataset
    if _name(dataset, "CodeValue") in _NO_REPORTS:
        return None
    said = described(header, (*IDS, *_TIMES))
    ids = object_ids(said)
    parts: list[str] = []
    _gather(dataset, "", parts, 0)
    if not (report := "\n".join(parts).strip()):
        return None
    headings = [part[:-1] for part in parts if part.isupper() and part.endswith(":")]
    only = _ADDENDUM in _name(dataset).upper() or headings == [_ADDENDUM]
    return ReportVersion(
        item=item,
        study=said.first("StudyInstanceUID"),
        accession=ids.accession,
        issuer=ids.accession_issuer,
        patient=ids.patient,
        status=_status(dataset),
        time=read_time(said.first("ContentDate") + said.first("ContentTime").partition(".")[0]),
        addendum=only,
        report=report.removeprefix(f"{_ADDENDUM}:\n") if only else report,
    )


def _status(dataset: "Dataset") -> Status:
    if text_of(dataset, "PreliminaryFlag").upper() == "PRELIMINARY":
        return Status.PRELIMINARY
    complete = text_of(dataset, "CompletionFlag").upper() == "COMPLETE"
    verified = text_of(dataset, "VerificationFlag").upper() == "VERIFIED"
    if not (complete and verified) and text_of(dataset, "PreliminaryFlag").upper() != "FINAL":
        return Status.PRELIMINARY
    return Status.CORRECTED if dataset.get("PredecessorDocumentsSequence") else Status.FINAL


def _gather(item: "Dataset", heading: str, parts: list[str], depth: int) -> None:
    """Add the texts below a container, under its heading or their own names."""
    if depth > _MAX_DEPTH:
        return
    for child in item.get("ContentSequence") or []:
        kind, name = text_of(child, "ValueType").upper(), _name(child)
        if kind == "CONTAINER":
            _gather(child, name, parts, depth + 1)
        elif kind == "TEXT":
            own = heading or name
            line = f"{own.upper()}:"
            # A heading that returns after another one begins its section again.
            if own and line != next((p for p in reversed(parts) if p.endswith(":")), ""):
                parts += ["", line] if parts else [line]
            parts.append(str(child.get("TextValue", "")).replace("\r\n", "\n").strip())
            if child.get("ContentSequence"):
                _gather(child, heading, parts, depth + 1)


def _name(item: "Dataset", part: str = "CodeMeaning") -> str:
    sequence = item.get("ConceptNameCodeSequence")
    return text_of(sequence[0], part) if sequence else ""
