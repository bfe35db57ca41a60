"""The C-STORE service: what it answers with success is on disk, whatever is sent."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from io import BytesIO
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("pynetdicom")

from pydicom import dcmread
from pynetdicom import AE
from pynetdicom.presentation import build_context

from cxrtext.errors import ConfigError, DiskError, WorkError
from cxrtext.images.source import quiet
from cxrtext.pacs.dimse import port
from cxrtext.pacs.dimse.server import Listener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status
from cxrtext.pacs.ports import DicomPort, is_within
from tests.pacs.studies import DX, PLANTED, instance, sender
from tests.waiting import until

FREE = DicomPort(port=0)
ARCHIVE, OTHER = sender("archive", "SENDER"), sender("other", "B")


@pytest.fixture
def listener(inbox: Inbox, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(port, "OPENING_S", 600.0)
    at = DicomPort(port=0, associations=2, object_mb=1)
    with Listener(inbox, at, [ARCHIVE], said.append, idle_s=600) as listener:
        yield listener


def associate(listener: Listener, *, calling: str = "SENDER", called: str = "CXRTEXT") -> Any:
    ae = AE(ae_title=calling)
    ae.requested_contexts = [build_context(DX, "1.2.840.10008.1.2.1")]
    ae.acse_timeout = ae.dimse_timeout = ae.network_timeout = 600
    return ae.associate("127.0.0.1", listener.port, ae_title=called)


def send(listener: Listener, *objects: bytes) -> list[int]:
    association = associate(listener)
    assert association.is_established
    found = [association.send_c_store(dcmread(BytesIO(one))).get("Status") for one in objects]
    association.release()
    return found


def test_an_object_is_on_disk_byte_for_byte_when_success_is_answered(
    listener: Listener, inbox: Inbox
) -> None:
    assert send(listener, instance(1), instance(2)) == [0, 0]
    first, _ = inbox.waiting(9)
    assert (first.source, first.what) == ("archive", "object")
    kept, sent = dcmread(first.path), dcmread(BytesIO(instance(1)))
    assert kept == sent
    assert kept.file_meta.TransferSyntaxUID == sent.file_meta.TransferSyntaxUID


def request(calling: str = "SENDER", called: str = "CXRTEXT", version: int = 1) -> bytes:
    """The unit that asks for an association to store DX objects."""

    def item(kind: int, data: bytes) -> bytes:
        return struct.pack(">BBH", kind, 0, len(data)) + data

    context = b"\1\0\0\0" + item(0x30, DX.encode()) + item(0x40, b"1.2.840.10008.1.2")
    items = item(0x10, b"1.2.840.10008.3.1.1.1") + item(0x20, context)
    items += item(0x50, item(0x51, struct.pack(">L", 16384)) + item(0x52, b"1.2"))
    titles = called.ljust(16).encode() + calling.ljust(16).encode()
    return struct.pack(">BBLHH", 1, 0, 68 + len(items), version, 0) + titles + bytes(32) + items


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., socket.socket]]:
    """Opens a connection, sends bytes on it, and keeps it open until the test ends."""
    monkeypatch.setattr(port, "OPENING_S", 600.0)
    with ExitStack() as stack:

        def send_bytes(listener: Listener, data: bytes) -> socket.socket:
            line = socket.create_connection(("127.0.0.1", listener.port), timeout=600)
            stack.enter_context(line).sendall(data)
            return line

        yield send_bytes


ACCEPTED, CALLING, CALLED, FULL, VERSION = (
    bytes([2]), bytes([1, 1, 3]), bytes([1, 1, 7]), bytes([2, 3, 2]), bytes([1, 2, 2])
)  # fmt: skip
"""Answers to a request: result, source and reason of a rejection (PS3.8, 9.3.4)."""


def answer(line: socket.socket) -> bytes:
    data = line.recv(10, socket.MSG_WAITALL)
    return data[7:] if data[:1] == b"\3" else data[:1]


def test_a_rejection_says_what_to_do_and_does_not_count_as_an_association(
    listener: Listener, said: list[str], sent: Callable[..., socket.socket]
) -> None:
    for _ in range(3):  # more than associations may be open; all stay connected
        assert answer(sent(listener, request(calling="OTHER"))) == CALLING
        assert answer(sent(listener, request(called="ELSE"))) == CALLED
        assert answer(sent(listener, request(version=2))) == VERSION
        assert answer(sent(listener, b"\1\0\0\0\0\x64" + b"\xff" * 100)) == b""
        no_syntax = request().replace(b"\x40\0\0\x11", b"\x41\0\0\x11")
        assert answer(sent(listener, no_syntax)) == b""
    for _ in range(2):
        assert answer(sent(listener, request())) == ACCEPTED
    assert answer(sent(listener, request())) == FULL
    assert len(said) == 16  # each before its answer
    assert [line.partition("refused: ")[2] for line in [*said[:4], said[15]]] == [
        "no peer may send as 'OTHER'; if one does, add it to its titles",
        "it calls 'ELSE', and this is 'CXRTEXT'; set that title there",
        "it speaks another version of the protocol",
        "its request is not whole; is it a peer, or a scan?",
        "2 associations are open, which is the most",
    ]


def test_half_requests_hold_up_nobody(
    inbox: Inbox, said: list[str], sent: Callable[..., socket.socket]
) -> None:
    with Listener(inbox, FREE, [ARCHIVE], said.append) as listener:
        for _ in range(20):
            sent(listener, request()[:50])
        assert send(listener, instance(1)) == [0]
        why = "its request was not whole when 8 others waited"
        assert said == [f"connection from 127.0.0.1 refused: {why}"] * 13


def test_peers_send_from_their_addresses_alone(
    inbox: Inbox, said: list[str], sent: Callable[..., socket.socket]
) -> None:
    elsewhere = sender("archive", "SENDER", at=["192.0.2.0/24"])
    with Listener(inbox, FREE, [elsewhere, OTHER], said.append) as listener:
        assert answer(sent(listener, request())) == CALLING
        assert answer(sent(listener, request("B"))) == ACCEPTED
        listener.update(FREE, [elsewhere])
        assert sent(listener, b"").recv(1) == b""  # nobody sends from here
        listener.update(FREE, [sender("archive", "SENDER", at=["192.0.2.1", "127.0.0.0/8"])])
        assert send(listener, instance(1)) == [0]
    assert [line.partition("refused: ")[2] for line in said] == [
        "archive may not send as 'SENDER' from there; or add it to its addresses",
        "no peer sends from there; if one does, add it to its addresses",
    ]


def test_an_address_is_the_same_over_ipv6() -> None:
    peers = sender("a", at=["10.0.0.5"]), sender("b", at=["fd00::/8"])
    for address, of in (("::ffff:10.0.0.5", "a"), ("10.0.0.5", "a"), ("fd00::1", "b")):
        assert [one.name for one in peers if is_within(address, one.addresses)] == [of]
    assert not is_within("::ffff:10.0.0.6", peers[0].addresses)


def test_no_room_is_a700_and_what_is_too_large_is_refused_without_ending_the_association(
    listener: Listener, inbox: Inbox, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = instance(1, size=1024)
    assert send(listener, large, instance(2)) == [0xC000, 0]
    assert said == ["archive: an object is larger than 1 MiB and was not kept"]

    for error, status in ((DiskError("the disk is full"), 0xA700), (WorkError("broken"), 0x0110)):
        monkeypatch.setattr(inbox, "put", Mock(side_effect=error))
        assert send(listener, instance(3)) == [status]
    assert len(inbox.waiting(9)) == 1


def test_hostile_bytes_and_a_silent_peer_end_their_connection_alone(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = (
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">BBL", 1, 0, 2**32 - 1) + b"x" * 100,  # claims 4 GiB
        struct.pack(">BBL", 4, 0, 100) + b"x" * 100,  # data before an association
        b"\x01\x00",  # and then nothing
        b"",
    )
    sockets = []
    with monkeypatch.context() as patch:
        patch.setattr(listener._server, "opening_s", 1.0)
        for data in hostile:
            connection = socket.create_connection(("127.0.0.1", listener.port), timeout=600)
            connection.sendall(data)
            sockets.append(connection)
        for connection in sockets:
            with connection, suppress(ConnectionError):
                assert connection.recv(1)[:1] in (b"", b"\x07"), "the end, or an abort before it"
    until(lambda: not listener.associations)
    assert send(listener, instance(1)) == [0]


def test_a_request_that_comes_byte_by_byte_has_an_end(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener._server, "opening_s", 1.0)
    request = b"\x01\x00\x00\x00\x10\x00" + b"\x00" * 600  # some minutes of it
    with (
        socket.create_connection(("127.0.0.1", listener.port), timeout=600) as connection,
        pytest.raises(ConnectionError),
    ):
        for byte in request:
            connection.sendall(bytes([byte]))
            time.sleep(0.2)


def test_a_uid_that_is_a_path_names_no_file_and_is_not_logged(
    listener: Listener, inbox: Inbox, capfd: pytest.CaptureFixture[str]
) -> None:
    with quiet():
        evil = dcmread(BytesIO(instance(1)))
        evil.SOPInstanceUID = f"../../{PLANTED}"
    association = associate(listener)
    status = association.send_c_store(evil)
    association.release()
    assert status.get("Status", 0) in (0, None)
    assert not [path for path in inbox.folder.parent.rglob("*") if PLANTED in path.name]
    assert send(listener, instance(2)) == [0]
    said = capfd.readouterr()
    assert PLANTED not in said.out + said.err


def test_what_is_counted_is_in_the_status(listener: Listener, inbox: Inbox) -> None:
    send(listener, instance(1))
    associate(listener, calling="OTHER")

    def counted() -> bool:
        found = read_status(inbox.folder).listeners.get("dicom")
        return found is not None and (found.open, found.accepted, found.refused) == (0, 1, 1)

    until(counted)
    status = read_status(inbox.folder)
    assert status.listeners["dicom"].alive
    assert status.waiting == {"object": 1}
    assert status.oldest_s > 0


def test_nobody_allowed_and_a_taken_port_are_said(inbox: Inbox, listener: Listener) -> None:
    with pytest.raises(ConfigError, match="no peer may send"):
        Listener(inbox, FREE, [sender("ris", at=["10.0.0.7"])], print)
    with pytest.raises(WorkError, match="does another gateway run"):
        Listener(inbox, DicomPort(port=listener.port), [ARCHIVE], print)
