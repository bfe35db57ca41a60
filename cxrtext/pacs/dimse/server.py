"""Receiving DICOM objects: a C-STORE service that answers success when they are on disk.

Whatever an allowed peer sends is kept and answered 0000, and sorted out later: Orthanc ends a push
at the first failure.  A700 says that there is no room.  No file is named by what was sent.
"""

import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Self

from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_file_meta_info
from pydicom.uid import UID
from pynetdicom import AE, evt
from pynetdicom.presentation import AllStoragePresentationContexts
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]

from cxrtext.errors import ConfigError, CxrTextError, DiskError, WorkError
from cxrtext.images.dicom.file import ALLOWED
from cxrtext.images.source import quiet
from cxrtext.pacs.addresses import Networks, is_within, read_networks
from cxrtext.pacs.dimse.association import silent_pynetdicom
from cxrtext.pacs.dimse.port import FROM_ONE, AssociationPort, RejectedError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import ListenerCounts
from cxrtext.pacs.tls import OPENING_S

if TYPE_CHECKING:
    from pynetdicom.events import Event

AE_TITLE = "CXRTEXT"
PORT = 11112
SUCCESS, PROCESSING_FAILURE, OUT_OF_RESOURCES, CANNOT_UNDERSTAND = 0x0000, 0x0110, 0xA700, 0xC000
"""Statuses of C-STORE (PS3.4, B.2.3)."""

_MESSAGES_WAITING = 4  # messages of a peer that wait at a time; we offer no asynchronous operations


@dataclass(frozen=True, slots=True)
class Caps:
    associations: int = 8  # at a time
    object_bytes: int = 256 * 2**20  # held in memory for each of them
    pdu_bytes: int = 2**17
    idle_s: float = 60.0  # without a byte, within a message or between two


@dataclass(frozen=True, slots=True)
class _Senders:
    names: Mapping[str, str]  # by the title that they call with
    networks: Mapping[str, Networks]  # by name; whoever has none sends from anywhere

    def group(self, address: str) -> str | None:
        """The peer that an address is of, "" for no certain one; None if nobody may send there."""
        for name, networks in self.networks.items():
            if is_within(address, networks):
                return name
        return None if set(self.names.values()) <= set(self.networks) else ""

    def name(self, title: str, address: str) -> str:
        """The peer that sends with a title (RejectedError: nobody does, from this address)."""
        name = self.names.get(title)
        if name is None:
            why = f"no peer may send as '{title}'; if one does, add it to its titles"
        elif name in self.networks and not is_within(address, self.networks[name]):
            why = f"{name} may not send as '{title}' from there; or add it to its addresses"
        else:
            return name
        raise RejectedError(why, 1, 1, 3)


class _Overflow(BytesIO):
    """Stands for an object that is larger than allowed; takes the rest of it, and keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class Listener:
    """A C-STORE (and C-ECHO) service on a port; a context manager, which it serves inside.

    Args:
        allowed: Peers by the application entity title that they call with: the name that each is
            known by.
        addresses: Addresses and networks that a peer sends from, by its name; from anywhere
            without any.
        port: 0 takes a free one.
        tls: With it, connections are encrypted; it may ask for certificates of peers.
        say: Takes a line for the log; it holds nothing of an object.
    """

    def __init__(
        self,
        inbox: Inbox,
        allowed: Mapping[str, str],
        *,
        addresses: Mapping[str, Iterable[str]] | None = None,
        ae_title: str = AE_TITLE,
        host: str = "127.0.0.1",
        port: int = PORT,
        caps: Caps | None = None,
        tls: ssl.SSLContext | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        caps = caps or Caps()
        self._inbox, self._caps, self._say = inbox, caps, say
        self._counts = ListenerCounts(inbox, "dicom", lambda: self.associations)
        silent_pynetdicom()
        self._senders = _senders(allowed, addresses or {})
        self._ae = AE(ae_title=ae_title)
        self._ae.maximum_associations = 4 * caps.associations  # as it counts: those that end, too
        self._ae.maximum_pdu_size = caps.pdu_bytes
        self._ae.dimse_timeout = self._ae.network_timeout = caps.idle_s
        self._ae.acse_timeout = min(caps.idle_s, OPENING_S)
        for context in AllStoragePresentationContexts:
            self._ae.add_supported_context(str(context.abstract_syntax), sorted(ALLOWED))
        self._ae.add_supported_context(Verification)
        handlers: list[Any] = [
            (evt.EVT_C_STORE, self._store),
            (evt.EVT_PDU_RECV, self._look_at_size),
            (evt.EVT_DIMSE_RECV, self._look_at_queue),
            (evt.EVT_ACCEPTED, lambda _: self._counts.add("accepted")),
            (evt.EVT_ABORTED, lambda _: self._counts.add("cut")),
        ]
        try:
            self._server = AssociationPort(
                self._ae, (host, port), tls=tls, idle_s=caps.idle_s, handlers=handlers,
                from_one=max(FROM_ONE, caps.associations), group=lambda a: self._senders.group(a),
                decide=self._decide, refused=self._refused,
            )  # fmt: skip
        except OSError as error:
            raise WorkError(
                f"{host}:{port}: {error.strerror}; is another listener running, or the port taken?"
            ) from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._quiet = ExitStack()

    def __enter__(self) -> Self:
        self._quiet.enter_context(quiet())  # warnings hold what was sent, too
        self._counts.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more; what is under way is cut off, and not acknowledged."""
        self._server.shutdown()
        for association in self._ae.active_associations:
            with suppress(Exception):
                association.abort()
        self._server.server_close()
        self._thread.join(5)
        self._counts.close()
        self._quiet.close()

    @property
    def associations(self) -> int:
        return len(self._server.open())

    def update(
        self,
        allowed: Mapping[str, str],
        addresses: Mapping[str, Iterable[str]],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Take new associations by other settings; those that are open stay (ConfigError)."""
        self._senders, self._server.tls = _senders(allowed, addresses), tls

    def _decide(self, calling: str, called: str, address: str) -> str:
        name = self._senders.name(calling, address)
        if called != self._ae.ae_title:
            why = f"it calls '{called}', and this is '{self._ae.ae_title}'; set that title there"
            raise RejectedError(why, 1, 1, 7)
        opened, most = self._server.open(), self._caps.associations
        if len(opened) >= most:
            raise RejectedError(f"{most} associations are open, which is the most", 2, 3, 2)
        if len(set(self._senders.names.values())) > 1:
            most = max(1, most // 2)
        if opened.count(name) >= most:
            why = f"{name} has {most} associations open, which is the most of one peer"
            raise RejectedError(why, 2, 3, 2)
        return name

    # --- events, each in the thread of its association ---

    def _store(self, event: "Event") -> Dataset | int:
        data = event.request.DataSet  # type: ignore[union-attr]
        assert data is not None  # noqa: S101 - requests without one are no valid ones
        peer = self._server.peers[event.assoc]
        if isinstance(data, _Overflow):
            limit = self._caps.object_bytes >> 20
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
        if message.data_set.tell() > self._caps.object_bytes:
            message.data_set = _Overflow()

    def _look_at_queue(self, event: "Event") -> None:
        if event.assoc.dimse.msg_queue.qsize() > _MESSAGES_WAITING:
            event.assoc.dul.event_queue.put("Evt19")  # it does not wait for answers: cut it off

    def _refused(self, address: str, why: str) -> None:
        self._counts.add("refused")
        self._say(f"connection from {address} refused: {why}")


def _senders(allowed: Mapping[str, str], addresses: Mapping[str, Iterable[str]]) -> _Senders:
    if not allowed:
        raise ConfigError("no peer may send: give one the title that it sends with")
    try:
        AE().require_calling_aet = list(allowed)
    except (TypeError, ValueError):
        raise ConfigError("a title has 1 to 16 characters of ASCII without backslash") from None
    return _Senders(dict(allowed), read_networks(addresses))


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
