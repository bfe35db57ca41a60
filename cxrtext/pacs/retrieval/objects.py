"""Objects taken from a peer, whole: each the one that was asked for, and one that may enter.

The rules are those of import (`cxrtext.datasets.admission`), asked before pixels are fetched by
what the peer says of the object, and again by the object's own header.
"""

import errno
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.admission import NEEDED, decide
from cxrtext.datasets.admission.ids import IDS, is_uid, object_ids
from cxrtext.errors import DiskError, ImageError, WorkError
from cxrtext.files import replacing
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import NotDicomError, read_wanted
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.faults import AnswerError
from cxrtext.pacs.inbox.queue import require_space
from cxrtext.pacs.query import Instance, is_report

RESERVE_BYTES = 512 * 2**20  # space that is left free on the disk
NO_UID = "no UID by which it can be asked for"
TOO_LARGE = "larger than limits.object_mb"
FEWER = "lists fewer images of a study than it counts; is it busy storing?"


@dataclass(frozen=True, slots=True)
class Listed:
    """The instances of a study: those that can be asked for, and how many cannot."""

    instances: tuple[Instance, ...]
    unusable: int

    def is_short_of(self, counted: str) -> bool:
        """Whether there are fewer than the peer counts, where it says a number."""
        here = len(self.instances) + self.unusable
        return here < (int(counted) if counted.isdecimal() else 0)


def list_study(source: DicomWeb, study: str) -> Listed:
    """Ask for a study's instances, each once."""
    found: dict[str, Instance] = {}
    unusable = 0
    for said in source.instances(study):
        instance = said.first("SOPInstanceUID")
        series = said.first("SeriesInstanceUID")
        if said.first("StudyInstanceUID") not in ("", study):
            raise AnswerError(source.name, "lists images of another study than was asked for")
        if is_uid(instance) and is_uid(series):
            found.setdefault(instance, Instance(study, series, instance, said))
        else:
            unusable += 1
    return Listed(tuple(found.values()), unusable)


def take(source: DicomWeb, instance: Instance, path: Path, number: str = "") -> str:
    """Fetch an object into a file, whole or not at all; gives why it may not enter, or "".

    ``number`` is Orthanc's own, of the copy that is meant.
    """
    require_space(path.parent, RESERVE_BYTES)
    try:
        with replacing(path) as temporary:
            source.fetch(instance, temporary, number)
            left = _refused(source.name, instance, temporary)
        if left:
            path.unlink()
        return left
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskError(
                f"{path.parent}: the disk is full; make room; it is tried again"
            ) from None
        raise WorkError(f"{path.parent}: {error.strerror}; check the disk") from None


def _refused(peer: str, instance: Instance, path: Path) -> str:
    """Why an object may not enter, by its own header; "" where it may."""
    wanted = [*NEEDED, *IDS]
    try:
        said = described(read_wanted(path, wanted), wanted)
    except NotDicomError:
        raise AnswerError(peer, "sent something that is no DICOM object") from None
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
