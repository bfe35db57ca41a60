"""Receiving DICOM objects: a C-STORE service that answers success when they are on disk.

Whatever an allowed peer sends is kept and answered 0000, and sorted out later: Orthanc ends a push
at the first failure.  A700 says that there is no room.  No file is named by what was sent.
"""

import ssl
import threading
from collections.abc import Callable, Mapping
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
from cxrtext.pacs.dimse.association import silent_pynetdicom
from cxrtext.pacs.dimse.port import AssociationPort
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


class _Overflow(BytesIO):
    """Stands for an object that is larger than allowed; takes the rest of it, and keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class Listener:
    """A C-STORE (and C-ECHO) service on a port; a context manager, which it serves inside.

    Args:
        allowed: Peers by the application entity title that they call with: the name that each is
            known by.
        port: 0 takes a free one.
        tls: With it, connections are encrypted; it may ask for certificates of peers.
        say: Takes a line for the log; it holds nothing of an object.
    """

    def __init__(
        self,
        inbox: Inbox,
        allowed: Mapping[str, str],
        *,
        ae_title: str = AE_TITLE,
        host: str = "127.0.0.1",
        port: int = PORT,
        caps: Caps | None = None,
        tls: ssl.SSLContext | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not allowed:
            raise ConfigError("no peer may send: name their titles with --allow, or in peers.yaml")
        caps = caps or Caps()
        self._inbox, self._allowed, self._caps, self._say = inbox, dict(allowed), caps, say
        self._counts = ListenerCounts(inbox, "dicom", lambda: self.associations)
        silent_pynetdicom()
        try:
            self._ae = AE(ae_title=ae_title)
            self._ae.require_calling_aet = list(allowed)
        except (TypeError, ValueError):
            raise ConfigError("a title has 1 to 16 characters of ASCII without backslash") from None
        self._ae.require_called_aet = True
        self._ae.maximum_associations = caps.associations
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
            (evt.EVT_REJECTED, self._refused),
        ]
        try:
            self._server = AssociationPort(
                self._ae, (host, port), tls=tls, idle_s=caps.idle_s,
                refused=self._not_taken, handlers=handlers,
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
        return len(self._ae.active_associations)

    # --- events, each in the thread of its association ---

    def _store(self, event: "Event") -> Dataset | int:
        data = event.request.DataSet  # type: ignore[union-attr]
        assert data is not None  # noqa: S101 - requests without one are no valid ones
        peer = self._peer(event)
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

    def _refused(self, event: "Event") -> None:
        self._counts.add("refused")
        asked: Any = event.assoc.requestor.primitive
        calling = _title(asked and asked.calling_ae_title)
        called = _title(asked and asked.called_ae_title)
        where = event.assoc.requestor.address_info
        address = "?" if where is None else where.address
        if calling not in self._allowed:
            why = f"no peer may send as '{calling}'; if it is one, give --allow '{calling}'"
        elif called != self._ae.ae_title:
            why = f"it calls '{called}', and this is '{self._ae.ae_title}'; set that title there"
        else:
            why = f"{self._caps.associations} associations are open, which is the most"
        self._say(f"association from {address} refused: {why}")

    def _not_taken(self, address: str, why: str) -> None:
        """A connection that did not come to ask for an association."""
        self._counts.add("refused")
        self._say(f"connection from {address} refused: {why}")

    def _peer(self, event: "Event") -> str:
        return self._allowed[_title(event.assoc.requestor.ae_title)]


def _title(value: str | None) -> str:
    """A title as it may be shown: what was sent may be anything."""
    return "".join(c for c in value or "" if c.isprintable()).strip()[:16]


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
