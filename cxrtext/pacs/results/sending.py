"""Results sent to a peer: by STOW-RS where it has DICOMweb, else by C-STORE.

What the peer has already is not sent again, whoever sent it.  That sending began is noted before a
byte is sent: whoever takes results back knows then of every peer that may have them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cxrtext.errors import DataError
from cxrtext.pacs import need
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.dimse.association import Associations
from cxrtext.pacs.faults import AnswerError, BusyError, GoneError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.building import silent
from cxrtext.pacs.results.folder import Kept, ResultsFolder

if TYPE_CHECKING:
    from pydicom.dataset import Dataset
    from pynetdicom.association import Association

AT_ONCE = 64 * 2**20  # bytes of the objects of one request, unless a single one is larger
DUPLICATE = 0x0111


@dataclass(frozen=True, slots=True)
class Delivery:
    sent: int
    there: int  # that the peer had already


def send_results(folder: ResultsFolder, results: Sequence[Kept], peer: Peer) -> Delivery:
    """Send results to a peer, noting each in the folder; after an error it goes on from there.

    One that was taken back, be it meanwhile, is not sent.
    """
    peer.require_write()
    known = folder.sent_to(peer.name)
    new = [one for one in dict.fromkeys(results) if one.instance not in known]
    for one in new:
        if not folder.is_whole(one):
            raise DataError(f"{folder.path / one.file}: is gone or changed; make it again")
    if not new:
        return Delivery(0, len(results))
    sent = (_by_dimse if peer.dicomweb is None else _by_web)(folder, new, peer)
    return Delivery(sent, len(results) - sent)


def _by_web(folder: ResultsFolder, results: Sequence[Kept], peer: Peer) -> int:
    web = DicomWeb(peer)
    sent = 0
    try:
        for study in dict.fromkeys(one.study for one in results):
            some = [one for one in results if one.study == study]
            there = {found.first("SOPInstanceUID") for found in web.instances(study)}
            folder.note_sent([one.instance for one in some if one.instance in there], peer.name)
            for batch in _batches(folder, [one for one in some if one.instance not in there]):
                batch = folder.begin(batch, peer.name)
                if not batch:
                    continue
                web.store([(folder.path / one.file).read_bytes() for one in batch], study)
                folder.note_sent([one.instance for one in batch], peer.name)
                sent += len(batch)
    finally:
        web.close()
    return sent


def _batches(folder: ResultsFolder, results: Sequence[Kept]) -> list[list[Kept]]:
    batches: list[list[Kept]] = []
    room = 0
    for one in results:
        size = (folder.path / one.file).stat().st_size
        if not batches or size > room:
            batches.append([])
            room = AT_ONCE
        batches[-1].append(one)
        room -= size
    return batches


def _by_dimse(folder: ResultsFolder, results: Sequence[Kept], peer: Peer) -> int:
    need("pynetdicom")
    from pydicom import dcmread
    from pydicom.uid import ExplicitVRLittleEndian
    from pynetdicom import build_context

    classes = dict.fromkeys(one.klass for one in results)
    contexts = [build_context(klass, [ExplicitVRLittleEndian]) for klass in classes]
    association = Associations(peer).open(contexts)
    taken = {context.abstract_syntax for context in association.accepted_contexts}
    sent = 0
    try:
        for one in results:
            if one.klass not in taken:
                raise AnswerError(
                    peer.name,
                    f"does not take objects of the kind {one.kind.upper()}; have it granted",
                )
            if not folder.begin([one], peer.name):
                continue
            with silent():
                status = _stored(association, dcmread(folder.path / one.file), peer)
            # Warnings (Bxxx) say that it was stored, though with changes.
            if status not in (0x0000, DUPLICATE) and not 0xB000 <= status <= 0xBFFF:
                raise AnswerError(peer.name, f"did not take an object ({status:04X})")
            folder.note_sent([one.instance], peer.name)
            sent += status != DUPLICATE
    finally:
        if association.is_established:
            association.release()
    return sent


def _stored(association: "Association", built: "Dataset", peer: Peer) -> int:
    try:
        answer = association.send_c_store(built)
    except RuntimeError:
        raise GoneError(peer.name, "ended the association while results were sent") from None
    status = answer.get("Status")
    if status is None:
        raise BusyError(peer.name, "was silent too long, or ended the association")
    return int(status)
