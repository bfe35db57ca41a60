"""Rejection notes: what takes results back that a PACS has.

A note is a Key Object Selection that names the objects and why; a PACS that knows such notes hides
or removes them.

Source: IHE Radiology, Image Object Change Management (IOCM).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from cxrtext.errors import ConfigError, DataError
from cxrtext.pacs import need
from cxrtext.pacs.identity import MANUFACTURER, NUMBERS, uid
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.building import series_attributes, silent
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.image import PATIENT, STUDY
from cxrtext.pacs.results.report import observer
from cxrtext.pacs.results.sending import Delivery, send_results

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

Reason = Literal["quality", "safety"]


def reject(
    folder: ResultsFolder, results: Sequence[Kept], reason: Reason = "quality"
) -> list[Kept]:
    """Write or find rejection notes, one a study, model and image; the results are revoked."""
    need("highdicom")
    groups: dict[tuple[str, ...], list[Kept]] = {}
    for one in results:
        groups.setdefault((one.study, one.source, one.patient_id, one.model), []).append(one)
    notes = []
    for some in groups.values():
        some = sorted(some, key=lambda one: one.instance)
        instance = uid("reject", reason, *(one.instance for one in some))
        note = folder.find(instance)
        if note is None:
            first = some[0]
            note = folder.put(
                _note(folder, some, instance, reason), kind="reject", source=first.source,
                study_id=first.study_id, patient_id=first.patient_id, sentence="",
                probability=None, calibrated=False, model=first.model,
            )  # fmt: skip
        folder.note_revoked([one.instance for one in some])
        notes.append(note)
    return notes


def revoke(
    folder: ResultsFolder,
    results: Sequence[Kept],
    peers: Mapping[str, Peer],
    reason: Reason = "quality",
) -> dict[str, Delivery]:
    """Take results back; each peer is sent notes of those that it was sent, and of no others.

    Gives what each got.  What was not delivered is sent by the next call (ConfigError: a peer is
    not in the file, or not opened for writing; PeerError).
    """
    had = folder.peers()
    names = sorted({name for one in results for name in had.get(one.instance, ())})
    for name in names:
        if name not in peers:
            raise ConfigError(f"{name}: has results to take back, and is not in the file")
        peers[name].require_write()
    of_peers = {n: [one for one in results if n in had.get(one.instance, ())] for n in names}
    notes = {name: reject(folder, some, reason) for name, some in of_peers.items()}
    folder.note_revoked([one.instance for one in results])
    return {n: send_results(folder, some, peers[n]) for n, some in notes.items()}


def _note(
    folder: ResultsFolder, results: Sequence[Kept], instance: str, reason: Reason
) -> "Dataset":
    from highdicom.ko import KeyObjectSelection, KeyObjectSelectionDocument
    from pydicom.sr.codedict import codes

    title = {
        "quality": codes.DCM.RejectedForQualityReasons,
        "safety": codes.DCM.RejectedForPatientSafetyReasons,
    }
    named = [_read(folder, one) for one in results]
    with silent():
        built = KeyObjectSelectionDocument(
            evidence=named,
            content=KeyObjectSelection(
                document_title=title[reason],
                referenced_objects=named,
                observer_device_context=observer(results[0].model),
            ),
            series_instance_uid=uid("reject series", instance),
            series_number=NUMBERS["reject"],
            sop_instance_uid=instance,
            instance_number=1,
            manufacturer=MANUFACTURER,
        )
        built.SpecificCharacterSet = "ISO_IR 192"
        for keyword in dict.fromkeys((*PATIENT, *STUDY)):
            if keyword in named[0]:
                built[keyword] = named[0][keyword]
        return series_attributes("reject", built, results[0].model, datetime.now())


def _read(folder: ResultsFolder, kept: Kept) -> "Dataset":
    from pydicom import dcmread

    path = folder.path / kept.file
    if not folder.is_whole(kept):
        raise DataError(
            f"{path}: is gone or changed; make it again (gateway results make), then revoke it"
        )
    with silent():
        return dcmread(path, stop_before_pixels=True)
