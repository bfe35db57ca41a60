"""Listeners over TLS: who may come in, and that nobody who may not holds up the others."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from shutil import which
from unittest.mock import Mock

import pytest

pytest.importorskip("pynetdicom")

from pydicom import dcmread

from cxrtext.errors import ConfigError
from cxrtext.pacs import tls
from cxrtext.pacs.dimse import port
from cxrtext.pacs.dimse.server import Listener
from cxrtext.pacs.gateway.file import read_gateway
from cxrtext.pacs.hl7 import mllp
from cxrtext.pacs.hl7.mllp import MessageListener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.peers import Tls
from cxrtext.pacs.ports import DicomPort, Hl7Port
from cxrtext.pacs.tls import client_context
from tests.pacs.certificates import Certificate, Certificates
from tests.pacs.orthanc import free_port, started, write_gateway
from tests.pacs.studies import archive, instance, sender
from tests.pacs.test_hl7_listen import ELSEWHERE, FREE, RIS, frame, oru
from tests.waiting import until

REQUEST_OF_HTTP = b"GET / HTTP/1.1\r\n\r\n"
NO_PROTOCOL = "it sent something else than this port is for; is it a peer, or a scan?"
NO_TLS = "it speaks no TLS, and this port does; switch it on there"
REFUSED = {
    "": "it shows no certificate; give it one by the authorities named here",
    "expired": "its certificate has expired; have it renewed",
    "stranger": "its certificate is not trusted (unable to get local issuer certificate)",
    "distrusts": "it does not take our certificate (unknown ca); have its authority trusted there",
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


def side_of(certificates: Certificates, who: str) -> tuple[Path, Certificate | None]:
    """The authority that a peer trusts, and its certificate, by who it is (see `REFUSED`)."""
    if who == "distrusts":
        return certificates.other_ca, certificates.pacs
    return certificates.ca, getattr(certificates, who) if who else None


def secured(certificates: Certificates, port: int, who: str = "pacs") -> ssl.SSLSocket:
    """A connection of the hospital's own PACS, or of another peer."""
    ca, one = side_of(certificates, who)
    context = client_context(ca, *((one.path, one.key) if one else ()))
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
def plain(opened: Opened) -> Iterator[Listener]:
    with opened() as listener:
        yield listener


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.dcm"
    path.write_bytes(instance(1))
    return path


@pytest.fixture
def store(certificates: Certificates, file: Path) -> Store:
    """The exit status of DCMTK's storescu or echoscu, of the hospital's own PACS or of others."""

    def run(port: int, who: str = "pacs", program: str = "storescu") -> int:
        words = [program, "-ta", "600", "-aet", "SENDER", "-aec", "CXRTEXT", "127.0.0.1", str(port)]
        words += [str(file)] if program == "storescu" else []
        if who != "plain":
            ca, one = side_of(certificates, who)
            shown = ["+tls", str(one.key), str(one.path)] if one else ["+tla"]
            words[1:1] = [*shown, "+cf", str(ca)]
        return subprocess.run(words, capture_output=True, timeout=600).returncode

    return run


def whys(said: list[str]) -> list[str]:
    return sorted(line.partition("refused: ")[2] for line in said)


# --- DICOM ---


@needs_dcmtk
def test_dcmtk_with_a_certificate_is_taken(
    store: Store, listener: Listener, inbox: Inbox, file: Path, said: list[str]
) -> None:
    assert store(listener.port, program="echoscu") == 0
    assert store(listener.port) == 0
    (entry,) = inbox.waiting(9)
    assert dcmread(entry.path) == dcmread(file)
    assert said == []


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
def test_tls_to_a_plain_port_is_said(store: Store, plain: Listener, said: list[str]) -> None:
    assert store(plain.port) != 0
    assert store(plain.port, "plain") == 0
    (line,) = said
    assert "it speaks TLS, and this port does not; switch it off there, or give this port" in line


@needs_dcmtk
def test_tls_of_new_associations_can_be_changed(
    store: Store, plain: Listener, certificates: Certificates, said: list[str]
) -> None:
    at = DicomPort(port=0, tls=our_side(certificates))
    plain.update(at, [sender("archive", "SENDER")])
    assert store(plain.port) == 0
    assert store(plain.port, "plain") != 0
    assert whys(said) == [NO_TLS]


def silent_ones(stack: ExitStack, port: int) -> None:
    """More of them than associations may be open: before the handshake, and within it."""
    for sent in [b""] * 3 + [b"\x16\x03\x01\x02\x00\x01"] * 3:  # the begin of a hello
        one = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        one.sendall(sent)


@needs_dcmtk
def test_who_is_silent_holds_up_nobody(store: Store, listener: Listener, said: list[str]) -> None:
    with ExitStack() as stack:
        silent_ones(stack, listener.port)
        assert store(listener.port) == 0
        assert said == [], "all of them are still there"


@needs_dcmtk
def test_who_is_silent_is_cut_off(
    store: Store,
    opened: Opened,
    certificates: Certificates,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = opened(our_side(certificates))
    with ExitStack() as stack, monkeypatch.context() as patch:
        silent_ones(stack, listener.port)  # what they send is there when their second begins
        patch.setattr(listener._server, "opening_s", 1.0)
        stack.enter_context(listener)
        until(lambda: len(said) == 6)
        # After a handshake, however long it took, no time is left.
        patch.setattr(listener._server, "opening_s", 600.0)
        patch.setattr(port, "time", Mock(monotonic=lambda: time.monotonic() - 600.0))
        late = stack.enter_context(secured(certificates, listener.port))
        assert late.recv(1) == b""
        until(lambda: len(said) == 7)
        patch.undo()
        assert store(listener.port) == 0
    silent = "it said nothing for 1 s", "it was silent during the handshake of TLS"
    assert whys(said) == [silent[0]] * 3 + [silent[1]] * 3 + ["its request did not come in time"]


@pytest.mark.parametrize("which_one", ["listener", "plain"])
def test_a_scan_of_ports(
    which_one: str, request: pytest.FixtureRequest, said: list[str], certificates: Certificates
) -> None:
    port = request.getfixturevalue(which_one).port
    for data in (b"", REQUEST_OF_HTTP, b"\x00" * 40, b"SSH-2.0-scan\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
            connection.sendall(data)
            if data:
                assert connection.recv(100) == b""
    assert whys(said) == [NO_PROTOCOL] * 3
    if which_one == "listener":
        with secured(certificates, port) as line:
            line.sendall(REQUEST_OF_HTTP)
            until(lambda: len(said) == 4)
            assert "it sent something else" in said[-1]


def test_a_request_that_comes_byte_by_byte_has_an_end(
    plain: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain._server, "opening_s", 1.0)
    request = b"\x01\x00\x00\x00\x10\x00" + b"\x00" * 600  # some minutes of it
    with (
        socket.create_connection(("127.0.0.1", plain.port), timeout=600) as connection,
        pytest.raises(ConnectionError),
    ):
        for byte in request:
            connection.sendall(bytes([byte]))
            time.sleep(0.2)


@pytest.mark.peers
def test_a_real_orthanc_pushes_over_tls(
    tmp_path: Path, inbox: Inbox, said: list[str], certificates: Certificates
) -> None:
    port = free_port()
    at = DicomPort(port=port, tls=our_side(certificates))
    modalities = {"CXRTEXT": port, "OLD": port}
    with started(tmp_path, modalities=modalities, certificates=certificates) as peer:
        ids = peer.store(archive(8))
        with Listener(inbox, at, [sender("archive", "ORTHANC")], said.append):
            done = peer.ask("POST", "/modalities/CXRTEXT/store", json=ids).json()
            assert (done["InstancesCount"], done["FailedInstancesCount"]) == (14, 0)
            assert said == []
            with pytest.raises(Exception, match="500 Internal Server Error"):
                peer.ask("POST", "/modalities/OLD/store", json=ids[:1])
    assert len(inbox.waiting(99)) == 14
    assert whys(said) == [NO_TLS]


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
                if who in ("plain", "scan")
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


@pytest.mark.parametrize(("who", "says"), [*REFUSED.items(), ("scan", NO_PROTOCOL)])
def test_a_sender_that_may_not_come_in_is_one_line(
    who: str, says: str, sent: Sent, messages: MessageListener, inbox: Inbox, said: list[str]
) -> None:
    data = REQUEST_OF_HTTP if who == "scan" else frame(oru(1))
    assert sent(messages.port, data, who) == b""
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


def test_tls_and_scans_at_a_plain_port_of_messages(
    sent: Sent, inbox: Inbox, said: list[str]
) -> None:
    with MessageListener(inbox, FREE, [RIS], said.append) as listener:
        assert sent(listener.port, frame(oru(1)), "") == b""
        with socket.create_connection(("127.0.0.1", listener.port)) as line:
            line.sendall(REQUEST_OF_HTTP)
        with socket.create_connection(("127.0.0.1", listener.port)):
            pass
        assert b"MSA|AA|C2" in sent(listener.port, frame(oru(2)), "plain")
        until(lambda: len(said) == 2)
    assert "RIS: a connection was cut off: it speaks TLS, and this port does not" in said[0]
    assert said[1] == "RIS: a connection sent nothing that is framed as a message (MLLP)"


def test_closing_ends_connections_over_tls(
    messages: MessageListener, certificates: Certificates
) -> None:
    before = threading.active_count()
    with secured(certificates, messages.port) as line:
        line.sendall(frame(oru(1)))
        assert b"MSA|AA" in line.recv(65536)
        messages.close()
        assert line.recv(1) == b""
    until(lambda: threading.active_count() <= before)


# --- options ---


def test_what_is_wrong_with_the_files_of_a_port_is_said(
    tmp_path: Path, certificates: Certificates
) -> None:
    ours, path = certificates.ours, tmp_path / "gateway.yaml"
    for given, says in (
        ({"certificate": ours.path}, "certificate and key stand together"),
        ({"ca": certificates.ca}, "needs certificate and key"),
        ({"certificate": ours.path, "key": certificates.pacs.key}, "is not the key of"),
        ({"certificate": ours.path, "key": ours.key, "ca": ours.key}, "holds no cert"),
    ):
        named = {name: str(file) for name, file in given.items()}
        write_gateway(path, {"name": "a", "titles": ["A"]}, dicom={"tls": named})
        with pytest.raises(ConfigError, match=says):
            port = read_gateway(path).dicom
            assert port is not None
            port.context()
