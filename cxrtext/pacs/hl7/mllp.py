"""Receiving HL7 v2 messages over MLLP: acknowledged when they are on disk.

A message is framed by a start byte and two end bytes (HL7 v2.5.1, appendix C); what stands between
frames is passed over.  AA says that a report was kept, or that there is none in a message of this
kind; AE that the message cannot be read, AR that its kind is not known, or that it cannot be kept
now.  What cannot be read or is not known lies in the folder ``bad`` for somebody to look at.  The
connection lives on.  These acknowledgments of the original mode (2.9.2) are given
whatever MSH-15 and MSH-16 ask for.
"""

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Literal

from cxrtext.datasets.importing.reports.hl7 import (
    FRAME_END,
    START,
    MessageError,
    messages,
    read_message,
)
from cxrtext.errors import CxrTextError, WorkError
from cxrtext.files import write_private
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import ListenerCounts
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.ports import Hl7Port, Served, is_within
from cxrtext.pacs.tls import RefusedError, admit, of_another_protocol

MAX_BYTES = 16 * 2**20  # of one message
MAX_CONNECTIONS = 32
IDLE_S = 300.0  # how long a connection may be silent
FRAME_S = 60.0  # how long a message may take to arrive
MAX_BAD = 1000  # bad messages that are kept; the oldest goes first
BAD = "bad"

Code = Literal["AA", "AE", "AR"]  # of table 0008: accepted, in error, rejected
_ERRORS = {"AE": b"207", "AR": b"200"}  # of table 0357, for messages that are refused
_UNREPORTED = {*b"ADT BAR DFT MFN OMG OMI ORM SIU".split()}
"""Kinds without a report: AA, as engines send again what is AR, and hold back what is behind it."""
_FIELD = re.compile(rb"[!-{}~]{1,199}")


class _Header:
    """The MSH segment of a message, whatever that is."""

    def __init__(self, message: bytes) -> None:
        self.mark = message[3:4] if message[:3] == b"MSH" and len(message) > 8 else b"|"
        line = re.split(rb"[\r\n]", message, maxsplit=1)[0]
        self._fields = line.split(self.mark) if self.mark in message[:9] else []
        given = self._fields[1] if len(self._fields) > 1 else b""
        self.encoding = given if 3 <= len(given) <= 5 else b"^~\\&"

    def get(self, number: int, default: bytes = b"") -> bytes:
        """A short field that can be repeated; it is no text of a report."""
        value = self._fields[number - 1].strip() if number <= len(self._fields) else b""
        return value if _FIELD.fullmatch(value) else default

    @property
    def kind(self) -> tuple[bytes, bytes]:
        """Message code and trigger event, such as ORU and R01."""
        code, _, rest = self.get(9).partition(self.encoding[:1])
        return code, rest.partition(self.encoding[:1])[0]


def acknowledgment(message: bytes, code: Code, text: str = "", error: bytes = b"207") -> bytes:
    """A framed acknowledgment in a message's delimiters; ``text`` says why, without its words."""
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
    """Takes messages out of a stream of bytes, however it is divided."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.garbage = 0  # bytes between messages

    @property
    def inside(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give the messages that end in these bytes (WorkError: one is too long)."""
        self._data += data
        while True:
            start = self._data.find(START)
            if start < 0:
                self.garbage += len(self._data)
                self._data.clear()
                return
            self.garbage += len(self._data[:start].strip(b"\r\n"))
            del self._data[:start]
            end = self._data.find(FRAME_END)
            again = self._data.rfind(START, 1, end if end >= 0 else None)
            if again > 0:  # the one before was cut, and is sent again
                self.garbage += again
                del self._data[:again]
                continue
            if end < 0:
                if len(self._data) > MAX_BYTES:
                    raise WorkError(f"a message is larger than {MAX_BYTES >> 20} MiB")
                return
            message = bytes(self._data[1:end])
            del self._data[: end + 1]
            if self._data[:1] == b"\r":
                del self._data[:1]
            yield message


class MessageListener(Served):
    """An MLLP service on a port.

    Args:
        peers: Who may send, from its addresses; where none has any, whoever reaches the port.
        say: Takes a line for the log; it holds nothing of a message.
    """

    def __init__(
        self, inbox: Inbox, at: Hl7Port, peers: Iterable[Peer], say: Callable[[str], None]
    ) -> None:
        self._inbox, self._say = inbox, say
        self._bad = inbox.folder / BAD
        self.update(at, peers)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._sources: list[str] = []  # the peer of each that is open
        self._counts = ListenerCounts(inbox, "hl7", lambda: len(self._open))
        self._ended = threading.Event()
        listener = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                listener._serve(self.request, str(self.client_address[0]))

        class Server(ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                """Keep quiet: a traceback might quote a message."""

        super().__init__((at.host, at.port), lambda address: Server(address, Handler))

    def update(self, at: Hl7Port, peers: Iterable[Peer]) -> None:
        """Take new connections by other settings; those that are open stay (ConfigError)."""
        self._tls, self._charset = at.context(), at.charset
        self._peers = [peer for peer in peers if peer.addresses]

    def start(self) -> None:
        self._counts.start()
        super().start()

    def close(self) -> None:
        """Take no more, and close all connections; what was not acknowledged comes again."""
        self._ended.set()
        super().close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._counts.close()

    # --- a connection, in a thread of its own ---

    def _serve(self, connection: socket.socket, address: str) -> None:
        named = (peer.name for peer in self._peers if is_within(address, peer.addresses))
        source = next(named, "" if self._peers else f"hl7@{address}")
        try:
            if not source:
                raise RefusedError("nobody may send from there; if a peer does, give its addresses")
            # Who is silent before or within the handshake does not count as a connection.
            secured = connection if self._tls is None else admit(connection, self._tls, START)
            with secured, self._counted(secured, source):
                self._receive(secured, source)
        except RefusedError as error:
            if str(error):
                self._counts.add("refused")
                self._say(f"connection from {address} refused: {error}")

    @contextmanager
    def _counted(self, connection: socket.socket, source: str) -> Iterator[None]:
        with self._lock:
            if self._ended.is_set():
                raise RefusedError("")
            if len(self._open) >= MAX_CONNECTIONS:
                raise RefusedError(f"{MAX_CONNECTIONS} are open, which is the most")
            own = self._sources.count(source)
            if len(self._peers) > 1 and own >= MAX_CONNECTIONS // 4:
                raise RefusedError(f"{own} of this peer are open, which is the most of one")
            self._open.add(connection)
            self._sources.append(source)
            self._counts.add("accepted")
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)
                self._sources.remove(source)

    def _receive(self, connection: socket.socket, source: str) -> None:
        framing = Framing()
        begun: float | None = None  # when the message was that is being sent
        taken = 0
        while True:
            connection.settimeout(FRAME_S if framing.inside else IDLE_S)
            try:
                data = connection.recv(2**16)
            except OSError:  # silent too long, or gone
                data = b""
            late = begun is not None and time.monotonic() > begun + FRAME_S
            if not data or late:
                if framing.inside:
                    self._cut(source, "ended within a message, which was not kept")
                elif framing.garbage and not taken:
                    self._cut(source, "sent nothing that is framed as a message (MLLP)")
                return
            if self._tls is None and data[:1] == b"\x16" and not (taken or framing.inside):
                self._cut(source, f"was cut off: {of_another_protocol(data)}")
                return
            try:
                for message in framing.feed(data):
                    taken += 1
                    connection.sendall(self._take(message, source))
                    begun = None
            except WorkError as error:
                self._cut(source, f"was cut off: {error}")
                return
            except OSError:
                return  # it did not wait for the answer, and sends the message again
            if not framing.inside:
                begun = None
            elif begun is None:
                begun = time.monotonic()

    def _cut(self, source: str, why: str) -> None:
        self._counts.add("cut")
        self._say(f"{source}: a connection {why}")

    def _take(self, message: bytes, source: str) -> bytes:
        if len(found := list(messages(message))) == 1:  # without what stands before it
            message = found[0]
        kind, _ = _Header(message).kind
        if kind in (b"ACK", b"MCF"):  # else two systems would never end
            return b""
        if kind in _UNREPORTED:
            return acknowledgment(message, "AA")
        try:
            versions = read_message(message, "the message", self._charset)
        except MessageError as error:
            return self._refuse(message, source, "AE", str(error))
        except Exception as error:  # noqa: BLE001 - a connection is not to die of a message
            return self._refuse(message, source, "AE", f"cannot be read ({type(error).__name__})")
        if not versions and kind == b"MDM":  # it notifies
            return acknowledgment(message, "AA")
        if not versions:
            return self._refuse(
                message, source, "AR", "is of a kind that is not taken; ORU and MDM are"
            )
        try:
            self._inbox.put(source, message, "message", charset=self._charset)
        except CxrTextError as error:
            self._say(f"{source}: a message was not kept (AR): {error}")
            return acknowledgment(message, "AR", "cannot be kept now; send it again")
        return acknowledgment(message, "AA")

    def _refuse(self, message: bytes, source: str, code: Code, why: str) -> bytes:
        """Put a message where somebody looks at it; gives the answer."""
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.hl7"
        try:
            with self._lock:
                for old in sorted(self._bad.glob("*.hl7"))[: -MAX_BAD + 1]:
                    old.unlink()
                write_private(self._bad / name, message)
        except OSError as error:
            self._say(f"{self._bad}: {error.strerror}; a bad message was not kept")
        self._say(f"{source}: a message was refused ({code}): it {why}; see {BAD}/{name}")
        return acknowledgment(message, code, why, _ERRORS[code])
