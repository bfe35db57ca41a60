"""The queue on disk: nothing that was acknowledged is lost, and nothing else stays."""

import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from cxrtext.errors import CheckpointError, DiskError, InputError
from cxrtext.pacs.inbox import queue as module
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status
from tests.pacs.studies import accept_all


def test_what_is_put_is_there_after_it_was_closed_in_order_for_its_owner_alone_and_known(
    tmp_path: Path,
) -> None:
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        numbers = [
            inbox.put("PACS", b"one"),
            inbox.put("PACS", b"in pieces"),
            inbox.put("RIS", b"of a file", "message"),
        ]
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        entries = inbox.waiting(10)
    assert [entry.number for entry in entries] == numbers
    assert [entry.path.read_bytes() for entry in entries] == [b"one", b"in pieces", b"of a file"]
    assert [(entry.what, entry.source) for entry in entries][2] == ("message", "RIS")
    for path in (tmp_path / "in").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    assert all(entry.is_whole for entry in entries)
    entries[1].path.write_bytes(b"in piecet")
    assert [entry.is_whole for entry in entries] == [True, False, True]


def test_a_new_inbox_is_on_disk_with_every_folder_above_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(module, "sync", synced.append)
    Inbox(tmp_path / "a" / "b").close()
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(synced)


def test_an_entry_that_ended_a_process_comes_alone(inbox: Inbox) -> None:
    for _ in range(4):
        inbox.put("PACS", b"x")
    first = inbox.waiting(3)
    inbox.begin(first[1:2])
    assert [entry.number for entry in inbox.waiting(4)] == [first[0].number]
    with inbox.finishing() as finishing:
        finishing.done(first[0], "added")
    assert not first[0].path.exists()
    (tried,) = inbox.waiting(4)
    assert (tried.number, tried.attempts) == (first[1].number, 1)


def test_what_fails_or_is_held_keeps_its_file_and_waits_again_when_asked(inbox: Inbox) -> None:
    inbox.put("PACS", b"bad")
    inbox.put("PACS", b"held")
    bad, held = inbox.waiting(2)
    with inbox.finishing() as finishing:
        finishing.fail(bad, "damaged")
        finishing.hold(held, "1.2.3", "its study is under another patient")
    assert inbox.waiting(2) == []
    with inbox.finishing() as finishing:
        finishing.release("1.2.3")
    assert [entry.path.read_bytes() for entry in inbox.waiting(2)] == [b"held"]
    assert accept_all(inbox) == 1
    assert [entry.path.read_bytes() for entry in inbox.waiting(2)] == [b"bad", b"held"]


def test_what_is_sent_again_stays_one_entry_for_each_reason(inbox: Inbox) -> None:
    def hold(data: bytes, reason: str, source: str = "PACS") -> int:
        inbox.put(source, data)
        (entry,) = inbox.waiting(2)
        with inbox.finishing() as finishing:
            finishing.hold(entry, None, reason) if reason else finishing.fail(entry, "damaged")
        return len(inbox.held())

    assert [hold(b"one", "why"), hold(b"one", "why"), hold(b"two", "why")] == [1, 1, 2]
    assert [hold(b"one", "else"), hold(b"one", "why", "RIS"), hold(b"one", "")] == [3, 4, 5]
    assert [hold(b"one", ""), hold(b"one", "why")] == [5, 5]
    assert len(list((inbox.folder / "objects").iterdir())) == 5
    first = inbox.held()[0]
    inbox.accept(first.number)
    with inbox.finishing() as finishing:
        finishing.hold(first, None, "why")  # it is its own like no more than before
    assert len(inbox.held()) == 5


def test_a_full_disk_a_full_queue_and_a_bad_name_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Inbox(tmp_path / "in", reserve=2**60) as inbox,
        pytest.raises(DiskError, match="are free, but .* make room on the disk"),
    ):
        inbox.put("PACS", b"x")
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        inbox.put("PACS", b"x")
        with pytest.raises(DiskError, match="1 entries wait"):
            inbox.put("PACS", b"x")
        with pytest.raises(ValueError, match="a source is named"):
            inbox.put("../../x\n", b"x")
    monkeypatch.setattr(module, "MAX_WAITING", 9)
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        full = Mock(side_effect=OSError(28, "No space left on device"))
        monkeypatch.setattr(module, "sync", full)
        with pytest.raises(DiskError, match="the disk is full"):
            inbox.put("PACS", b"x")
        assert len(inbox.waiting(9)) == 1
    assert len(list((tmp_path / "in/objects").iterdir())) == 1


def test_a_file_that_no_entry_names_goes(tmp_path: Path) -> None:
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        inbox.put("PACS", b"x")
        half = tmp_path / "in/objects" / ("a" * 32)
        half.write_bytes(b"half")
        inbox.tidy()
        assert not half.exists()
        assert [entry.is_whole for entry in inbox.waiting(9)] == [True]


def test_a_damaged_queue_is_said_in_one_line(tmp_path: Path) -> None:
    Inbox(tmp_path / "in").close()
    for path in (tmp_path / "in").glob("inbox.sqlite*"):
        path.write_bytes(b"nonsense " * 1000)
    with pytest.raises(CheckpointError, match=r"inbox\.sqlite: is damaged"):
        Inbox(tmp_path / "in")


PUTS = """
import sys, threading
from pathlib import Path
from cxrtext.pacs.inbox.queue import Inbox
inbox = Inbox(Path(sys.argv[1]), reserve=0)
def put(letter):
    for i in range(100_000):
        inbox.put("PACS", f"{letter}{i}".encode())
        sys.stdout.write(f"{letter}{i}\\n")
        sys.stdout.flush()
for letter in "abcd":
    threading.Thread(target=put, args=letter).start()
"""


def test_what_was_acknowledged_before_a_kill_is_there(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for _ in range(2):
        command = [sys.executable, "-c", PUTS, str(tmp_path / "in")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged |= {process.stdout.readline().strip() for _ in range(50)}
            process.kill()
            acknowledged |= set(process.stdout.read().split("\n")[:-1])
        assert process.returncode == -signal.SIGKILL
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        kept = {entry.path.read_text() for entry in inbox.waiting(1_000_000)}
    assert len(acknowledged) >= 50
    assert acknowledged <= kept


WORKS = """
import itertools, sys
from pathlib import Path
from cxrtext.pacs.inbox.queue import Inbox
inbox = Inbox(Path(sys.argv[1]), reserve=0)
for turn in itertools.count():
    for i in range(6):
        inbox.put("PACS", b"x", held="for a reason" if i == 0 else "")
    with inbox.finishing() as finishing:
        finishing.release(str(turn - 1))
    batch = inbox.waiting(9)
    inbox.begin(batch)
    with inbox.finishing() as finishing:
        for i, entry in enumerate(batch):
            (
                lambda: finishing.done(entry, "added"),
                lambda: finishing.hold(entry, str(turn), "its study"),
                lambda: finishing.hold(entry, None, "for a reason"),
                lambda: finishing.fail(entry, "damaged"),
            )[i % 4]()
    print(turn, flush=True)
"""


def test_every_entry_is_counted_once_whatever_is_decided_and_killed(tmp_path: Path) -> None:
    folder, dropped = tmp_path / "in", 0
    with Inbox(folder, reserve=0) as inbox:
        for _ in range(2):
            command = [sys.executable, "-c", WORKS, str(folder)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for turn in range(12):
                    process.stdout.readline()
                    for one in inbox.held() if turn % 3 else ():
                        with suppress(InputError):  # its study changed meanwhile
                            (inbox.accept if turn % 3 == 1 else inbox.drop)(one.number)
                            dropped += turn % 3 == 2
                    found = read_status(folder)
                    ended = sum(found.outcomes.values())
                    there = sum(found.waiting.values()) + found.held + found.failed
                    assert found.received == ended + there
                process.kill()
        assert dropped == read_status(folder).outcomes["object", "dropped"] > 0
        assert all(entry.path.is_file() for entry in inbox.waiting(10_000))
        for one in inbox.held():
            inbox.drop(one.number)
        left = sum(read_status(folder).waiting.values())
    with Inbox(folder, reserve=0) as inbox:
        inbox.tidy()
    assert len(list((folder / "objects").iterdir())) == left


def test_what_is_decided_twice_is_counted_once(inbox: Inbox) -> None:
    numbers = [inbox.put("PACS", b"x", held="for a reason") for _ in range(2)]
    first, second = inbox.held()
    inbox.drop(numbers[0])
    for decide in (inbox.drop, inbox.accept):
        with pytest.raises(InputError, match="1: neither held nor failed"):
            decide(numbers[0])
    assert [one.number for one in inbox.held()] == [second.number]
    with inbox.finishing() as finishing:
        finishing.done(first, "left out")
    assert read_status(inbox.folder).outcomes == {("object", "dropped"): 1}
