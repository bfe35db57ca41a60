"""Ports of ours that take associations over DIMSE.

pynetdicom reads a message unit as long as its head claims, makes a handshake of TLS while nobody
else can connect, and counts who is silent or rejected as an association.  Here a connection waits
in a thread of its own until its whole request is read and decided on; then pynetdicom begins.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any

from pynetdicom.pdu import A_ASSOCIATE_RQ
from pynetdicom.transport import RequestHandler, ThreadedAssociationServer

from cxrtext.pacs.dimse.association import LONGEST_UNIT, read, shut
from cxrtext.pacs.tls import OPENING_S, RefusedError, admit, of_another_protocol

if TYPE_CHECKING:
    from pynetdicom import AE
    from pynetdicom.association import Association

FROM_ONE = 8
_REQUEST = b"\x01"  # the type of the first message unit of an association
_LONGEST = 2**17  # bytes of it; 128 contexts of 20 syntaxes each are fewer
_REJECTION = b"\x03\x00\x00\x00\x00\x04\x00"


class RejectedError(RefusedError):
    """Why an association is rejected; ``answer``: result, source and reason (PS3.8, 9.3.4)."""

    def __init__(self, why: str, *answer: int) -> None:
        super().__init__(why)
        self.answer = bytes(answer)


class AssociationPort(ThreadedAssociationServer):
    """Takes connections without waiting for any.

    Where too many of an address or of a group wait, the first of them gives its place.

    Args:
        refused: Gets the address whose connection is not taken, and why.
        group: Of an address; None where nobody sends from there.
        decide: The peer by the titles that it calls with and calls, and its address, while no
            other association begins (RejectedError).
        from_one: Connections of an address that may wait; eight times as many of a group.
    """

    daemon_threads = True
    request_queue_size = 128  # 5 by default: the others of a burst come in after a second

    def __init__(
        self,
        entity: "AE",
        address: tuple[str, int],
        *,
        tls: ssl.SSLContext | None,
        idle_s: float,
        refused: Callable[[str, str], None],
        handlers: list[Any],
        group: Callable[[str], str | None] = lambda _: "",
        decide: Callable[[str, str, str], str] = lambda calling, *_: calling,
        from_one: int = FROM_ONE,
    ) -> None:
        self.tls, self.idle_s, self.opening_s = tls, idle_s, min(OPENING_S, idle_s)
        self.from_one, self.group, self.decide, self.refused = from_one, group, decide, refused
        self.peers: dict[Association, str] = {}
        # A second hold on a connection (TLS takes the first away), its address, its group.
        self._waiting: dict[socket.socket, tuple[socket.socket, str, str]] = {}
        self._lock = threading.RLock()
        super().__init__(
            entity, address, entity.ae_title, entity.supported_contexts,
            evt_handlers=handlers, request_handler=_Handler,
        )  # fmt: skip

    def open(self) -> list[str]:
        """The peer of each association that is open."""
        with self._lock:
            self.peers = {one: name for one, name in self.peers.items() if one.is_alive()}
            return [name for one, name in self.peers.items() if not one.is_released]

    def shutdown(self) -> None:
        """End `serve_forever`; the application entity does not list this port."""
        BaseServer.shutdown(self)
        for request in list(self._waiting):
            self._leave(request, "the service ended")

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about a connection that failed; it is counted as cut off."""

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Take a connection as it is; its own thread looks at it."""
        client, address = self.socket.accept()  # type: ignore[union-attr]
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a connection may wait for its request, which it then does."""
        address = str(client_address[0])
        group = self.group(address)
        if group is None:
            self.refused(address, "no peer sends from there; if one does, add it to its addresses")
            return False
        waiting = list(self._waiting.items())
        near = [key for key, (_, _, its) in waiting if its == group]
        same = [key for key, (_, its, _) in waiting if its == address]
        for those, most in ((same, self.from_one), (near, 8 * self.from_one)):
            if len(those) >= most:
                self._leave(those[0], f"its request was not whole when {most} others waited")
        self._waiting[request] = request.dup(), address, group
        return True

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Begin the association of a connection, in a thread of its own."""
        address, key, end = str(client_address[0]), request, time.monotonic() + self.opening_s
        try:
            request = admit(request, self.tls, _REQUEST, self.opening_s)
            asked = self._read_request(request, end)
            with self._lock:
                if key not in self._waiting:
                    raise RefusedError("")
                calling, called = _shown(asked.calling_ae_title), _shown(asked.called_ae_title)
                name = self.decide(calling, called, address)
                request.settimeout(self.idle_s)
                _Handler(request, client_address, self, asked, name)
        except RefusedError as error:
            answer = _REJECTION + error.answer if isinstance(error, RejectedError) else b""
            self._leave(key, str(error), partial(request.sendall, answer))
            self.shutdown_request(request)
        finally:
            self._leave(key)

    def _leave(
        self, request: socket.socket, why: str = "", answer: Callable[[], None] = lambda: None
    ) -> None:
        """A connection waits no longer, and ends, after an answer, where it is said why."""
        with self._lock:
            connection, address, _ = self._waiting.pop(request, (None, "", ""))
        if connection is not None and why:
            self.refused(address, why)  # before its other side can know
            with suppress(OSError):
                answer()
            shut(connection)
        elif connection is not None:
            connection.close()

    @staticmethod
    def _read_request(connection: socket.socket, end: float) -> A_ASSOCIATE_RQ:
        """Read the whole request for an association (RefusedError)."""
        asked = A_ASSOCIATE_RQ()
        try:
            head = read(connection, 6, end=end)
            if head[:1] != _REQUEST:
                raise RefusedError(of_another_protocol(bytes(head)) if head else "")
            asked.decode(bytes(head + read(connection, int.from_bytes(head[2:]), _LONGEST, end)))
            contexts = asked.to_primitive().presentation_context_definition_list
            if not all(context.transfer_syntax for context in contexts):
                raise ValueError("a context has no transfer syntax, at which pynetdicom dies")
        except RefusedError:
            raise
        except TimeoutError:
            raise RefusedError("its request did not come in time") from None
        except Exception:  # noqa: BLE001 - what was sent raises anything
            raise RefusedError("its request is not whole; is it a peer, or a scan?") from None
        if asked.protocol_version != 1:
            raise RejectedError("it speaks another version of the protocol", 1, 2, 2)
        return asked


class _Handler(RequestHandler):
    """Reads no more than a message unit may have, whatever its head says."""

    server: AssociationPort

    def __init__(
        self, request: Any, address: Any, server: AssociationPort, asked: A_ASSOCIATE_RQ, name: str
    ) -> None:
        self._asked, self._name = asked, name
        super().__init__(request, address, server)

    def _create_association(self) -> "Association":
        association = super()._create_association()
        transport: Any = association.dul.socket
        connection = transport.socket
        longest = 2 * (association.acceptor.maximum_length or LONGEST_UNIT) + 2**16

        def receive(count: int) -> bytearray:
            if association.dul.state_machine.current_state == "Sta13":  # it is over
                shut(connection)
                return bytearray()
            return read(connection, count, longest)

        transport.recv, transport._shutdown_socket = receive, lambda: shut(connection)
        association.dul._recv_pdu.put(self._asked)
        association.dul.event_queue.put("Evt6")  # that it was received; it follows the connection
        self.server.peers[association] = self._name
        return association


def _shown(title: str) -> str:
    """A title as it may be shown: what was sent may be anything."""
    return "".join(c for c in title if c.isprintable()).strip()[:16]
