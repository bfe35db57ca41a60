"""Check objects from a peer: each must be the one we asked for, and may enter.

The rules are those of import (`cxrtext.datasets.admission`).  They are applied to the peer's
description before pixels are fetched, and again to the object's own header.
"""

from dataclasses import dataclass

from cxrtext.datasets.admission import NEEDED, decide
from cxrtext.datasets.admission.ids import IDS, is_uid, object_ids
from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import is_dicom, wanted_of
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.faults import AnswerError
from cxrtext.pacs.query import Instance, is_report

TOO_LARGE = "larger than limits.object_mb"
FEWER = "lists fewer images of a study than it counts; is it busy storing?"


@dataclass(frozen=True, slots=True)
class Listed:
    """The instances of a study that can be asked for, and the number of those that cannot."""

    instances: tuple[Instance, ...]
    unusable: int

    def is_short_of(self, counted: str) -> bool:
        """Whether there are fewer than the peer counts, if it gives a number."""
        here = len(self.instances) + self.unusable
        return here < (int(counted) if counted.isdecimal() else 0)


def list_study(source: DicomWeb, study: str) -> Listed:
    """Ask for a study's instances, each once."""
    instances: dict[str, Instance] = {}
    unusable = 0
    for said in source.instances(study):
        instance = said.first("SOPInstanceUID")
        series = said.first("SeriesInstanceUID")
        if said.first("StudyInstanceUID") not in ("", study):
            raise AnswerError(source.name, "lists images of another study than was asked for")
        if is_uid(instance) and is_uid(series):
            instances.setdefault(instance, Instance(study, series, instance, said))
        else:
            unusable += 1
    return Listed(tuple(instances.values()), unusable)


def why_left_out(peer: str, instance: Instance, data: bytes) -> str:
    """Why an object may not enter, by its own header; "" if it may (AnswerError)."""
    wanted = [*NEEDED, *IDS]
    if not is_dicom(data):
        raise AnswerError(peer, "sent something that is not a DICOM object")
    try:
        said = described(wanted_of(data, wanted), wanted)
    except ImageError:
        raise AnswerError(peer, "sent a damaged object") from None
    ids = object_ids(said)
    if not ids.instance:
        raise AnswerError(peer, "sent a damaged object")
    if ids.instance != instance.instance or said.first("StudyInstanceUID") != instance.study:
        raise AnswerError(peer, "sent another object than was asked for")
    if is_report(said):
        return ""
    decision = decide(said)
    return decision.refused or decision.fault
