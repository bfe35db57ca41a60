"""Writing files so that a killed process leaves either the old one or the new one."""

import fcntl
import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cxrtext.errors import WorkError


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _temporary_name(path: Path) -> Path:
    # Keeps the ending, because writers (Parquet, PNG, safetensors) look at it.
    return path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path; on success sync it and rename it to ``path``, else remove it.

    Args:
        path: The file to make or replace; its folder is made when missing.

    Yields:
        A path beside it with the same ending, to be written inside the block.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(path)
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder; on success rename it to ``path``, else remove it.

    An existing folder at ``path`` is moved aside first and removed last.

    Args:
        path: The folder to make or replace.

    Yields:
        An empty folder beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(path)
    temporary.mkdir()
    old = _temporary_name(path)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        for file in temporary.rglob("*"):
            if file.is_file():
                # Some writers make files for their owner alone, whatever the umask says.
                file.chmod(0o666 & ~mask)
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        if path.exists():
            path.rename(old)
        try:
            temporary.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
        _sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def remove_temporaries(path: Path) -> None:
    """Remove what ``replacing`` leaves of a file when its process is killed.

    Args:
        path: The file, that no other process may be writing now: see ``only_one``.
    """
    stem, ending = glob.escape(path.stem), glob.escape(path.suffix)
    for left in path.parent.glob(f".{stem}.{'[0-9a-f]' * 8}.tmp{ending}"):
        left.unlink(missing_ok=True)


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold a lock on work towards a file, across processes; a killed process gives it up.

    Args:
        path: The file; the lock is ``<path>.lock`` beside it, removed at the end.

    Raises:
        WorkError: Another process holds it.
    """
    lock = path.with_name(path.name + ".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with lock.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkError(
                    f"{path}: another process is making this file; wait for it to end"
                ) from None
            # The one before may have removed the file between our opening and locking it.
            if not _is_at(lock, handle.fileno()):
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, indented, whole or not at all; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 digest of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
