"""Listeners over TLS: who may come in, and that nobody who may not holds up the others."""

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from shutil import which

import pytest

pytest.importorskip("pynetdicom")


from cxrtext.pacs import tls
from cxrtext.pacs.dimse import port
from cxrtext.pacs.dimse.server import Listener
from cxrtext.pacs.hl7 import mllp
from cxrtext.pacs.hl7.mllp import MessageListener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.peers import Tls
from cxrtext.pacs.ports import DicomPort, Hl7Port
from cxrtext.pacs.tls import client_context
from tests.pacs.certificates import Certificates
from tests.pacs.studies import instance, sender
from tests.pacs.test_hl7_listen import ELSEWHERE, RIS, frame, oru
from tests.waiting import until

NO_TLS = "it speaks no TLS, and this port does; switch it on there"
REFUSED = {
    "": "it shows no certificate; give it one by the authorities named here",
    "stranger": "its certificate is not trusted (unable to get local issuer certificate)",
    "plain": NO_TLS,
}
"""What is said of a connection that may not come in, by what is wrong with it."""
Opened = Callable[..., Listener]
Store = Callable[..., int]
Sent = Callable[..., bytes]
needs_dcmtk = pytest.mark.skipif(which("storescu") is None, reason="needs dcmtk")


def our_side(certificates: Certificates, *, ask: bool = True) -> Tls:
    ours = certificates.ours
    return Tls(certificate=ours.path, key=ours.key, ca=certificates.ca if ask else None)


def secured(certificates: Certificates, port: int, who: str = "pacs") -> ssl.SSLSocket:
    """A connection of the hospital's own PACS, or of another peer."""
    one = getattr(certificates, who) if who else None
    context = client_context(certificates.ca, *((one.path, one.key) if one else ()))
    line = socket.create_connection(("127.0.0.1", port), timeout=600)
    return context.wrap_socket(line, server_hostname="127.0.0.1")


@pytest.fixture
def opened(inbox: Inbox, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Makes a patient listener for two associations of one peer."""
    monkeypatch.setattr(port, "OPENING_S", 600.0)

    def make(tls: Tls | None = None) -> Listener:
        at = DicomPort(port=0, associations=2, tls=tls)
        return Listener(inbox, at, [sender("archive", "SENDER")], said.append, idle_s=600)

    return make


@pytest.fixture
def listener(opened: Opened, certificates: Certificates) -> Iterator[Listener]:
    """It asks for certificates."""
    with opened(our_side(certificates)) as listener:
        yield listener


@pytest.fixture
def store(certificates: Certificates, tmp_path: Path) -> Store:
    """The exit status of DCMTK's storescu, of the hospital's own PACS or of others."""
    file = tmp_path / "one.dcm"
    file.write_bytes(instance(1))

    def run(port: int, who: str = "pacs") -> int:
        words = ["storescu", "-ta", "600", "-aet", "SENDER", "-aec", "CXRTEXT"]
        words += ["127.0.0.1", str(port), str(file)]
        if who != "plain":
            one = getattr(certificates, who) if who else None
            shown = ["+tls", str(one.key), str(one.path)] if one else ["+tla"]
            words[1:1] = [*shown, "+cf", str(certificates.ca)]
        return subprocess.run(words, capture_output=True, timeout=600).returncode

    return run


def whys(said: list[str]) -> list[str]:
    return sorted(line.partition("refused: ")[2] for line in said)


# --- DICOM ---


@needs_dcmtk
def test_without_authorities_no_certificate_is_asked_for(
    store: Store, opened: Opened, inbox: Inbox, certificates: Certificates, said: list[str]
) -> None:
    with opened(our_side(certificates, ask=False)) as listener:
        assert store(listener.port, "") == 0
        assert store(listener.port, "stranger") == 0
        assert store(listener.port, "plain") != 0
    assert len(inbox.waiting(9)) == 2
    assert whys(said) == [NO_TLS]


@needs_dcmtk
@pytest.mark.parametrize(("who", "says"), REFUSED.items())
def test_a_peer_that_may_not_come_in_is_one_line_and_the_next_is_taken(
    who: str, says: str, store: Store, listener: Listener, inbox: Inbox, said: list[str]
) -> None:
    assert store(listener.port, who) != 0
    until(lambda: said)
    assert len(said) == 1
    assert said[0].startswith(f"connection from 127.0.0.1 refused: {says}")
    assert store(listener.port) == 0
    assert len(said) == 1
    assert len(inbox.waiting(9)) == 1


@needs_dcmtk
def test_who_is_silent_holds_up_nobody(store: Store, listener: Listener, said: list[str]) -> None:
    with ExitStack() as stack:  # before the handshake, and within it
        for sent in [b""] * 3 + [b"\x16\x03\x01\x02\x00\x01"] * 3:
            address = "127.0.0.1", listener.port
            stack.enter_context(socket.create_connection(address)).sendall(sent)
        assert store(listener.port) == 0
        assert said == [], "all of them are still there"


# --- HL7 ---


@pytest.fixture
def messages(
    inbox: Inbox, said: list[str], certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MessageListener]:
    monkeypatch.setattr(tls.admit, "__defaults__", (600.0,))
    at = Hl7Port(port=0, tls=our_side(certificates))
    with MessageListener(inbox, at, [RIS], said.append) as listener:
        yield listener


@pytest.fixture
def sent(certificates: Certificates) -> Sent:
    """The first answer to what the hospital's PACS or another sends, b"" where there is none."""

    def send(port: int, data: bytes, who: str = "pacs") -> bytes:
        with suppress(OSError), ExitStack() as stack:
            line: socket.socket = (
                socket.create_connection(("127.0.0.1", port), timeout=600)
                if who == "plain"
                else secured(certificates, port, who)
            )
            stack.enter_context(line)
            line.sendall(data)
            return line.recv(65536)
        return b""

    return send


def test_reports_over_tls_are_kept(
    sent: Sent, messages: MessageListener, inbox: Inbox, said: list[str]
) -> None:
    large = oru(2, "Heart is large. " * 20_000)
    for number, message in ((1, oru(1)), (2, large)):
        assert f"MSA|AA|C{number}".encode() in sent(messages.port, frame(message))
    assert [entry.path.read_bytes() for entry in inbox.waiting(9)] == [oru(1), large]
    assert said == []


@pytest.mark.parametrize(("who", "says"), REFUSED.items())
def test_a_sender_that_may_not_come_in_is_one_line(
    who: str, says: str, sent: Sent, messages: MessageListener, inbox: Inbox, said: list[str]
) -> None:
    assert sent(messages.port, frame(oru(1)), who) == b""
    until(lambda: said)
    assert len(said) == 1
    assert said[0].startswith(f"connection from 127.0.0.1 refused: {says}")
    assert inbox.waiting(9) == []


def test_who_says_nothing_over_tls_is_no_connection(
    sent: Sent, messages: MessageListener, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mllp, "MAX_CONNECTIONS", 2)

    def silent_ones(stack: ExitStack) -> None:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", messages.port)))

    with ExitStack() as stack:
        silent_ones(stack)
        assert b"MSA|AA|C1" in sent(messages.port, frame(oru(1)))
    assert said == []
    monkeypatch.setattr(tls.admit, "__defaults__", (1.0,))
    with ExitStack() as stack:
        silent_ones(stack)
        until(lambda: len(said) == 8)
    assert said == ["connection from 127.0.0.1 refused: it said nothing for 1 s"] * 8


def test_addresses_are_looked_at_before_any_handshake(
    sent: Sent, inbox: Inbox, certificates: Certificates, said: list[str]
) -> None:
    at = Hl7Port(port=0, tls=our_side(certificates, ask=False))
    with MessageListener(inbox, at, [ELSEWHERE], said.append) as listener:
        assert sent(listener.port, frame(oru(1)), "") == b""
    (line,) = said
    assert "nobody may send from there" in line
