"""Files on a folder and on an S3 server of this machine, by one interface."""

import errno
import multiprocessing
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import ConfigError, CxrTextError, DataError, NotFoundError, WorkError
from cxrtext.files.storage import Storage, open_storage
from tests.s3 import KEY, SECRET, bucket, server

__all__ = ["bucket", "server"]


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return open_storage(tmp_path / "new" / "job")
    return open_storage(request.getfixturevalue("bucket"))


def test_what_is_committed_is_read(storage: Storage, tmp_path: Path) -> None:
    assert storage.names() == []
    storage.commit("shards/2.bin", b"two")
    (tmp_path / "file").write_bytes(b"one" * 1000)
    storage.commit("shards/1.bin", tmp_path / "file")
    storage.commit("job.json", b"{}")
    assert storage.names() == ["job.json", "shards/1.bin", "shards/2.bin"]
    assert storage.names("shards/") == storage.names("shards/")[:2] == storage.names("sh")
    assert storage.names("shards/2") == ["shards/2.bin"]
    (entry,) = storage.entries("shards/1")
    assert (entry.size, storage.size("shards/1.bin")) == (3000, 3000)
    assert abs(entry.modified - time.time()) < 60
    assert storage.read("shards/2.bin") == b"two"
    storage.commit("shards/2.bin", b"another")
    assert storage.read("shards/2.bin") == b"another"
    for _ in range(2):
        storage.remove("shards/2.bin")
    assert not storage.has("shards/2.bin")
    assert storage.has("shards/1.bin")


def test_a_taken_name_is_refused_where_it_has_to_be_new(storage: Storage) -> None:
    storage.commit("job.json", b"first", new=True)
    with pytest.raises(FileExistsError):
        storage.commit("job.json", b"second", new=True)
    assert storage.read("job.json") == b"first"
    assert storage.names() == ["job.json"]


def test_what_is_missing_is_said(storage: Storage, tmp_path: Path) -> None:
    storage.commit("a/b", b"")
    for ask in (storage.read, storage.size):
        with pytest.raises(NotFoundError, match=r"job: holds no file a/c"):
            ask("a/c")
    for name in ("../out", ".hidden", "/root", "a//b", ""):
        with pytest.raises(ValueError, match="is no name"):
            storage.commit(name, b"")


def _commit(address: str, byte: int) -> None:
    storage = open_storage(address)
    for _ in range(30):
        storage.commit("one", bytes([byte]) * 20_000)


def test_of_two_writers_either_is_whole(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_commit, args=(str(tmp_path), byte)) for byte in (1, 2)]
    for writer in writers:
        writer.start()
    storage = open_storage(tmp_path)
    while any(writer.is_alive() for writer in writers):
        if storage.has("one"):
            assert len(set(storage.read("one"))) == 1
            assert storage.size("one") == 20_000
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_folder_made_here_is_its_owners_alone(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "job")
    storage.commit("shards/1", b"regions of patients")
    for path in (tmp_path / "job", tmp_path / "job" / "shards"):
        assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "job" / "shards" / "1").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_missing_rights_are_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="check the folder and its rights"):
        open_storage(tmp_path).commit("a", b"")


def test_a_file_in_a_folders_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("")
    with pytest.raises(CxrTextError, match=r"job: a cannot be read or written"):
        open_storage(tmp_path / "job").commit("a", b"")


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(tmp_path)
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


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s4://bucket/job", "no kind of address"),
        ("s3://", "names no bucket"),
        (f"s3://{KEY}:{SECRET}@bucket/job", "credentials would end up in logs"),
    ],
)
def test_bad_addresses_are_refused(address: str, said: str) -> None:
    if address == "s3://":
        pytest.importorskip("s3fs")
    with pytest.raises(ConfigError, match=said) as caught:
        open_storage(address)
    assert SECRET not in str(caught.value)


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    known = pytest.importorskip("fsspec") and import_module("fsspec.registry")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(known._registry, "s3", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'cxrtext\[cluster\]'"):
        open_storage("s3://bucket/never-asked-for")


def test_a_store_that_is_not_there_or_refuses_is_one_line(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CxrTextError, match="s3://no-such-bucket-here/job") as caught:
        open_storage("s3://no-such-bucket-here/job").commit("a", b"")
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(WorkError, match="cannot be used") as caught_work:
        open_storage(bucket).read("a")
    assert SECRET not in str(caught_work.value)
    s3fs.S3FileSystem.clear_instance_cache()


def test_no_credentials_are_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(ConfigError, match="no credentials"):
        open_storage(bucket).commit("a", b"")
    s3fs.S3FileSystem.clear_instance_cache()
