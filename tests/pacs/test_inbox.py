"""The queue on disk: nothing that was acknowledged is lost, and nothing else stays."""

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cxrtext.errors import CheckpointError, DiskError, WorkError
from cxrtext.files import table_sums
from cxrtext.files.sqlite import open_database, transaction
from cxrtext.pacs.inbox import database
from cxrtext.pacs.inbox import queue as module
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status


def test_what_is_put_is_there_after_it_was_closed_in_order_for_its_owner_alone_and_known(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(b"of a file")
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        numbers = [
            inbox.put("PACS", b"one"),
            inbox.put("PACS", [b"in ", b"pieces"]),
            inbox.put("RIS", tmp_path / "file", "message"),
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
    assert inbox.accept(None) == 1
    assert [entry.path.read_bytes() for entry in inbox.waiting(2)] == [b"bad", b"held"]


def test_a_full_disk_a_full_queue_and_a_bad_name_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Inbox(tmp_path / "in", reserve=2**60) as inbox,
        pytest.raises(DiskError, match="are free, and .* make room on the disk"),
    ):
        inbox.put("PACS", b"x")
    with Inbox(tmp_path / "in", reserve=0, max_waiting=1) as inbox:
        inbox.put("PACS", b"x")
        with pytest.raises(DiskError, match="1 entries wait"):
            inbox.put("PACS", b"x")
        with pytest.raises(ValueError, match="a source is named"):
            inbox.put("../../x\n", b"x")
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        full = Mock(side_effect=OSError(28, "No space left on device"))
        monkeypatch.setattr(module, "sync", full)
        with pytest.raises(DiskError, match="the disk is full"):
            inbox.put("PACS", b"x")
        assert len(inbox.waiting(9)) == 1
    assert len(list((tmp_path / "in/objects").iterdir())) == 1


@pytest.mark.parametrize(
    ("module_", "name", "number"),
    [(os, "open", errno.EMFILE), (fcntl, "flock", errno.ENOLCK), (shutil, "disk_usage", errno.EIO)],
)
def test_whatever_fails_on_disk_is_said_in_one_line(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, module_: Any, name: str, number: int
) -> None:
    says = pytest.raises(WorkError, match=f"objects: {os.strerror(number)}; check the disk")
    with monkeypatch.context() as patch, says:
        patch.setattr(module_, name, Mock(side_effect=OSError(number, os.strerror(number))))
        inbox.put("PACS", b"x")
    assert inbox.waiting(9) == []


def test_the_room_is_looked_at_also_just_after_the_machine_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in (0.0, 0.5, 60.0):
        with Inbox(tmp_path / "in", reserve=2**60) as inbox, monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda at=seconds: at)
            with pytest.raises(DiskError):
                inbox.put("PACS", b"x")


def test_a_listener_that_was_seen_by_a_clock_ahead_is_not_taken_for_there(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ahead, there in ((0, True), (-600, False), (600, False)):
        then = time.time() + ahead
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda at=then: at)
            inbox.note_listener("dicom", 1, 2, 3, 4)
        listening = read_status(inbox.folder).listeners["dicom"]
        assert (listening.alive, listening.open) == (there, int(there))


def test_an_old_file_that_no_entry_names_goes_and_a_new_one_stays(tmp_path: Path) -> None:
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        inbox.put("PACS", b"x")
    half = tmp_path / "in/objects" / ("a" * 32)
    half.write_bytes(b"half")
    with (tmp_path / "in" / module.PUTTING).open("w") as lock:  # an object is being put
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(half, (0, 0))  # as if the clock had stepped
        Inbox(tmp_path / "in", reserve=0).close()
        assert half.exists()
    Inbox(tmp_path / "in", reserve=0).close()
    assert not half.exists()
    assert len(list((tmp_path / "in/objects").iterdir())) == 1


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


def test_what_comes_while_another_process_compares_the_rows_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged_tables = table_sums.damaged_tables

    def compare(*arguments: Any) -> list[str]:
        inbox.put("PACS", b"x")
        return damaged_tables(*arguments)

    not_waiting = partial(open_database, wait_s=0.0)
    monkeypatch.setattr(database, "open_database", not_waiting)
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        monkeypatch.setattr(table_sums, "damaged_tables", compare)
        Inbox(tmp_path / "in", reserve=0).close()
        assert len(inbox.waiting(9)) == 1


def test_an_inbox_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path) -> None:
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        inbox.put("PACS", b"one")
        inbox.put("PACS", b"two", held="for a reason")
        with inbox.database.transaction() as base:
            base.execute("INSERT INTO tallies VALUES ('object', 'held', 7)")
    path = tmp_path / "in" / database.FILE
    base = open_database(path)
    with transaction(base):
        table_sums.unguard(base)
        base.execute("ALTER TABLE entries DROP COLUMN accepted")
        base.execute("PRAGMA user_version = 2")
    table_sums.guard(base)
    base.close()
    with Inbox(tmp_path / "in", reserve=0) as inbox:
        assert [entry.path.read_bytes() for entry in inbox.waiting(9)] == [b"one"]
        assert inbox.accept(None) == 1
    found = read_status(tmp_path / "in")
    assert (found.received, found.waiting, found.outcomes) == (2, {"object": 2}, {})
    with Inbox(tmp_path / "in", reserve=0) as inbox, inbox.database.transaction() as base:
        base.execute("PRAGMA user_version = 99")
    with pytest.raises(CheckpointError, match="of another version of cxrtext"):
        Inbox(tmp_path / "in", reserve=0)
