"""Receiving DICOM objects: a C-STORE service that answers success when they are on disk.

Whatever an allowed peer sends is kept and answered 0000, and sorted out later: Orthanc ends a push
at the first failure.  A700 says that there is no room.  No file is named by what was sent.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_file_meta_info
from pydicom.uid import UID
from pynetdicom import AE, evt
from pynetdicom.presentation import AllStoragePresentationContexts
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]

from cxrtext.errors import ConfigError, CxrTextError, DiskError
from cxrtext.images.dicom.file import ALLOWED
from cxrtext.images.source import quiet
from cxrtext.pacs.dimse.association import silent_pynetdicom
from cxrtext.pacs.dimse.port import FROM_ONE, AssociationPort, RejectedError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import ListenerCounts
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.ports import DicomPort, Served, is_within
from cxrtext.pacs.tls import OPENING_S

if TYPE_CHECKING:
    from pynetdicom.events import Event

SUCCESS, PROCESSING_FAILURE, OUT_OF_RESOURCES, CANNOT_UNDERSTAND = 0x0000, 0x0110, 0xA700, 0xC000
"""Statuses of C-STORE (PS3.4, B.2.3)."""

_MESSAGES_WAITING = 4  # messages of a peer that wait at a time; we offer no asynchronous operations


class _Overflow(BytesIO):
    """Stands for an object that is larger than allowed; takes the rest of it, and keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class Listener(Served):
    """A C-STORE (and C-ECHO) service on a port.

    Args:
        peers: Who may send, each with its titles, and from its addresses where it has any.
        say: Takes a line for the log; it holds nothing of an object.
        idle_s: How long a peer may send nothing, within a message or between two.
    """

    _server: AssociationPort

    def __init__(
        self,
        inbox: Inbox,
        at: DicomPort,
        peers: Iterable[Peer],
        say: Callable[[str], None],
        *,
        idle_s: float = 60.0,
    ) -> None:
        self._inbox, self._at, self._say = inbox, at, say
        self._counts = ListenerCounts(inbox, "dicom", lambda: self.associations)
        self._peers = _senders(peers)
        silent_pynetdicom()
        entity = AE(ae_title=at.title)
        entity.maximum_associations = 4 * at.associations  # as it counts: those that end, too
        entity.maximum_pdu_size = 2**17
        entity.dimse_timeout = entity.network_timeout = idle_s
        entity.acse_timeout = min(idle_s, OPENING_S)
        for context in AllStoragePresentationContexts:
            entity.add_supported_context(str(context.abstract_syntax), sorted(ALLOWED))
        entity.add_supported_context(Verification)
        handlers: list[Any] = [
            (evt.EVT_C_STORE, self._store),
            (evt.EVT_PDU_RECV, self._look_at_size),
            (evt.EVT_DIMSE_RECV, self._look_at_queue),
            (evt.EVT_ACCEPTED, lambda _: self._counts.add("accepted")),
            (evt.EVT_ABORTED, lambda _: self._counts.add("cut")),
        ]
        self._ae, self._quiet = entity, ExitStack()
        super().__init__(
            (at.host, at.port),
            lambda address: AssociationPort(
                entity, address, tls=at.context(), idle_s=idle_s, handlers=handlers,
                from_one=max(FROM_ONE, at.associations), group=self._group, decide=self._decide,
                refused=self._refused,
            ),
        )  # fmt: skip

    def start(self) -> None:
        self._quiet.enter_context(quiet())  # warnings hold what was sent, too
        self._counts.start()
        super().start()

    def close(self) -> None:
        """Take no more; what is under way is cut off, and not acknowledged."""
        super().close()
        for association in self._ae.active_associations:
            with suppress(Exception):
                association.abort()
        self._counts.close()
        self._quiet.close()

    @property
    def associations(self) -> int:
        return len(self._server.open())

    def update(self, at: DicomPort, peers: Iterable[Peer]) -> None:
        """Take new associations by other peers and TLS; those that are open stay (ConfigError)."""
        self._peers, self._server.tls = _senders(peers), at.context()

    def _group(self, address: str) -> str | None:
        """The peer that an address is of, "" for no certain one; None if nobody may send there."""
        named = (peer.name for peer in self._peers if is_within(address, peer.addresses))
        closed = all(peer.addresses for peer in self._peers if peer.sends_as)
        return next(named, None if closed else "")

    def _decide(self, calling: str, called: str, address: str) -> str:
        peer = {title: peer for peer in self._peers for title in peer.sends_as}.get(calling)
        if peer is None:
            why = f"no peer may send as '{calling}'; if one does, add it to its titles"
            raise RejectedError(why, 1, 1, 3)
        if peer.addresses and not is_within(address, peer.addresses):
            why = f"{peer.name} may not send as '{calling}' from there; or add it to its addresses"
            raise RejectedError(why, 1, 1, 3)
        if called != self._at.title:
            why = f"it calls '{called}', and this is '{self._at.title}'; set that title there"
            raise RejectedError(why, 1, 1, 7)
        opened, most = self._server.open(), self._at.associations
        if len(opened) >= most:
            raise RejectedError(f"{most} associations are open, which is the most", 2, 3, 2)
        if sum(bool(one.sends_as) for one in self._peers) > 1:
            most = max(1, most // 2)
        if opened.count(peer.name) >= most:
            why = f"{peer.name} has {most} associations open, which is the most of one peer"
            raise RejectedError(why, 2, 3, 2)
        return peer.name

    # --- events, each in the thread of its association ---

    def _store(self, event: "Event") -> Dataset | int:
        data = event.request.DataSet  # type: ignore[union-attr]
        assert data is not None  # noqa: S101 - requests without one are no valid ones
        peer = self._server.peers[event.assoc]
        if isinstance(data, _Overflow):
            limit = self._at.object_mb
            self._say(f"{peer}: an object is larger than {limit} MiB and was not kept")
            return _status(CANNOT_UNDERSTAND, f"larger than {limit} MiB")
        try:
            self._inbox.put(peer, [_file_head(event), data.getbuffer()])
        except DiskError as error:
            self._say(f"{peer}: refused with A700: {error}")
            return _status(OUT_OF_RESOURCES, "no room")
        except CxrTextError as error:
            self._say(f"{peer}: refused with 0110: {error}")
            return _status(PROCESSING_FAILURE, "cannot be kept now")
        return SUCCESS

    def _look_at_size(self, event: "Event") -> None:
        message = event.assoc.dimse.message
        if message is None or message.data_set is None or isinstance(message.data_set, _Overflow):
            return
        if message.data_set.tell() > self._at.object_mb * 2**20:
            message.data_set = _Overflow()

    def _look_at_queue(self, event: "Event") -> None:
        if event.assoc.dimse.msg_queue.qsize() > _MESSAGES_WAITING:
            event.assoc.dul.event_queue.put("Evt19")  # it does not wait for answers: cut it off

    def _refused(self, address: str, why: str) -> None:
        self._counts.add("refused")
        self._say(f"connection from {address} refused: {why}")


def _senders(peers: Iterable[Peer]) -> tuple[Peer, ...]:
    found = tuple(peers)
    if not any(peer.sends_as for peer in found):
        raise ConfigError("no peer may send: give one the title that it sends with")
    return found


def _status(code: int, comment: str) -> Dataset:
    status = Dataset()
    status.Status = code
    status.ErrorComment = comment
    return status


def _file_head(event: "Event") -> bytes:
    """Preamble and file meta information before the object's own bytes."""
    buffer = DicomBytesIO()
    buffer.write(b"\0" * 128 + b"DICM")
    place = buffer.tell()
    try:
        with quiet():
            write_file_meta_info(buffer, event.file_meta)
    except Exception:  # noqa: BLE001 - a UID that is none raises anything
        meta = FileMetaDataset()
        meta.TransferSyntaxUID = UID(event.context.transfer_syntax)
        buffer.seek(place)
        write_file_meta_info(buffer, meta, enforce_standard=False)
    return bytes(buffer.getvalue())
