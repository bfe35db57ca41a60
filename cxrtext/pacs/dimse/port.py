"""Ports of ours that take associations over DIMSE.

pynetdicom reads a message unit as long as its head claims, makes a handshake of TLS while nobody
else can connect, and counts who is silent as an association.  These do neither.
"""

import socket
import ssl
import time
from collections.abc import Callable
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any

from pynetdicom.transport import RequestHandler, ThreadedAssociationServer

from cxrtext.pacs.dimse.association import LONGEST_UNIT, read, shut
from cxrtext.pacs.tls import OPENING_S, RefusedError, admit, of_another_protocol

if TYPE_CHECKING:
    from pynetdicom import AE
    from pynetdicom.association import Association

_REQUEST = b"\x01"  # the type of the first message unit of an association


class AssociationPort(ThreadedAssociationServer):
    """Takes connections without waiting for any; ``refused`` gets whose is not taken, and why."""

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
    ) -> None:
        self.tls, self.idle_s, self.refused = tls, idle_s, refused
        self.opening_s = min(OPENING_S, idle_s)
        super().__init__(
            entity,
            address,
            entity.ae_title,
            entity.supported_contexts,
            evt_handlers=handlers,
            request_handler=_Handler,
        )

    def shutdown(self) -> None:
        """End `serve_forever`; the application entity does not list this port."""
        BaseServer.shutdown(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about a connection that failed; it is counted as cut off."""

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Take a connection as it is; its own thread looks at it."""
        client, address = self.socket.accept()  # type: ignore[union-attr]
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Begin the association of a connection, in a thread of its own."""
        try:
            request = admit(request, self.tls, _REQUEST, self.opening_s)
        except RefusedError as error:
            if str(error):
                self.refused(client_address[0], str(error))
            self.shutdown_request(request)
            return
        request.settimeout(self.idle_s)
        super().finish_request(request, client_address)


class _Handler(RequestHandler):
    """Reads no more than a message unit may have, whatever its head says."""

    server: AssociationPort

    def _create_association(self) -> "Association":
        association = super()._create_association()
        transport: Any = association.dul.socket
        agreed = association.acceptor.maximum_length or LONGEST_UNIT
        longest = 2 * agreed + 2**16  # an association request, too
        end = time.monotonic() + self.server.opening_s  # of the request, however slowly it comes
        reads = 0  # of a message unit's head, and of its rest

        def receive(count: int) -> bytearray:
            nonlocal reads
            data = read(transport.socket, count, longest, end if reads < 2 else None)
            if reads == 0 and data and data[:1] != _REQUEST:
                why = of_another_protocol(bytes(data[:1]))
                self.server.refused(self.client_address[0], why)
            reads += 1
            if reads == 2:
                transport.socket.settimeout(self.server.idle_s)
            return data

        connection = transport.socket
        transport.recv, transport._shutdown_socket = receive, lambda: shut(connection)
        return association
