"""Receive HL7 v2 messages over MLLP, and acknowledge each once it is on disk.

A message is framed by a start byte and two end bytes (HL7 v2.5.1, appendix C); bytes between
frames are skipped.  AA means that a message was kept, or that we need nothing from its kind.  AE
means that it cannot be read.  AR means that we do not take its kind, or cannot keep it now.
Unreadable messages go into the inbox too, where they fail for somebody to look at.  The connection
stays open.  These are acknowledgments of the original mode (2.9.2), whatever MSH-15 and MSH-16 ask
for.
"""

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Literal

from cxrtext.datasets.importing.reports.hl7 import (
    FRAME_END,
    START,
    MessageError,
    is_merge,
    messages,
    read_merges,
    read_message,
)
from cxrtext.errors import CxrTextError, WorkError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.ports import Hl7Port, Served

MAX_BYTES = 16 * 2**20  # of one message
MAX_CONNECTIONS = 32
IDLE_S = 300.0  # how long a connection may be silent
FRAME_S = 60.0  # how long a message may take to arrive

Code = Literal["AA", "AE", "AR"]  # of table 0008: accepted, in error, rejected
_UNREPORTED = {*b"ADT BAR DFT MFN OMG OMI ORM SIU".split()}
"""Kinds without a report get AA: engines repeat a message that got AR, and hold back the rest."""
_FIELD = re.compile(rb"[!-{}~]{1,199}")


class _Header:
    """The MSH segment of a message; any bytes will do."""

    def __init__(self, message: bytes) -> None:
        self.mark = message[3:4] if message[:3] == b"MSH" and len(message) > 8 else b"|"
        line = re.split(rb"[\r\n]", message, maxsplit=1)[0]
        self._fields = line.split(self.mark) if self.mark in message[:9] else []
        given = self._fields[1] if len(self._fields) > 1 else b""
        self.encoding = given if 3 <= len(given) <= 5 else b"^~\\&"

    def get(self, number: int, default: bytes = b"") -> bytes:
        """A short field that is safe to repeat, so never the text of a report."""
        value = self._fields[number - 1].strip() if number <= len(self._fields) else b""
        return value if _FIELD.fullmatch(value) else default

    @property
    def kind(self) -> tuple[bytes, bytes]:
        """Message code and trigger event, such as ORU and R01."""
        code, _, rest = self.get(9).partition(self.encoding[:1])
        return code, rest.partition(self.encoding[:1])[0]


def acknowledgment(message: bytes, code: Code, text: str = "", error: bytes = b"") -> bytes:
    """A framed acknowledgment in a message's delimiters.

    Args:
        text: Says why; it quotes nothing of the message.
        error: A code of table 0357; by default that the kind (AR) or the message (AE) is wrong.
    """
    error = error or (b"207" if code == "AE" else b"200")
    head = _Header(message)
    now = datetime.now(UTC).strftime("%Y%m%d%H%M%S+0000").encode()
    kind = b"ACK" + (head.encoding[:1] + head.kind[1] if head.kind[1] else b"")
    fields = [
        *(b"MSH", head.encoding, head.get(5), head.get(6), head.get(3), head.get(4), now, b""),
        *(kind, secrets.token_hex(10).encode(), head.get(11, b"P"), head.get(12, b"2.5.1")),
    ]
    segments = [fields, [b"MSA", code.encode(), head.get(10)]]
    if code != "AA":
        segments.append([b"ERR", b"", b"", error, b"E", b"", b"", b"", text.encode()])
    return START + b"".join(head.mark.join(one) + b"\r" for one in segments) + FRAME_END + b"\r"


class Framing:
    """Takes messages out of a stream of bytes, wherever the stream is split."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def inside(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give the messages that end in these bytes (WorkError: one is too long)."""
        self._data += data
        while (end := self._data.find(FRAME_END)) >= 0:
            # An earlier start belongs to a message that was cut off; it will be sent again.
            if (start := self._data.rfind(START, 0, end)) >= 0:
                yield bytes(self._data[start + 1 : end])
            del self._data[: end + 1]
        start = self._data.rfind(START)
        del self._data[: start if start >= 0 else len(self._data)]
        if len(self._data) > MAX_BYTES:
            raise WorkError(f"a message is larger than {MAX_BYTES >> 20} MiB")


class MessageListener(Served):
    """An MLLP service on a port.

    Args:
        say: Takes a line for the log; no line quotes a message.
    """

    def __init__(self, inbox: Inbox, at: Hl7Port, say: Callable[[str], None]) -> None:
        self._inbox, self._at, self._say = inbox, at, say
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        listener = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                listener._serve(self.request, str(self.client_address[0]))

        class Server(ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                """Stay quiet: a traceback might quote a message."""

        super().__init__((at.host, at.port), lambda address: Server(address, Handler))

    def close(self) -> None:
        """Stop, and close all connections; senders repeat what was not acknowledged."""
        super().close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    # --- a connection, in a thread of its own ---

    def _serve(self, connection: socket.socket, address: str) -> None:
        if not self._at.takes(address):
            self._say(f"a connection from {address} was refused: it is not among hl7.addresses")
            return
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                self._say(f"a connection from {address} was refused: {MAX_CONNECTIONS} are open")
                return
            self._open.add(connection)
        try:
            self._receive(connection, f"hl7@{address}")
        except WorkError as error:
            self._say(f"hl7@{address}: a connection was cut off: {error}")
        except OSError:
            pass  # the sender did not wait for the answer, and will send the message again
        finally:
            with self._lock:
                self._open.discard(connection)

    def _receive(self, connection: socket.socket, source: str) -> None:
        framing = Framing()
        begun = time.monotonic()  # when the current message began
        while True:
            connection.settimeout(FRAME_S if framing.inside else IDLE_S)
            try:
                data = connection.recv(2**16)
            except TimeoutError:
                data = b""
            if framing.inside and (not data or time.monotonic() > begun + FRAME_S):
                raise WorkError("it ended within a message, which was not kept")
            if not data:
                return
            begun = begun if framing.inside else time.monotonic()
            for message in framing.feed(data):
                connection.sendall(self._take(message, source))
                begun = time.monotonic()

    def _take(self, message: bytes, source: str) -> bytes:
        if len(parts := list(messages(message))) == 1:  # without what comes before it
            message = parts[0]
        kind, _ = _Header(message).kind
        if kind in (b"ACK", b"MCF"):  # else two systems would answer each other forever
            return b""
        try:
            if is_merge(message):
                wanted = bool(read_merges(message, self._at.charset))
            elif kind in _UNREPORTED:
                return acknowledgment(message, "AA")
            else:
                wanted = bool(read_message(message, "the message", self._at.charset))
        except MessageError as error:
            return self._keep(message, source, str(error))
        except Exception as error:  # noqa: BLE001 - a message must not end the connection
            return self._keep(message, source, f"cannot be read ({type(error).__name__})")
        if wanted:
            return self._keep(message, source)
        if kind == b"MDM":  # a notification without a report
            return acknowledgment(message, "AA")
        why = "is of a kind that is not taken; ORU, MDM and merges (ADT) are"
        self._say(f"{source}: a message was refused (AR): it {why}")
        return acknowledgment(message, "AR", why)

    def _keep(self, message: bytes, source: str, fault: str = "") -> bytes:
        """Put a message into the inbox; ``fault`` says why it cannot be read."""
        try:
            self._inbox.put(source, message, "message", charset=self._at.charset)
        except CxrTextError as error:
            self._say(f"{source}: a message was not kept (AR): {error}")
            return acknowledgment(message, "AR", "cannot be kept now; send it again", b"207")
        if not fault:
            return acknowledgment(message, "AA")
        self._say(f"{source}: a message was refused (AE): it {fault}")
        return acknowledgment(message, "AE", fault)
