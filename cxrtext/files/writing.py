"""Write files so that a killed process leaves either the old one or the new one, and no litter.

A file is written under a temporary name beside it, synced, and renamed.  The writer holds a lock
(flock) on the temporary file, which a killed process gives up: the first write of a process into a
folder removes temporary files that nobody holds any more.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from cxrtext.errors import DataError, HeldError, WorkError
from cxrtext.files.digests import DIGITS, SUMS, sealed, sha256, sums_of

_LEFT = re.compile(r"\.(?P<stem>.+)\.[0-9a-f]{8}\.(?P<kind>tmp|old)(?P<suffix>\.[^.]+)?", re.DOTALL)
_LOCK = re.compile(r".+\.(?:csv|parquet|sqlite)\.lock", re.DOTALL)
"""Locks of `only_one` beside tables and databases; others, such as an inbox's, stay."""

_AT_WORKING_FOLDER, _EXCHANGE = -100, 2
_TRIES = 100
"""How often another process may be faster before the file system is blamed."""
_NOT_SUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})

_swept: set[tuple[int, Path]] = set()
"""Folders that a process has swept; a forked process sweeps for itself."""

_denied: list[int] = []
"""For each block of `rights_of_sources`, the rights that others do not have to what was read."""


@contextmanager
def rights_of_sources() -> Iterator[None]:
    """Inside, files written get no more rights for others than the folders they come from."""
    _denied.append(0)
    try:
        yield
    finally:
        _denied.pop()


def note_source(path: Path) -> None:
    """Note that everything written from now on also comes from this file."""
    if _denied and path.exists():
        _denied[-1] |= ~(path if path.is_dir() else path.parent).stat().st_mode & 0o077


def _allowed(mode: int) -> int:
    return mode & ~(_denied[-1] if _denied else 0)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _name_beside(path: Path, kind: str) -> Path:
    # Keeps the suffix, because writers (Parquet, PNG, safetensors) look at it.
    return path.with_name(f".{path.stem}.{secrets.token_hex(4)}.{kind}{path.suffix}")


def is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _lock(handle: int, kind: int) -> bool:
    """Lock an open file; False if another holds it.  Not every file system has locks."""
    try:
        fcntl.flock(handle, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, *_NOT_SUPPORTED):
            raise
    return True


def sweep(folder: Path) -> None:
    """Remove what killed processes left half written in a folder, but not in its subfolders.

    If a process was killed while it exchanged a folder, the old one gets its name back.  Files that
    a running process holds are left alone.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        # Another user's file, or a file that is gone meanwhile.
        with suppress(PermissionError, FileNotFoundError):
            if match := _left(name):
                _remove_left(folder, match)


def _left(name: str) -> re.Match[str] | None:
    return _LEFT.fullmatch(name) or _LOCK.fullmatch(name)


def is_empty(folder: Path) -> bool:
    """Whether a folder is empty, apart from leftovers of killed processes, which are removed."""
    if all(_left(path.name) for path in folder.iterdir()):
        sweep(folder)
    return not any(folder.iterdir())


def _remove_left(folder: Path, match: re.Match[str]) -> None:
    path = folder / match.group()
    if path.is_symlink():
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if match.re is _LOCK and (status.st_size or not stat.S_ISREG(status.st_mode)):
            return  # not one of our locks, which are empty files
        if not _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return
        if match.re is _LEFT and match["kind"] == "old":
            place = folder / f"{match['stem']}{match['suffix'] or ''}"
            if not place.exists():
                path.rename(place)
                return
        if not is_at(path, handle):
            return  # meanwhile another process took this lock and gave it up
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    finally:
        os.close(handle)


def _prepare(folder: Path) -> None:
    folder.mkdir(_allowed(0o777), parents=True, exist_ok=True)
    key = os.getpid(), folder.absolute()
    if key not in _swept:
        _swept.add(key)
        sweep(folder)


@contextmanager
def _temporary(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Make a temporary file or folder beside a path, hold its lock, and remove it at the end.

    Its parent folder is made when missing.  In a folder that only its owner can look into, only the
    owner may read the files.
    """
    _prepare(path.parent)
    mode = _allowed(0o666) if path.parent.stat().st_mode & 0o077 else 0o600
    kind = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
    for left in reversed(range(_TRIES)):
        temporary = _name_beside(path, "tmp")
        if folder:
            temporary.mkdir()
        try:
            handle = os.open(temporary, kind | os.O_CLOEXEC, mode)
        except FileNotFoundError:
            if folder and left:
                continue  # a sweep was faster
            raise
        _lock(handle, fcntl.LOCK_EX)
        if is_at(temporary, handle):
            break
        os.close(handle)
    else:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(temporary))
    try:
        yield temporary
    finally:
        if folder:
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def scratch_folder(folder: Path, name: str) -> Iterator[Path]:
    """Give a new private folder inside another; it goes at the end, or by a sweep."""
    with _temporary(folder / name, folder=True) as temporary:
        temporary.chmod(0o700)
        yield temporary


def write_named(folder: Path, stem: str, suffix: str, write: Callable[[Path], object]) -> Path:
    """Write ``<stem>-<digits><suffix>`` in a folder, named by the beginning of its own SHA-256.

    The folder is made when missing; ``write`` gets a temporary path, which one rename puts in
    place.
    """
    with _temporary(folder / f"{stem}{suffix}") as temporary:
        write(temporary)
        sync(temporary)
        path = folder / f"{stem}-{sha256(temporary)[:DIGITS]}{suffix}"
        temporary.replace(path)
        sync(folder)
    return path


@contextmanager
def replacing(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Give a temporary path; on success sync it and rename it to ``path``, else remove it.

    It is an empty file beside ``path`` with the same suffix.  ``new`` refuses (FileExistsError) an
    existing path.
    """
    with _temporary(path) as temporary:
        yield temporary
        sync(temporary)
        if new:
            os.link(temporary, path)
        else:
            temporary.replace(path)
        sync(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one step; False if the system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if call(_AT_WORKING_FOLDER, names[0], _AT_WORKING_FOLDER, names[1], _EXCHANGE) == 0:
        return True
    if (code := ctypes.get_errno()) in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(other))


def _put_in_place(temporary: Path, path: Path) -> None:
    """Give a folder its name; the folder it replaces gets a temporary name."""
    if not path.exists():
        temporary.rename(path)
        return
    if _exchange(temporary, path):
        return
    # Two steps: after a kill between them, a sweep gives the old folder its name back.
    old = _name_beside(path, "old")
    path.rename(old)
    try:
        temporary.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replacing_folder(path: Path, *, sums: bool = True, private: bool = False) -> Iterator[Path]:
    """Give an empty folder; on success exchange it with ``path`` in one step, else remove it.

    An existing folder is replaced only if it is empty or lists its digests (DataError).

    Args:
        sums: Whether it gets a list of the SHA-256 digests of its files, ``SHA256SUMS``.
        private: Whether only its owner may read it.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir() and not (path / SUMS).is_file() and not is_empty(path):
        raise DataError(f"{path}: cxrtext did not make it ({SUMS} is missing); move it away")
    with _temporary(path, folder=True) as temporary:
        if private:
            temporary.chmod(0o700)
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        if sums:
            write_sums(temporary)
        temporary.chmod(0o700 if private else _allowed(0o777 & ~mask))
        for file in temporary.rglob("*"):
            if file.is_file():
                # Some writers make private files, whatever the umask says.
                file.chmod(0o600 if private else _allowed(0o666 & ~mask))
            elif private:
                file.chmod(0o700)
            sync(file)
        sync(temporary)
        _put_in_place(temporary, path)
        sync(path.parent)


def lock_now(handle: IO[Any], held: str) -> None:
    """Lock a file until it is closed, which a kill does too (HeldError: ``held``)."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HeldError(held) from None


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold a lock on making a file, across processes (WorkError if another holds it).

    A killed process gives it up.  The lock is ``<path>.lock`` beside the file, removed at the end.
    """
    lock = path.with_name(path.name + ".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_TRIES):
        with lock.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkError(
                    f"{path}: another process is making this file; wait for it to end"
                ) from None
            # The previous holder may have removed the file between our opening and locking it.
            if not is_at(lock, handle.fileno()):
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return
    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(lock))


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, and wait until it is on disk.

    An existing file is replaced, and links are not followed.  A missing folder is made for its
    owner alone.  A killed process can leave a partial file.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)
    sync(path.parent)


def _check_inside(path: Path, inside: Path) -> None:
    """Refuse a path that is not strictly inside a folder, links above it followed (DataError)."""
    place = path.parent.resolve() / path.name
    if path.name in ("", "..") or inside.resolve() not in place.parents:
        raise DataError(f"{path}: is not inside {inside}, and is not removed; move it away")


def remove_folder(folder: Path, *, inside: Path, note: Path) -> None:
    """Remove a folder that we made inside another one, if it exists.

    ``note`` is a file that proves it is ours.  A folder that is not strictly inside, a link, or a
    folder without such a note stays (DataError).
    """
    if not os.path.lexists(folder):
        return
    _check_inside(folder, inside)
    if folder.is_symlink() or not folder.is_dir():
        what = "a link" if folder.is_symlink() else "no folder"
        raise DataError(f"{folder}: is {what}, which cxrtext did not make; move it away")
    if not note.is_file():
        raise DataError(f"{folder}: cxrtext did not make it ({note} is missing); move it away")
    gone = _name_beside(folder, "tmp")
    folder.rename(gone)  # at once; a sweep removes what a kill leaves
    shutil.rmtree(gone, ignore_errors=True)


def remove_file(path: Path, *, inside: Path | None = None) -> None:
    """Remove a file, if it exists, and wait until that is on disk.

    With ``inside``, a file outside that folder stays (DataError).
    """
    if inside is not None:
        _check_inside(path, inside)
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with replacing(path) as temporary:
        # Bytes of a path that are not UTF-8 are written as in JSON: \udcfc.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, indented, whole or not at all; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with the digest of its content, which reading checks."""
    write_json(path, sealed(value))


def write_sums(folder: Path, names: Iterable[str] | None = None) -> None:
    """List the SHA-256 digests of a folder's files, by default of all, in ``SHA256SUMS``."""
    lines = [f"{digest}  {name}\n" for name, digest in sums_of(folder, names).items()]
    write_text(folder / SUMS, "".join(lines))
