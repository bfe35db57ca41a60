"""What is asked of a PACS, and what it answers."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Here, and so before any thread asks: two threads that import pydicom at the same time fail.
from pydicom.datadict import tag_for_keyword

from cxrtext.datasets.admission import NEEDED, Decision, decide
from cxrtext.datasets.admission.decide import RADIOGRAPHS
from cxrtext.datasets.admission.ids import IDS
from cxrtext.datasets.importing.reports.sr import CLASSES as REPORTS
from cxrtext.images.dicom.described import SEQUENCES, Described
from cxrtext.pacs.identity import is_own_series

STUDY_FIELDS = (*("StudyInstanceUID", "StudyDate", "StudyTime", "NumberOfStudyRelatedInstances"),)
_COMPARED = (
    *("PatientName", "PatientBirthDate", "PatientSex", "PatientAge", "StudyDate", "StudyTime"),
    *("Laterality", "InstitutionName"),
)
INSTANCE_FIELDS = (
    *dict.fromkeys(("SeriesInstanceUID", *NEEDED, *IDS, "AcquisitionDate", *_COMPARED)),
)
"""What is asked of instances: what decides whether one may enter, and what a correction changes."""

MAX_ROWS = 100_000  # of one answer
UNCUT = 90  # rows of an answer that no server cuts off: the lowest cap known is 100


@dataclass(frozen=True, slots=True)
class Question:
    """Which studies are asked for; "" is any."""

    day: str = ""  # YYYYMMDD, or YYYYMMDD-YYYYMMDD
    times: tuple[int, int] | None = None  # first and last second of the day
    modality: str = ""
    study: str = ""
    offset: int = 0

    def matches(self) -> dict[str, str]:
        times = ""
        if self.times is not None:
            first, last = map(_clock, self.times)
            times = f"{first}.000000-{last}.999999"
        found = {
            "StudyDate": self.day,
            "StudyTime": times,
            "ModalitiesInStudy": self.modality,
            "StudyInstanceUID": self.study,
        }
        return {keyword: value for keyword, value in found.items() if value}


def day_of(row: Described) -> str:
    """The day of a study as YYYYMMDD; before DICOM 3.0 it was written with dots."""
    return row.first("StudyDate").replace(".", "")[:8]


def _clock(second: int) -> str:
    return f"{second // 3600:02d}{second // 60 % 60:02d}{second % 60:02d}"


@dataclass(frozen=True, slots=True)
class Instance:
    study: str
    series: str
    instance: str
    said: Described

    @property
    def fingerprint(self) -> str:
        """A digest of what the peer says of it: another one after a correction."""
        fields = sorted((k, list(v)) for k, v in self.said.texts.items() if k in INSTANCE_FIELDS)
        return hashlib.sha256(repr(fields).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def day(self) -> str:
        return day_of(self.said)

    def decide(self) -> Decision:
        """Whether it may enter, as far as the peer's answer tells; what it leaves out is unknown.

        The rules are those of import.  They are asked again once the object is here.
        """
        if is_report(self.said):
            return Decision()
        texts = dict(self.said.texts)
        if not self.said.first("Rows"):
            texts["Rows"] = ("1",)
        if not self.said.first("SOPClassUID") and not self.said.first("Modality"):
            texts["SOPClassUID"] = (RADIOGRAPHS[0],)
        return decide(Described(texts))


def is_report(said: Described) -> bool:
    """Whether an object is a structured report, and not one of this program's."""
    return said.first("SOPClassUID") in REPORTS and not is_own_series(said)


def from_json(item: Mapping[str, Any], keywords: Iterable[str]) -> Described:
    """Take texts out of an object of DICOM JSON (PS3.18 annex F); a damaged value gives none."""
    texts = {}
    for keyword in keywords:
        if found := _texts(item, keyword):
            texts[keyword] = found
    return Described(texts)


def _texts(item: object, keyword: str) -> list[str]:
    element = item.get(f"{tag_for_keyword(keyword):08X}") if isinstance(item, dict) else None
    values = element.get("Value") if isinstance(element, dict) else None
    if not isinstance(values, list):
        return []
    if (parts := SEQUENCES.get(keyword)) is not None:
        return [text for one in values[:64] for part in parts for text in _texts(one, part)]
    return [_text(one) for one in values[:64]]


def _text(value: object) -> str:
    if isinstance(value, dict):  # a person's name
        value = "=".join(str(value.get(k) or "") for k in ("Alphabetic", "Ideographic", "Phonetic"))
        value = value.rstrip("=")
    return "" if value is None else str(value).replace("\0", "").strip()[:1024]
