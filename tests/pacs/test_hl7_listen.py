"""The MLLP service: every message is answered, and what is answered AA is on disk."""

import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from unittest.mock import Mock

import pytest

from cxrtext.datasets.importing.reports.hl7 import read_merges, read_message
from cxrtext.errors import DiskError, WorkError
from cxrtext.pacs.hl7 import mllp
from cxrtext.pacs.hl7.mllp import Framing, MessageListener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.ports import Hl7Port
from tests.pacs.studies import PLANTED

Exchange = Callable[..., list[list[str]]]


def oru(
    number: int, text: str = "Heart is large.", charset: str = "", codec: str = "utf-8"
) -> bytes:
    lines = (
        f"MSH|^~\\&|RIS|HOSPITAL|CXR|RESEARCH|20240301120000||ORU^R01|C{number}|P|2.5.1||||||{charset}",
        f"PID|1||{number}^^^HOSPITAL||{PLANTED}^Ana",
        f"OBR|1||A{number}^RIS|36643-5^XR|||20240301||||||||||||||||||F",
        f"OBX|1|TX|59776-5^Findings||{text}||||||F",
    )
    return "\r".join(lines).encode(codec)


def query(number: int) -> bytes:
    return oru(number).replace(b"ORU^R01", b"QRY^A19")


def broken(number: int) -> bytes:
    return b"\r".join(line for line in oru(number).split(b"\r") if not line.startswith(b"OBR"))


def frame(message: bytes) -> bytes:
    return b"\x0b" + message + b"\x1c\r"


FREE = Hl7Port(port=0)


@pytest.fixture
def listener(inbox: Inbox, said: list[str]) -> Iterator[MessageListener]:
    with MessageListener(inbox, FREE, said.append) as listener:
        yield listener


@pytest.fixture
def exchange(listener: MessageListener) -> Iterator[Exchange]:
    """Sends bytes and gives the fields of MSA and ERR of so many answers."""
    connections: list[socket.socket] = []

    def run(data: bytes, answers: int = 1, at_once: int = 0) -> list[list[str]]:
        if not connections:
            connections.append(socket.create_connection(("127.0.0.1", listener.port), timeout=600))
        step = at_once or len(data)
        for start in range(0, len(data), step):
            connections[0].sendall(data[start : start + step])
        got = b""
        while got.count(b"\x1c\r") < answers:
            got += connections[0].recv(65536)
        found = []
        for one in got.split(b"\x1c\r")[:-1]:
            assert PLANTED.encode() not in one
            head, *rest = one.removeprefix(b"\x0b").decode("ascii").split("\r")
            assert head.split("|")[2:6] == ["CXR", "RESEARCH", "RIS", "HOSPITAL"]
            assert head.split("|")[8].partition("^")[0] == "ACK"
            found.append([line for line in rest if line])
        return found

    yield run
    for connection in connections:
        connection.close()


def test_fifty_messages_of_four_character_sets_are_acknowledged_and_kept(
    exchange: Exchange, inbox: Inbox
) -> None:
    texts = (
        ("Größe normal.", "8859/1", "latin-1"), ("Größe normal, 体.", "UNICODE UTF-8", "utf-8"),
        ("Сердце не увеличено.", "8859/5", "iso8859-5"), ("心臓は正常。", "ISO IR87", "iso2022_jp"),
    )  # fmt: skip
    sent = [(n, *texts[n % 4]) for n in range(50)]
    data = b"".join(frame(oru(*one)) for one in sent)
    answers = exchange(data, 50, at_once=1000)
    assert answers == [[f"MSA|AA|C{n}"] for n in range(50)]
    kept = [one for e in inbox.waiting(99) for one in read_message(e.path.read_bytes(), "")]
    assert [one.report.partition("\n")[2] for one in kept] == [text for _, text, *_ in sent]


def test_bad_messages_are_answered_and_kept_aside_and_the_connection_lives(
    exchange: Exchange, inbox: Inbox, said: list[str]
) -> None:
    bad = oru(2, "Größe normal.", codec="latin-1"), query(3), broken(4)
    data = b"garbage " + b"".join(frame(one) + b"\r\n??" for one in bad) + frame(oru(5))
    cut = b"\x0b" + oru(6)[:40]  # begun, and then sent again
    answers = exchange(data + cut + frame(oru(6)), 5)
    assert [lines[0] for lines in answers] == [
        "MSA|AE|C2", "MSA|AR|C3", "MSA|AE|C4", "MSA|AA|C5", "MSA|AA|C6"
    ]  # fmt: skip
    assert "names no character set" in answers[0][1]
    assert "kind that is not taken" in answers[1][1]
    kept = inbox.waiting(9)
    assert [entry.path.read_bytes() for entry in kept] == [bad[0], bad[2], oru(5), oru(6)]
    assert {stat.S_IMODE(entry.path.stat().st_mode) for entry in kept} == {0o600}
    assert len(said) == 3


def test_a_full_disk_is_answered_ar_and_nothing_is_claimed(
    exchange: Exchange, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "put", Mock(side_effect=DiskError("the disk is full")))
    ((line, why),) = exchange(frame(oru(1)))
    assert line == "MSA|AR|C1"  # which engines send again, while they set aside what is AE
    assert why.split("|")[3] == "207"


def test_a_stream_is_divided_alike_however_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = b"..\x0bone\x1c\r\x0btwo\x1c\x0bcut\x0bthree\x1c\r\n"
    for step in (1, 2, 3, len(stream)):
        framing = Framing()
        found: list[bytes] = []
        for start in range(0, len(stream), step):
            found += framing.feed(stream[start : start + step])
        assert found == [b"one", b"two", b"three"]
        assert not framing.inside
    monkeypatch.setattr(mllp, "MAX_BYTES", 10)
    with pytest.raises(WorkError, match="larger than"):
        list(Framing().feed(b"\x0b" + b"x" * 20))


def test_an_acknowledgment_is_not_acknowledged(
    exchange: Exchange, inbox: Inbox, said: list[str]
) -> None:
    stray = frame(b"MSH|^~\\&|CXR|RESEARCH|RIS|HOSPITAL|20240301||ACK^R01|X|P|2.5.1\rMSA|CA|1\r")
    assert exchange(stray + frame(oru(1)), 1) == [["MSA|AA|C1"]]
    assert said == []


def test_what_holds_no_report_is_accepted_so_that_a_queue_goes_on(
    exchange: Exchange, inbox: Inbox, said: list[str]
) -> None:
    kinds = [b"ADT^A01", b"ADT^A41", b"ORM^O01", b"SIU^S12", b"MDM^T01"]
    sent = [
        oru(n, "Größe.", codec="latin-1").replace(b"ORU^R01", kind) for n, kind in enumerate(kinds)
    ]
    sent[-1] = sent[-1].replace("Größe.".encode("latin-1"), b"")
    answers = exchange(b"".join(map(frame, sent)), len(sent))
    assert answers == [[f"MSA|AA|C{n}"] for n in range(len(sent))]
    assert inbox.waiting(9) == []
    assert said == []


def test_what_import_takes_of_a_file_is_taken_from_a_connection(
    exchange: Exchange, inbox: Inbox
) -> None:
    ends = [b"\r", b"\n", b"\r\n"]
    sent = [oru(1, "One.\rTwo.").replace(b"\r", end) for end in ends]
    sent.append(b"\xef\xbb\xbf" + oru(1, "One.\rTwo.") + b"\r\n")
    sent.append(oru(1) + b"\r" + oru(2).partition(b"\r")[2])  # two orders, two patients
    sent.append(oru(1) + b"\r" + oru(2))  # two messages of one frame
    answers = exchange(b"".join(map(frame, sent)), len(sent))
    assert [lines[0] for lines in answers] == ["MSA|AA|C1"] * 5 + ["MSA|AE|C1"]
    kept = [read_message(entry.path.read_bytes(), "") for entry in inbox.waiting(9)[:5]]
    assert len({(found.patient, found.report) for (found,) in kept[:4]}) == 1
    assert [found.patient for found in kept[4]] == ["HOSPITAL:1", "HOSPITAL:2"]


def test_messages_are_taken_from_their_addresses_alone_and_of_so_many_connections(
    inbox: Inbox, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mllp, "MAX_CONNECTIONS", 2)
    data = frame(oru(2, "Größe.", codec="latin-1"))

    def answers(address: str) -> list[bool]:
        at = Hl7Port.model_validate({"port": 0, "charset": "8859/1", "addresses": [address]})
        with MessageListener(inbox, at, said.append) as listener, ExitStack() as stack:
            found = []
            for _ in range(3):
                line = socket.create_connection(("127.0.0.1", listener.port), timeout=600)
                got = b""
                with suppress(ConnectionError):  # reset, with what was sent unread
                    stack.enter_context(line).sendall(data)
                    got = line.recv(9999)
                found.append(b"MSA|AA|C2" in got)
            return found

    assert answers("192.0.2.1") == [False] * 3
    assert answers("127.0.0.0/8") == [True, True, False]
    assert {entry.charset for entry in inbox.waiting(9)} == {"8859/1"}
    assert said == [
        *["a connection from 127.0.0.1 was refused: it is not among hl7.addresses"] * 3,
        "a connection from 127.0.0.1 was refused: 2 are open",
    ]
    assert Hl7Port.model_validate({"addresses": ["10.0.0.5"]}).takes("::ffff:10.0.0.5")


def merge(old: str, new: str, event: str = "A40") -> bytes:
    lines = (
        f"MSH|^~\\&|RIS|HOSPITAL|CXR|RESEARCH|20240301120000||ADT^{event}^ADT_A39|M1|P|2.5.1",
        f"EVN|{event}|20240301",
        f"PID|1||{new}||{PLANTED}^Ana",
        f"MRG|{old}",
    )
    return "\r".join(lines).encode()


def test_a_merge_is_kept_and_one_that_names_nobody_is_an_error(
    exchange: Exchange, inbox: Inbox
) -> None:
    sent = [merge("1^^^H", "2^^^H"), merge("1^^^H", "2^^^H", "A34"), merge("", "2^^^H")]
    sent.append(sent[0].rpartition(b"\r")[0])
    answers = exchange(b"".join(map(frame, sent)), len(sent))
    assert [lines[0][:6] for lines in answers] == ["MSA|AA", "MSA|AA", "MSA|AE", "MSA|AE"]
    kept = inbox.waiting(9)
    assert [read_merges(entry.path.read_bytes()) for entry in kept[:2]] == [[("H:1", "H:2")]] * 2
    assert len(kept) == 4
