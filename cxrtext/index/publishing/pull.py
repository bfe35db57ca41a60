"""Pulling a published index: a complete one beside that which is there, and then a turn to it.

What a stopped run fetched is kept, and what an older publication has is taken from there.  Every
piece is compared with its digest before it counts.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError, DiskError, NotFoundError, WorkError
from cxrtext.files import only_one, read_sealed, sync, write_sealed
from cxrtext.files.storage import Storage
from cxrtext.index.publishing.publication import (
    PIECE_BYTES,
    UPLOADS,
    File,
    Manifest,
    digest_of,
    parse_manifest,
    read_manifest,
    read_piece,
    read_pointer,
)
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.replica import (
    FORMAT,
    IN_USE,
    INDEX,
    POINTER,
    PUBLICATIONS,
    Publication,
    current_of,
)
from cxrtext.index.store.writer import write_summary
from cxrtext.pausing import StageProgress

NOTE = "publication.json"
"""What a pulled publication holds, in its folder."""

PARTIAL, GONE = ".partial", ".gone"
"""How folders end that are being made, and being removed."""

VOLUME = "lost+found"
"""What a new volume may hold."""

ATTEMPTS = 3
SPARE_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Pulled:
    publication: str  # digest
    published: str  # when, UTC, as ISO 8601
    fingerprint: str  # of the model
    images: int
    sentences: int
    size: int  # bytes of all files
    fetched: int  # bytes that came over the line
    turned: bool  # whether it was another publication before
    held: int  # older publications that are still answered by


def pull(storage: Storage, folder: Path, *, progress: StageProgress | None = None) -> Pulled:
    """Pull the newest publication into a replica, made where there is none, and turn it to that."""
    tell = progress or (lambda _stage, _done, _total: None)
    newest = _newest(storage)
    _check_folder(folder)
    with _disk_errors(folder), only_one(folder / POINTER):
        home = folder / PUBLICATIONS
        home.mkdir(mode=0o700, exist_ok=True)
        for attempt in range(1, ATTEMPTS + 1):
            before = current_of(folder)
            place = home / newest.digest
            fetched = 0
            try:
                if not place.is_dir():
                    fetched = _Fetcher(storage, home, newest, tell).fetch()
            except NotFoundError as error:
                # Where it was removed, another one was published meanwhile.
                missing, newest = newest, _newest(storage)
                if attempt == ATTEMPTS or newest == missing:
                    raise DataError(f"{error}; publish the index again") from None
            else:
                break
        turned = before is None or before.digest != newest.digest
        if turned:
            noted = {"publication": newest.digest, "published": newest.published}
            write_sealed(folder / POINTER, {"format": FORMAT, **noted})
        held = _remove_others(home, newest.digest)
        manifest = _noted(place / NOTE)
    if manifest is None:
        raise DataError(f"{place / NOTE}: is damaged; remove {place} and pull again")
    return Pulled(
        newest.digest, newest.published, manifest.fingerprint, manifest.images, manifest.sentences,
        manifest.size, fetched, turned, held,
    )  # fmt: skip


def _newest(storage: Storage) -> Publication:
    found = read_pointer(storage)
    if found is None:
        raise DataError(
            f"{storage.address}: nothing is published there; publish an index with 'cxrtext index "
            "publish INDEX TARGET'"
        )
    return found


def _check_folder(folder: Path) -> None:
    if (folder / CATALOGUE).exists():
        raise DataError(f"{folder}: is an index of its own; name another folder for the replica")
    if current_of(folder) is not None or (folder / PUBLICATIONS).is_dir():
        return
    ours = (VOLUME, f"{POINTER}.lock")  # the latter of a pull that was killed at its very beginning
    others = [path for path in folder.iterdir() if path.name not in ours] if folder.is_dir() else []
    if others or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder}: is not empty; name a new folder for the replica")
    with _disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (DiskError if full else WorkError)(
            f"{error.filename or folder}: {error.strerror}; "
            + ("make room" if full else "fix the disk")
            + " and run the same command again: what was fetched is kept, and the replica goes on "
            "answering by what it has"
        ) from None


class _Fetcher:
    """A publication being laid into the folder ``DIGEST.partial``."""

    def __init__(
        self, storage: Storage, home: Path, publication: Publication, tell: StageProgress
    ) -> None:
        self._storage, self._home, self._tell = storage, home, tell
        self._digest = publication.digest
        self._folder = home / f"{publication.digest}{PARTIAL}"
        self._manifest, _ = read_manifest(storage, publication.digest)
        self._local: dict[str, tuple[Path, int, int]] = {}  # by digest: file, offset, bytes
        self._whole: dict[tuple[str, File], Path] = {}  # files of complete publications
        self._fetched = self._done = 0

    def fetch(self) -> int:
        self._look_around()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        noted = {"publication": self._digest, "content": self._manifest.as_json()}
        write_sealed(self._folder / NOTE, noted)
        self._require_room()
        for name, file in self._manifest.files.items():
            self._lay(name, file)
        index = self._folder / INDEX
        (self._folder / IN_USE).touch(mode=0o600)
        with Catalogue(index / CATALOGUE) as catalogue:  # refuses one of a newer version
            write_summary(index, catalogue)
        for path in self._folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o400)
            if path.is_dir():
                sync(path)
        sync(self._folder)
        self._folder.rename(self._home / self._digest)
        sync(self._home)
        return self._fetched

    def _look_around(self) -> None:
        """Learn which pieces other publications here have, complete ones or not."""
        for folder in self._home.iterdir():
            manifest = None if folder.name.endswith(GONE) else _noted(folder / NOTE)
            for name, file in {} if manifest is None else manifest.files.items():
                path = folder / name
                if not folder.name.endswith(PARTIAL):
                    self._whole[name, file] = path
                for digest, offset, size in file.parts():
                    self._local.setdefault(digest, (path, offset, size))

    def _require_room(self) -> None:
        """Refuse to begin what does not fit on the disk (DiskError)."""
        there = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        wanted = sum(
            file.size for one in self._manifest.files.items() if one not in self._whole
            for file in one[1:]
        )  # fmt: skip
        needed = wanted - there + SPARE_BYTES
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise DiskError(
                f"{self._home.parent}: the disk is full: {needed / 1e9:.3g} GB are needed beside "
                f"what is there and {free / 1e9:.3g} GB are free; make room and run the same "
                "command again: the replica goes on answering by what it has"
            )

    def _lay(self, name: str, file: File) -> None:
        target = self._folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._link(name, file, target):
            self._tell_done(file.size)
            return
        if target.exists():
            if target.stat().st_nlink > 1:
                target.unlink()  # a stopped run linked it to what is damaged since
            else:
                target.chmod(0o600)  # a run that was stopped at its end made it read-only
        with target.open("r+b" if target.exists() else "w+b") as handle:
            for digest, offset, size in file.parts():
                handle.seek(offset)
                if digest_of(handle.read(size)) != digest:
                    data = self._piece(digest, size)
                    handle.seek(offset)
                    handle.write(data)
                self._tell_done(size)
            handle.truncate(file.size)
            handle.flush()
            os.fsync(handle.fileno())

    def _link(self, name: str, file: File, target: Path) -> bool:
        """Give a file of another publication a second name, where it is the same and whole.

        Uploads were compared when they were fetched, and are not read again.
        """
        source = self._whole.get((name, file))
        if source is None or not source.is_file() or source.stat().st_size != file.size:
            return False
        if not name.startswith(UPLOADS):
            with source.open("rb") as handle:
                if any(digest_of(handle.read(PIECE_BYTES)) != digest for digest in file.pieces):
                    return False
        with suppress(OSError):
            target.unlink(missing_ok=True)
            target.hardlink_to(source)
            return True
        return False

    def _piece(self, digest: str, size: int) -> bytes:
        path, offset, _ = self._local.get(digest, (None, 0, 0))
        if path is not None:
            with suppress(FileNotFoundError), path.open("rb") as handle:
                handle.seek(offset)
                data = handle.read(size)
                if digest_of(data) == digest:
                    return data
        data = read_piece(self._storage, digest)
        self._fetched += len(data)
        return data

    def _tell_done(self, size: int) -> None:
        self._done += size
        self._tell("pulling (bytes)", self._done, self._manifest.size)


def _noted(path: Path) -> Manifest | None:
    with suppress(OSError, KeyError, TypeError, ValueError):
        noted = read_sealed(path)
        return parse_manifest(noted, noted["publication"])
    return None


def _remove_others(home: Path, digest: str) -> int:
    """Remove all publications but one that nobody answers by; gives how many are still there."""
    held = 0
    for folder in home.iterdir():
        if folder.name == digest or not folder.is_dir():
            continue
        if folder.name.endswith((PARTIAL, GONE)):
            shutil.rmtree(folder, ignore_errors=True)
        elif not _remove(folder):
            held += 1
    return held


def _remove(folder: Path) -> bool:
    try:
        with (folder / IN_USE).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = folder.with_name(f"{folder.name}{GONE}")
            folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        shutil.rmtree(folder, ignore_errors=True)
    return True
