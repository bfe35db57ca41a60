"""Rejection notes, which take back results that a PACS has.

A note is a Key Object Selection that names objects and the reason; a PACS that supports these notes
hides or removes the objects.

Source: IHE Radiology, Image Object Change Management (IOCM).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from cxrtext.errors import ConfigError, DataError
from cxrtext.pacs import need
from cxrtext.pacs.faults import PeerError
from cxrtext.pacs.identity import MANUFACTURER, NUMBERS, uid
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.building import series_attributes, silent
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.image import PATIENT, STUDY
from cxrtext.pacs.results.report import observer
from cxrtext.pacs.results.sending import send_results

if TYPE_CHECKING:
    from pydicom.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Revoked:
    results: int  # taken back
    told: Mapping[str, int]  # notes sent, by peer
    faults: tuple[str, ...]  # why a peer has not got all its notes; the next call sends them


def revoke(
    folder: ResultsFolder,
    which: Callable[[Kept], bool],
    peers: Mapping[str, Peer],
) -> Revoked:
    """Take results back, and tell each peer about those that it has or may have, and no others.

    First they are noted as taken back, and from then on none is sent.  Then each peer is told
    everything it was not told yet, so that any later call continues where an earlier one ended.
    """
    chosen = [one.instance for one in folder.all() if one.kind != "reject" and which(one)]
    folder.note_revoked(chosen)
    holders, had = folder.peers(begun=True), dict[str, list[Kept]]()
    for one in folder.all():
        for name in holders.get(one.instance, ()) if one.revoked else ():
            had.setdefault(name, []).append(one)
    told, faults = dict[str, int](), list[str]()
    for name, some in sorted(had.items()):
        known = folder.sent_to(name)
        groups = [group for group in _groups(some) if _uid(group) not in known]
        notes = []
        for group in groups:
            try:
                notes.append(_written(folder, group))
            except DataError as error:  # a file is gone; go on with the others
                faults.append(str(error))
        if notes and name not in peers:
            faults.append(f"{name}: has results to take back, but is not among the peers; add it")
        elif notes:
            try:
                told[name] = send_results(folder, notes, peers[name]).sent
            except (PeerError, ConfigError) as error:
                faults.append(str(error))
    return Revoked(len(chosen), told, tuple(faults))


def _groups(results: Sequence[Kept]) -> Collection[Sequence[Kept]]:
    """Results that share a note: the same study, image, model and time of taking back."""
    groups: dict[tuple[str | None, ...], list[Kept]] = {}
    for one in sorted(results, key=lambda one: one.instance):
        key = (one.study, one.source, one.patient_id, one.model, one.revoked)
        groups.setdefault(key, []).append(one)
    return groups.values()


def _uid(results: Sequence[Kept]) -> str:
    """The UID of their note."""
    return uid("reject", "quality", *(one.instance for one in results))


def _written(folder: ResultsFolder, results: Sequence[Kept]) -> Kept:
    need("highdicom")
    instance, first = _uid(results), results[0]
    if there := folder.find(instance):
        return there
    return folder.put(
        _note(folder, results, instance), kind="reject", source=first.source,
        study_id=first.study_id, patient_id=first.patient_id, sentence="", model=first.model,
    )  # fmt: skip


def _note(folder: ResultsFolder, results: Sequence[Kept], instance: str) -> "Dataset":
    from highdicom.ko import KeyObjectSelection, KeyObjectSelectionDocument
    from pydicom.sr.codedict import codes

    named = [_read(folder, one) for one in results]
    with silent():
        built = KeyObjectSelectionDocument(
            evidence=named,
            content=KeyObjectSelection(
                document_title=codes.DCM.RejectedForQualityReasons,
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
        raise DataError(f"{path}: is gone or changed; restore it from a copy, then revoke it")
    with silent():
        return dcmread(path, stop_before_pixels=True)
