"""Associations with a peer over DIMSE, with TLS where its file says so.

Storage is proposed with one presentation context a transfer syntax: peers choose one syntax of a
context for all objects, and refuse those that are stored otherwise.
"""

import logging
import socket
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cxrtext.datasets.admission.decide import RADIOGRAPHS
from cxrtext.errors import ConfigError
from cxrtext.images.dicom.file import ALLOWED
from cxrtext.images.source import quiet
from cxrtext.pacs import need
from cxrtext.pacs.faults import BusyError, DeniedError, GoneError, PeerError, TlsError
from cxrtext.pacs.peers import Dimse, Peer
from cxrtext.pacs.tls import HandshakeError, is_spoken, shake_hands

if TYPE_CHECKING:
    import ssl

    from pynetdicom import AE
    from pynetdicom.association import Association
    from pynetdicom.presentation import PresentationContext

CONNECT_S = 5.0
FIND, GET, MOVE = (f"1.2.840.10008.5.1.4.1.2.2.{n}" for n in (1, 3, 2))  # the Study Root queries
ECHO = "1.2.840.10008.1.1"
_AWAY = "cannot be reached; is it running, on this port?"
LONGEST_UNIT = 2**20  # bytes of a message unit of a peer; we allow less than a tenth of it
_PIECE = 2**18
_REJECTED: dict[tuple[int | None, int | None], str] = {
    (1, 7): "is not called {0.aet!r} (association rejected); correct dimse.aet",
    (1, 3): "does not know {0.our_aet!r} (association rejected); have this title registered "
    "there, with this machine's address, or correct dimse.our_aet",
    (0, 0): "rejects the association without a reason; have the title {0.our_aet!r} registered "
    "there",
}
"""What is said of a rejection, by its source and reason (PS3.8, 9.3.4)."""
TAKEN = RADIOGRAPHS[:2]  # classes of objects that may enter; what is for processing may not


def silent_pynetdicom() -> None:
    """Keep pynetdicom from logging: its lines quote what is sent."""
    need("pynetdicom")
    from pynetdicom import _config

    _config.LOG_HANDLER_LEVEL = "none"
    logger = logging.getLogger("pynetdicom")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL + 1)


def read(
    connection: socket.socket, count: int, longest: int = LONGEST_UNIT, end: float | None = None
) -> bytearray:
    """Read so many bytes, fewer where the connection ends, until ``end`` on the monotonic clock."""
    if count > longest:
        raise OSError("a message unit is longer than was agreed")
    data = bytearray(count)
    view, place = memoryview(data), 0
    while place < count:
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:  # however quickly single bytes come
                raise TimeoutError
            connection.settimeout(left)
        got = connection.recv_into(view[place : place + _PIECE])
        if not got:
            return data[:place]
        place += got
    return data


def shut(connection: socket.socket) -> None:
    """Close a connection; pynetdicom leaves one open whose other side is gone."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def at_once(event: Any) -> None:
    """Send each message at once, and wait for none without end: a handler of new connections.

    TCP holds back the end of a message until its begin is confirmed, which a peer does after 40 ms.
    """
    with suppress(OSError, AttributeError):
        transport = event.assoc.dul.socket
        connection = transport.socket
        transport.recv = lambda count: read(transport.socket, count)
        transport._shutdown_socket = lambda: shut(connection)
        connection.settimeout(event.assoc.network_timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def dimse_of(peer: Peer) -> Dimse:
    """Where a peer is asked over DIMSE (ConfigError where the file does not say)."""
    if peer.dimse is None:
        raise ConfigError(f"{peer.name}: has no dimse in the gateway's file, which this needs")
    return peer.dimse


def storage_contexts() -> "list[PresentationContext]":
    from pynetdicom import build_context

    return [build_context(uid, [syntax]) for uid in TAKEN for syntax in sorted(ALLOWED)]


def keep_answers(event: Any) -> None:
    """Leave what a peer sends to who waits for it: a handler of connections that we open.

    pynetdicom's own thread looks at the same queue.  On a busy machine it passes the barrier that
    is to keep it away, takes an answer out of the middle of others, and drops it as unexpected.
    """
    dimse = event.assoc.dimse
    take = dimse.get_msg
    dimse.get_msg = lambda block=False: take(block=True) if block else (None, None)


def end_now(association: "Association") -> None:
    """Abort an association, and let who waits for an answer on it wait no longer."""
    association.abort()
    association.dimse.msg_queue.put((None, None))


class Associations:
    def __init__(self, peer: Peer) -> None:
        silent_pynetdicom()
        self.name = peer.name
        self.where = dimse_of(peer)
        self.timeout_s = peer.limits.timeout_s

    @cached_property
    def tls(self) -> "ssl.SSLContext | None":
        """What encrypts them; None where the file has no ``tls`` (ConfigError: a file is wrong)."""
        return self.where.tls.client_context() if self.where.tls else None

    def secure(self) -> str:
        """Shake hands over TLS alone; what is spoken, "" without it (ConfigError, PeerError)."""
        if self.tls is None:
            return ""
        try:
            return shake_hands(
                self.where.host,
                self.where.port,
                self.tls,
                min(self.timeout_s, CONNECT_S),
                ca="dimse.tls.ca",
                plain="correct dimse.port, or leave dimse.tls out",
            )
        except HandshakeError as error:
            raise (TlsError if error.lasts else GoneError)(self.name, str(error)) from None
        except OSError:
            raise GoneError(self.name, _AWAY) from None

    def entity(self) -> "AE":
        from pynetdicom import AE

        entity = AE(self.where.our_aet)
        entity.connection_timeout = CONNECT_S
        entity.acse_timeout = min(self.timeout_s, 10.0)
        entity.dimse_timeout = self.timeout_s
        entity.network_timeout = self.timeout_s
        return entity

    def open(
        self,
        contexts: "list[PresentationContext]",
        *,
        scp: bool = False,
        handlers: list[Any] | None = None,
    ) -> "Association":
        """Open an association; with ``scp`` the peer sends objects on it (C-GET)."""
        from pynetdicom import build_role, evt

        roles = [build_role(uid, scp_role=True) for uid in TAKEN] if scp else []
        opened: list[socket.socket] = []
        heard: list[Any] = []  # the first message of the peer alone

        def begun(event: Any) -> None:
            opened.append(event.assoc.dul.socket.socket)
            at_once(event)
            keep_answers(event)

        def said(event: Any) -> None:
            if not heard:
                heard.append(event.pdu)

        try:
            with quiet():
                association = self.entity().associate(
                    self.where.host,
                    self.where.port,
                    contexts,
                    self.where.aet,
                    ext_neg=list(roles),
                    tls_args=(self.tls, self.where.host) if self.tls else None,
                    evt_handlers=[
                        (evt.EVT_CONN_OPEN, begun),
                        (evt.EVT_PDU_RECV, said),
                        *(handlers or []),
                    ],
                )
        except (OSError, UnicodeError):  # pynetdicom: the name of its host
            raise GoneError(
                self.name,
                "nothing has the name of its host; correct dimse.host, or see this machine's DNS",
            ) from None
        if association.is_established:
            return association
        for connection in opened:
            shut(connection)
        raise self._why(heard)

    def _is_open(self) -> bool:
        try:
            with socket.create_connection((self.where.host, self.where.port), CONNECT_S):
                return True
        except OSError:
            return False

    def _why(self, heard: list[Any]) -> PeerError:
        """Why a peer does not associate, by what it sent.

        pynetdicom takes a rejection that comes before it looks for one for a connection that was
        never made.
        """
        from pynetdicom.pdu import A_ASSOCIATE_RJ

        if not (heard and isinstance(heard[0], A_ASSOCIATE_RJ)):
            return self._why_nothing(heard=bool(heard))
        source, reason = heard[0].source, heard[0].reason_diagnostic
        if source == 3:
            return BusyError(self.name, "has no room for an association")
        why = _REJECTED.get((source, reason), _REJECTED[0, 0])
        return DeniedError(self.name, why.format(self.where))

    def _why_nothing(self, *, heard: bool) -> PeerError:
        """Why an association ended before it began; ``heard`` where the peer said anything."""
        if not heard:
            if not self._is_open():
                return GoneError(self.name, _AWAY)
            try:
                spoken = self.secure()
            except PeerError as error:
                return error
            if not spoken and is_spoken(self.where.host, self.where.port, CONNECT_S):
                return TlsError(
                    self.name,
                    "speaks TLS on this port; give dimse.tls in the gateway's file, such as "
                    "tls: {ca: FILE}, or the port without TLS",
                )
        return GoneError(
            self.name, "ended the association at once; is this a port of DIMSE, in use?"
        )
