"""The C-STORE service: what it answers with success is on disk, whatever is sent."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("pynetdicom")

from pydicom import dcmread
from pynetdicom import AE
from pynetdicom.presentation import build_context

from cxrtext.errors import ConfigError, DiskError, WorkError
from cxrtext.images.source import quiet
from cxrtext.pacs.dimse.server import Caps, Listener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status
from tests.pacs.orthanc import started
from tests.pacs.studies import DX, PLANTED, archive, instance
from tests.waiting import until


@pytest.fixture
def listener(inbox: Inbox, said: list[str]) -> Iterator[Listener]:
    caps = Caps(associations=2, object_bytes=2**20, idle_s=2)
    with Listener(inbox, {"SENDER": "archive"}, port=0, caps=caps, say=said.append) as listener:
        yield listener


def associate(listener: Listener, *, calling: str = "SENDER", called: str = "CXRTEXT") -> Any:
    ae = AE(ae_title=calling)
    ae.requested_contexts = [build_context(DX, "1.2.840.10008.1.2.1")]
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


def test_a_wrong_title_is_refused_with_what_to_do(listener: Listener, said: list[str]) -> None:
    assert associate(listener, calling="OTHER").is_rejected
    assert associate(listener, called="ELSE").is_rejected
    open_ones = [associate(listener), associate(listener)]
    assert associate(listener).is_rejected
    for one in open_ones:
        one.release()
    assert [line.partition("refused: ")[2] for line in said] == [
        "no peer may send as 'OTHER'; if it is one, give --allow 'OTHER'",
        "it calls 'ELSE', and this is 'CXRTEXT'; set that title there",
        "2 associations are open, which is the most",
    ]


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
    monkeypatch.setattr(listener._server, "opening_s", 1.0)
    hostile = (
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">BBL", 1, 0, 2**32 - 1) + b"x" * 100,  # claims 4 GiB
        struct.pack(">BBL", 4, 0, 100) + b"x" * 100,  # data before an association
        b"\x01\x00",  # and then nothing
        b"",
    )
    sockets = []
    for data in hostile:
        connection = socket.create_connection(("127.0.0.1", listener.port), timeout=600)
        connection.sendall(data)
        sockets.append(connection)
    for connection in sockets:
        with connection, suppress(ConnectionError):
            assert connection.recv(1)[:1] in (b"", b"\x07"), "the end, or an abort before it"
    until(lambda: not listener.associations)
    assert send(listener, instance(1)) == [0]


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


def test_nobody_allowed_a_wrong_title_and_a_taken_port_are_said(
    inbox: Inbox, listener: Listener
) -> None:
    with pytest.raises(ConfigError, match="no peer may send"):
        Listener(inbox, {}, port=0)
    with pytest.raises(ConfigError, match="a title has 1 to 16"):
        Listener(inbox, {"A" * 17: "x"}, port=0)
    with pytest.raises(WorkError, match="is another listener running"):
        Listener(inbox, {"A": "x"}, port=listener.port)


@pytest.mark.peers
def test_a_real_orthanc_pushes_everything_that_it_has(
    tmp_path: Path, inbox: Inbox, said: list[str]
) -> None:
    with started(tmp_path / "orthanc") as peer:
        ids, port = peer.store(archive(8)), peer.modalities["CXRTEXT"]
        with Listener(inbox, {"ORTHANC": "archive"}, port=port, say=said.append):
            done = peer.ask("POST", "/modalities/CXRTEXT/store", json=ids).json()
    assert (done["InstancesCount"], done["FailedInstancesCount"]) == (14, 0)
    kept = {str(dcmread(entry.path).SOPInstanceUID) for entry in inbox.waiting(99)}
    assert len(kept) == 14
    assert said == []
