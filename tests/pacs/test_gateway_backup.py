"""A gateway's state is backed up while it is at work, and restored; nothing is lost or doubled."""

import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydicom import dcmread

from cxrtext.errors import DataError
from cxrtext.files import file_problems
from cxrtext.files.sqlite import open_database, transaction
from cxrtext.index.backup import GATEWAY, back_up, restore
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs import backup as module
from cxrtext.pacs.backup import copy_state
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.retrieval.follow_state import FollowState
from tests.conftest import flip
from tests.pacs.studies import instance, uid
from tests.waiting import until

FOLLOWED = "inbox/follow-archive.sqlite"


@pytest.fixture
def index(index_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index_folder, tmp_path / "index"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    inbox_of(tmp_path / "state").close()
    return tmp_path / "state"


def inbox_of(state: Path) -> Inbox:
    return Inbox(state / "inbox", reserve=0)


def take_in(state: Path, index: Path, *objects: bytes) -> dict[int, tuple[str, str]]:
    """What became of all entries, after some more; `waiting` of those that are not looked at."""
    settings = WorkerSettings(index, state / "archive", readers=1)
    with inbox_of(state) as inbox, Worker(inbox, settings) as worker:
        for one in objects:
            inbox.put("PACS", one)
        worker.drain()
    return known(state)


def known(state: Path) -> dict[int, tuple[str, str]]:
    with inbox_of(state) as inbox, inbox.database.reading() as database:
        rows = database.execute("SELECT entry, state, outcome FROM entries").fetchall()
    return {number: (state, outcome) for number, state, outcome in rows}


def put_result(state: Path, study: int, **changed: Any) -> Kept:
    facts = dict.fromkeys(("source", "study_id", "patient_id", "sentence", "model"), "")
    built = dcmread(BytesIO(instance(study, **changed)))
    return ResultsFolder(state / "results").put(built, kind="sc", **facts)


def test_a_restored_state_goes_on_where_it_was(state: Path, index: Path, tmp_path: Path) -> None:
    other = instance(1, SOPInstanceUID="1.2.3", StudyInstanceUID="1.2", PatientID="X")
    take_in(state, index, instance(1), other, b"garbage")
    with inbox_of(state) as inbox:
        inbox.put("PACS", instance(2))
    before = known(state)
    assert [one for one, _ in before.values()] == ["done", "held", "failed", "waiting"]
    with FollowState(state / FOLLOWED) as follow:
        follow.note("begun", "20240301")
    made = put_result(state, 3)
    backup, home = tmp_path / "backup", tmp_path / "home"

    def copy(out: Path) -> None:
        copy_state(state, index, out)
        take_in(state, index)  # what waits in the copy is in the index that is copied after it

    done = back_up(index, backup, copy_state=copy)
    assert (done.gateway, done.uploads) == (True, 2)
    assert file_problems(backup) == []
    # The index's backup has the file that it keeps; it is not copied twice.
    assert {path.name for path in (backup / GATEWAY).iterdir()} == {"inbox", "results"}
    shutil.rmtree(state)
    shutil.rmtree(index)
    assert restore(backup, home).gateway
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in home.rglob("*"))
    state, index = home / GATEWAY, home / "index"
    assert known(state) == before
    with Catalogue(index / CATALOGUE) as catalogue:
        image = catalogue.image(uid(1, 1, 1))
    assert image is not None
    assert Path(image.path).read_bytes() == instance(1)
    with FollowState(state / FOLLOWED) as follow:
        assert follow.fact("begun") == "20240301"
    assert ResultsFolder(state / "results").find(made.instance) == made
    after = take_in(state, index, instance(1))
    assert [outcome for _, outcome in after.values()] == [
        "added", "held", "failed", "again", "again",
    ]  # fmt: skip


def test_nothing_that_was_acknowledged_is_lost_while_entries_come_and_go(
    state: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledged: list[int] = []
    entered: set[int] = set()  # the index, which is backed up after the state
    stop = Event()

    def receive(inbox: Inbox) -> None:
        with FollowState(state / FOLLOWED) as follow:
            while not stop.is_set():
                acknowledged.append(inbox.put("PACS", b"%d" % len(acknowledged)))
                follow.note(str(acknowledged[-1]), "here")

    def take(inbox: Inbox) -> None:
        while not stop.is_set():
            for entry in inbox.waiting(9)[5:]:  # so that some wait
                entered.add(entry.number)
                with inbox.finishing() as finishing:
                    finishing.done(entry, "added")

    def meanwhile(database: Any) -> Any:
        """After files were copied, and before nobody may write any more."""
        before = len(entered)
        until(lambda: len(entered) > before + 9)
        put_result(state, 3, PatientName=f"Y{before}")
        return transaction(database)

    monkeypatch.setattr(module, "transaction", meanwhile)
    put_result(state, 3)
    with inbox_of(state) as inbox, ThreadPoolExecutor(2) as pool:
        work = [pool.submit(one, inbox) for one in (receive, take)]
        try:
            until(lambda: entered)
            for copy in (tmp_path / "one", tmp_path / "two"):
                so_far = set(acknowledged[:-1])
                copy_state(state, index, copy)
                after = set(entered)
                files = set((copy / "inbox/objects").iterdir())
                found = known(copy)
                assert so_far <= found.keys()
                assert {number for number, (one, _) in found.items() if one == "done"} <= after
                with inbox_of(copy) as copied:
                    waiting = copied.waiting(10_000)
                assert {entry.path for entry in waiting} == files
                assert all(entry.is_whole for entry in waiting)
                with closing(open_database(copy / FOLLOWED, write=False)) as database:
                    noted = {int(name) for (name,) in database.execute("SELECT name FROM facts")}
                assert so_far <= noted <= found.keys()
                results = ResultsFolder(copy / "results")
                assert [results.is_whole(kept) for kept in results.all()] == [True]
        finally:
            stop.set()
        for one in work:
            one.result()


def test_what_is_refused(state: Path, index: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="index: is not the state of a gateway"):
        copy_state(index, index, tmp_path / "none")
    with inbox_of(state) as inbox:
        inbox.put("PACS", b"waits")
    backup = tmp_path / "backup"
    back_up(index, backup, model=False, copy_state=partial(copy_state, state, index))
    (file,) = (backup / GATEWAY / "inbox/objects").iterdir()
    flip(file)
    with pytest.raises(DataError, match=r"is not what SHA256SUMS lists; nothing was restored"):
        restore(backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    take_in(state, Path(shutil.copytree(index, tmp_path / "other")), instance(1))
    with pytest.raises(DataError, match="index: has none of the images that came through"):
        copy_state(state, index, tmp_path / "of-another")
    database = (state / module.INBOX).read_bytes()
    (state / module.INBOX).write_bytes(database[:4096] + bytes(len(database) - 4096))
    with pytest.raises(DataError, match="inbox.sqlite: is damaged .*; restore it from a backup"):
        copy_state(state, tmp_path / "other", tmp_path / "of-damage")
