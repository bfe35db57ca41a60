"""The view that searches share, while the index changes."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cxrtext.index import Index, delete, open_index
from cxrtext.index.search import index as module
from cxrtext.models import ImageTextModel


@pytest.fixture
def index(index_copy: Path, model: ImageTextModel) -> Iterator[Index]:
    with open_index(index_copy, model) as made:
        yield made


def test_of_two_threads_that_look_the_newer_view_stays(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reads the first version, and notes it while the other is about to note the second."""
    version = [0]
    older_reads, newer_notes, older_is_done = (threading.Event() for _ in range(3))
    patience = 0.5  # of a thread that the other one, rightly, does not let on

    class Interrupted(Index):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            newer = threading.current_thread().name == "newer"
            if name == "_seen" and newer and not newer_notes.is_set():
                newer_notes.set()
                older_is_done.wait(patience)

    class View(int):
        meta: ClassVar = {"model": index.model.fingerprint}

    def read(folder: Path, catalogue: Any, before: Any = None) -> View:
        found = View(version[0])
        if threading.current_thread().name == "older":
            older_reads.set()
            newer_notes.wait(patience)
        return found

    monkeypatch.setattr(index.catalogue, "version", lambda: version[0])
    monkeypatch.setattr(module, "take_snapshot", read)
    seen = Interrupted(index.folder, index.model, index.catalogue)

    def look(end: threading.Event) -> None:
        assert int(seen.snapshot) in (1, 2)  # type: ignore[call-overload]
        end.set()

    version[0] = 1
    older = threading.Thread(target=look, name="older", args=(older_is_done,))
    older.start()
    older_reads.wait(600)
    version[0] = 2
    newer = threading.Thread(target=look, name="newer", args=(threading.Event(),))
    newer.start()
    older.join(600)
    newer.join(600)
    assert int(seen.snapshot) == 2  # type: ignore[call-overload]


def test_what_was_deleted_is_gone_from_the_next_view(index: Index) -> None:
    """Also while another thread is in the middle of a look at the catalogue."""
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with index.catalogue.transaction() as database:
            database.execute("SELECT count(*) FROM images").fetchone()
            inside.set()
            go_on.wait(600)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(600)
    deleting = threading.Thread(target=delete, args=(index.folder, ["s01"]))
    deleting.start()
    go_on.set()
    deleting.join(600)
    thread.join(600)
    assert index.snapshot.images == 47
