"""Files below a folder, committed one by one."""

import errno
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import CxrTextError, DataError, NotFoundError, WorkError
from cxrtext.files.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "new" / "job")


def test_what_is_committed_is_read(storage: Storage, tmp_path: Path) -> None:
    assert storage.names() == []
    storage.commit("shards/2.bin", b"two")
    storage.commit("shards/1.bin", b"one" * 1000)
    storage.commit("job.json", b"{}")
    assert storage.names() == ["job.json", "shards/1.bin", "shards/2.bin"]
    assert storage.names("shards/") == storage.names("shards/")[:2] == storage.names("sh")
    assert storage.names("shards/2") == ["shards/2.bin"]
    assert storage.read("shards/2.bin") == b"two"
    storage.commit("shards/2.bin", b"another")
    assert storage.read("shards/2.bin") == b"another"
    for _ in range(2):
        storage.remove("shards/2.bin")
    assert storage.names("shards/") == ["shards/1.bin"]


def test_a_taken_name_is_refused_where_it_has_to_be_new(storage: Storage) -> None:
    storage.commit("job.json", b"first", new=True)
    with pytest.raises(FileExistsError):
        storage.commit("job.json", b"second", new=True)
    assert storage.read("job.json") == b"first"
    assert storage.names() == ["job.json"]


def test_what_is_missing_is_said(storage: Storage, tmp_path: Path) -> None:
    storage.commit("a/b", b"")
    with pytest.raises(NotFoundError, match=r"job: holds no file a/c"):
        storage.read("a/c")
    for name in ("../out", ".hidden", "/root", "a//b", ""):
        with pytest.raises(ValueError, match="is no name"):
            storage.commit(name, b"")


def _commit(folder: Path, byte: int) -> None:
    storage = Storage(folder)
    for _ in range(30):
        storage.commit("one", bytes([byte]) * 20_000)


def test_of_two_writers_either_is_whole(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_commit, args=(tmp_path, byte)) for byte in (1, 2)]
    for writer in writers:
        writer.start()
    storage = Storage(tmp_path)
    while any(writer.is_alive() for writer in writers):
        if storage.names("one"):
            assert len(set(found := storage.read("one"))) == 1
            assert len(found) == 20_000
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_folder_made_here_is_its_owners_alone(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "job")
    storage.commit("shards/1", b"regions of patients")
    for path in (tmp_path / "job", tmp_path / "job" / "shards"):
        assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "job" / "shards" / "1").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_missing_rights_are_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="check the folder and its rights"):
        Storage(tmp_path).commit("a", b"")


def test_a_file_in_a_folders_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("")
    with pytest.raises(CxrTextError, match=r"job: a cannot be read or written"):
        Storage(tmp_path / "job").commit("a", b"")


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    storage.commit("publications/1.json", b"{}")
    storage.commit("objects/1", b"piece")
    scandir = os.scandir

    def broken(path: Any) -> Any:
        if Path(path).name == "publications":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", broken)
    assert storage.names("objects/") == ["objects/1"]
    for prefix in ("", "publications/"):
        with pytest.raises(WorkError, match=r"cannot be read or written \(Input/output error"):
            storage.names(prefix)
