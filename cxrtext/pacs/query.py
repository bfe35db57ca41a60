"""Questions to a PACS, and its answers."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Imported before any thread starts: two threads that import pydicom at once fail.
from pydicom.datadict import tag_for_keyword

from cxrtext.datasets.admission import NEEDED, Decision, decide
from cxrtext.datasets.admission.decide import RADIOGRAPHS
from cxrtext.datasets.admission.ids import IDS
from cxrtext.datasets.importing.reports.sr import CLASSES as REPORTS
from cxrtext.images.dicom.described import SEQUENCES, Described
from cxrtext.pacs.identity import is_own_series

STUDY_FIELDS = ("StudyInstanceUID", "StudyDate", "StudyTime", "NumberOfStudyRelatedInstances")
_COMPARED = (
    *("PatientName", "PatientBirthDate", "PatientSex", "PatientAge", "StudyDate", "StudyTime"),
    *("Laterality", "InstitutionName"),
)
INSTANCE_FIELDS = tuple(
    dict.fromkeys(("SeriesInstanceUID", *NEEDED, *IDS, "AcquisitionDate", *_COMPARED))
)
"""What we ask about instances: what decides whether one may enter, and what corrections change."""

MAX_ROWS = 100_000  # of one answer
UNCUT = 90  # no server cuts off an answer of fewer rows: the lowest known cap is 100


@dataclass(frozen=True, slots=True)
class Question:
    """Which studies to ask for; "" means any."""

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
        keys = {
            "StudyDate": self.day,
            "StudyTime": times,
            "ModalitiesInStudy": self.modality,
            "StudyInstanceUID": self.study,
        }
        return {keyword: value for keyword, value in keys.items() if value}


def day_of(row: Described) -> str:
    """The day of a study as YYYYMMDD; before DICOM 3.0 days were written with dots."""
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
        """A digest of what the peer says about it; a correction changes it."""
        fields = sorted((k, list(v)) for k, v in self.said.texts.items() if k in INSTANCE_FIELDS)
        return hashlib.sha256(repr(fields).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def day(self) -> str:
        return day_of(self.said)

    def decide(self) -> Decision:
        """Whether it may enter, by the rules of import, judging by the peer's answer alone.

        What the answer leaves out does not count against it; the object itself is checked later.
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
    """Whether an object is a structured report that this program did not make."""
    return said.first("SOPClassUID") in REPORTS and not is_own_series(said)


def from_json(item: Mapping[str, Any], keywords: Iterable[str]) -> Described:
    """Take texts out of a DICOM JSON object (PS3.18 annex F); a damaged value gives none."""
    texts = {keyword: _texts(item, keyword) for keyword in keywords}
    return Described({keyword: values for keyword, values in texts.items() if values})


def values_of(item: object, tag: str) -> list[Any]:
    """The values of an element of DICOM JSON; empty if it is missing or damaged."""
    element = item.get(tag) if isinstance(item, dict) else None
    values = element.get("Value") if isinstance(element, dict) else None
    return values if isinstance(values, list) else []


def _texts(item: object, keyword: str) -> list[str]:
    values = values_of(item, f"{tag_for_keyword(keyword):08X}")[:64]
    if (parts := SEQUENCES.get(keyword)) is not None:
        return [text for value in values for part in parts for text in _texts(value, part)]
    return [_text(value) for value in values]


def _text(value: object) -> str:
    if isinstance(value, dict):  # a person's name
        value = "=".join(str(value.get(k) or "") for k in ("Alphabetic", "Ideographic", "Phonetic"))
        value = value.rstrip("=")
    return "" if value is None else str(value).replace("\0", "").strip()[:1024]
