"""The files of a decoded cache: a catalogue in SQLite, and the squares of each size in a file."""

import os
import secrets
import sqlite3
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from cxrtext.errors import DataError, WorkError
from cxrtext.files import only_one
from cxrtext.files.table_sums import strict_text
from cxrtext.images.reader_pool import ReadImage
from cxrtext.images.source import MAX_FILE_BYTES

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

NAME = "decoded.sqlite"
READER_VERSION = 2
"""To be raised when an image read, or made a square, is no longer the same pixels as before."""

FORMAT = 2  # version of the catalogue's tables
BUSY_SECONDS = 120.0

_SCHEMA = """
CREATE TABLE file (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    digest BLOB NOT NULL                 -- SHA-256 of its bytes
) STRICT, WITHOUT ROWID;
CREATE TABLE store (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice
    size INTEGER NOT NULL,               -- side of its squares
    reader INTEGER NOT NULL,             -- version of the reader that made them
    file TEXT NOT NULL UNIQUE,
    UNIQUE (size, reader)
) STRICT;
CREATE TABLE square (
    store INTEGER NOT NULL,
    digest BLOB NOT NULL,
    slot INTEGER,                        -- NULL where the image cannot be read
    height INTEGER,                      -- of the original, in pixels
    width INTEGER,
    checksum INTEGER,
    reason TEXT,                         -- why it cannot be read, without the file's name
    PRIMARY KEY (store, digest)
) STRICT, WITHOUT ROWID;
"""

YOUNG_NS = 2_000_000_000  # A file changed so shortly ago may change again without its times telling


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn what a disk or SQLite refuses into one line that names the cache.

    Raises:
        WorkError: The disk is full, or fails.
        DataError: The folder cannot be written, or the catalogue is damaged.
    """
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise DataError(f"{folder}: {_unwritable(str(error.strerror).lower())}") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise WorkError(f"{folder}: {_not_kept(reason)}") from None
    except sqlite3.OperationalError as error:
        if "readonly" in str(error) or "unable to open" in str(error):
            raise DataError(f"{folder}: {_unwritable(str(error))}") from None
        raise WorkError(f"{folder}: {_not_kept(str(error))}") from None
    except sqlite3.DatabaseError:
        raise DataError(
            f"{folder}: the catalogue of decoded images is damaged; delete the folder, and it is "
            "made again"
        ) from None


def _unwritable(reason: str) -> str:
    return f"decoded images cannot be kept there ({reason}); name a folder that can be written"


def _not_kept(reason: str) -> str:
    return (
        f"decoded images cannot be kept ({reason}); make room or name another folder, then run "
        "again: what was decoded is kept"
    )


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and times of a file."""

    size: int
    mtime_ns: int  # when its bytes changed, as the file says
    # when anything of it changed, as the system says; copying tools that keep the first cannot keep
    # this.
    ctime_ns: int

    @property
    def settled(self) -> bool:
        """Whether a later change would show in the times."""
        return time.time_ns() - max(self.mtime_ns, self.ctime_ns) > YOUNG_NS


def stamp_of(path: Path) -> Stamp | None:
    """Look at a file; None where it is not one that could be read as an image."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    # A pipe could be read without end; what is too large is refused before it is read.
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def name_of(path: Path) -> bytes:
    """Give the absolute path, as the system writes it; names need not be text."""
    return os.fsencode(Path(os.path.abspath(path)))  # noqa: PTH100 - links stay as they are


def checksum(digest: bytes, height: int, width: int, pixels: Pixels) -> int:
    """Give a number that changes when a square, or what is noted of it, is not what was kept."""
    noted = digest + struct.pack("<II", height, width)
    return zlib.crc32(np.ascontiguousarray(pixels).data, zlib.crc32(noted))


class PixelFile:
    """An open file of squares, each [size, size] uint8; a slot is a place in it, from 0.

    Args:
        size: Side of a square, in pixels.
        write: Whether to write; the file is then made when missing, for its owner alone.
    """

    def __init__(self, path: Path, size: int, *, write: bool) -> None:
        self._size = size
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        self._handle = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def slots(self) -> int:
        """How many whole squares the file can hold now."""
        return os.fstat(self._handle).st_size // self._size**2

    def read(self, slot: int) -> Pixels | None:
        """Read a square, [1, size, size]; None where the file is too short.

        Read and not mapped: a mapped file that another process cuts short ends this one.
        """
        pixels = np.empty((1, self._size, self._size), dtype=np.uint8)
        view = pixels.data.cast("B")
        place = slot * len(view)
        while view:
            count = os.preadv(self._handle, [view], place)
            if count == 0:
                return None
            view, place = view[count:], place + count
        return pixels

    def write(self, slot: int, pixels: Pixels) -> None:
        """Write a square, [1, size, size]."""
        view = np.ascontiguousarray(pixels, dtype=np.uint8).data.cast("B")
        place = slot * self._size**2
        while view:
            count = os.pwrite(self._handle, view, place)
            view, place = view[count:], place + count


def map_squares(path: Path, slots: int, size: int) -> Pixels:
    """Map the first ``slots`` squares of a file into memory, [slots, size, size], to be read."""
    if slots == 0:
        return np.empty((0, size, size), dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(slots, size, size))


@dataclass(frozen=True, slots=True)
class Store:
    """The squares of one size, in one file."""

    id: int
    size: int
    file: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a square lies, and what it was made from."""

    slot: int
    height: int
    width: int
    checksum: int


def _reason_checksum(digest: bytes, reason: object) -> int:
    return zlib.crc32(digest + str(reason).encode("utf-8", "surrogatepass"))


class UnusableError(Exception):
    """The catalogue is damaged or of another version."""


class Catalogue:
    """An open catalogue; a context manager.

    Raises:
        UnusableError: It is damaged or of another version.
        sqlite3.Error: It cannot be opened or made.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        # SQLite's own files take the rights of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._base = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        self._base.text_factory = strict_text
        self._noted: list[tuple[bytes, int, int, int, bytes]] = []
        try:
            self._prepare()
        except sqlite3.OperationalError:
            self._base.close()
            raise
        except (sqlite3.DatabaseError, UnusableError):
            self._base.close()
            raise UnusableError from None

    def _prepare(self) -> None:
        base = self._base
        # A killed process leaves what the system has; only a machine that loses power could
        # lose more, and then the checksums tell.
        base.execute("PRAGMA journal_mode = PERSIST")
        base.execute("PRAGMA synchronous = OFF")
        base.execute("BEGIN IMMEDIATE")
        version = base.execute("PRAGMA user_version").fetchone()[0]
        empty = base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if version != (0 if empty else FORMAT):
            raise UnusableError
        if empty:
            for statement in _SCHEMA.split(";")[:-1]:
                base.execute(statement)
            base.execute(f"PRAGMA user_version = {FORMAT}")
        base.execute("COMMIT")
        if base.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise UnusableError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def digest(self, path: Path, stamp: Stamp) -> bytes | None:
        """Give the digest of a file that has not changed since it was noted."""
        row = self._base.execute(
            "SELECT digest FROM file WHERE path = ? AND size = ? AND mtime_ns = ? AND ctime_ns = ?",
            [name_of(path), stamp.size, stamp.mtime_ns, stamp.ctime_ns],
        ).fetchone()
        return None if row is None else bytes(row[0])

    def note(self, path: Path, stamp: Stamp, digest: bytes) -> None:
        """Note the digest of a file; kept with the next square, or by :meth:`flush`."""
        self._noted.append((name_of(path), stamp.size, stamp.mtime_ns, stamp.ctime_ns, digest))
        if len(self._noted) >= 1000:
            self.flush()

    def flush(self) -> None:
        """Keep what was noted."""
        with self._writing():
            pass

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._base.executemany("INSERT OR REPLACE INTO file VALUES (?,?,?,?,?)", self._noted)
            yield self._base
            self._base.execute("COMMIT")
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise
        self._noted.clear()

    def store(self, size: int) -> Store | None:
        """Give the squares of a size, as this version reads images; None where there are none."""
        row = self._base.execute(
            "SELECT id, size, file FROM store WHERE size = ? AND reader = ?", [size, READER_VERSION]
        ).fetchone()
        return row and Store(*row)

    def add_store(self, size: int) -> Store:
        """Begin a store of a size."""
        with self._writing() as base:
            base.execute(
                "INSERT INTO store (size, reader, file) VALUES (?, ?, ?)",
                [size, READER_VERSION, f"decoded-{size}-{secrets.token_hex(4)}.u8"],
            )
        made = self.store(size)
        assert made is not None  # noqa: S101 - it was made above
        return made

    def outdated(self) -> list[Store]:
        """Give the stores that another version of the reader made."""
        rows = self._base.execute(
            "SELECT id, size, file FROM store WHERE reader != ?", [READER_VERSION]
        ).fetchall()
        return [Store(*row) for row in rows]

    def remove_store(self, store: Store) -> None:
        """Forget a store and its squares."""
        with self._writing() as base:
            base.execute("DELETE FROM square WHERE store = ?", [store.id])
            base.execute("DELETE FROM store WHERE id = ?", [store.id])

    def kept(self, store: Store, digest: bytes) -> Kept | str | None:
        """Give where the square of a digest lies, why there is none, or None."""
        row = self._base.execute(
            "SELECT slot, height, width, checksum, reason FROM square "
            "WHERE store = ? AND digest = ?",
            [store.id, digest],
        ).fetchone()
        if row is None:
            return None
        if row[0] is not None:
            return Kept(*row[:4])
        # A reason that is not what was noted is none: the image is decoded again.
        return str(row[4]) if row[3] == _reason_checksum(digest, row[4]) else None

    def add(self, store: Store, digest: bytes, entry: Kept | str) -> None:
        """Note a square that is written, or why there is none; kept when this returns."""
        if isinstance(entry, str):
            values: tuple[object, ...] = (*(None,) * 3, _reason_checksum(digest, entry), entry)
        else:
            values = (entry.slot, entry.height, entry.width, entry.checksum, None)
        with self._writing() as base:
            base.execute(
                "INSERT OR REPLACE INTO square VALUES (?,?,?,?,?,?,?)", [store.id, digest, *values]
            )

    def entries(self) -> Iterator[tuple[Store, bytes, Kept | str | None]]:
        """Give every entry of every store: its digest, and what :meth:`kept` says of it."""
        for store in [
            Store(*row) for row in self._base.execute("SELECT id, size, file FROM store")
        ]:
            found = self._base.execute("SELECT digest FROM square WHERE store = ?", [store.id])
            for (digest,) in found.fetchall():
                yield store, bytes(digest), self.kept(store, bytes(digest))

    def slots(self, store: Store) -> int:
        """Give the number of slots in use: one more than the last."""
        row = self._base.execute(
            "SELECT coalesce(max(slot) + 1, 0) FROM square WHERE store = ?", [store.id]
        ).fetchone()
        return int(row[0])

    def cut(self, store: Store, slots: int) -> int:
        """Forget the squares from a slot on, and say how many they were."""
        with self._writing() as base:
            return base.execute(
                "DELETE FROM square WHERE store = ? AND slot >= ?", [store.id, slots]
            ).rowcount


@contextmanager
def only_filler(folder: Path) -> Iterator[None]:
    """Hold the right to add to a cache, across processes; a killed process gives it up."""
    with ExitStack() as stack:
        with disk_errors(folder):
            try:
                stack.enter_context(only_one(folder / NAME))
            except WorkError:
                raise WorkError(
                    f"{folder}: another process is adding decoded images to this cache; wait for "
                    "it to end, or name another folder"
                ) from None
        yield


def open_catalogue(folder: Path, say: Callable[[str], None]) -> Catalogue:
    """Open the catalogue of a cache; one that is damaged or of another version is made afresh."""
    with disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return Catalogue(folder)
        except UnusableError:
            pass
    with only_filler(folder), disk_errors(folder):
        try:
            return Catalogue(folder)  # the process before may have made it afresh
        except UnusableError:
            pass
        say(f"{folder}: the cache is damaged or of another version; images are decoded again")
        for path in [*folder.glob(f"{NAME}*"), *folder.glob("decoded-*.u8")]:
            if path.suffix != ".lock":
                path.unlink()
        return Catalogue(folder)


class SquareStore:
    """The squares of one size; open from its making until it is closed.

    Args:
        size: Side of the squares, in pixels.
    """

    def __init__(self, folder: Path, size: int, say: Callable[[str], None]) -> None:
        self._folder, self._size, self._say = folder, size, say
        self._open = ExitStack()
        self._filling = False
        self._next = 0
        self._damaged: set[bytes] = set()
        self._pixels: PixelFile | None = None
        self.catalogue = self._open.enter_context(open_catalogue(folder, say))
        try:
            with disk_errors(folder):
                self._store: Store | None = self.catalogue.store(size)
                if self._store is not None and self.path.is_file():
                    self._take(PixelFile(self.path, size, write=False))
        except BaseException:
            self._open.close()
            raise

    @property
    def path(self) -> Path:
        """The file of the squares; the folder, as long as nothing is kept."""
        return self._folder / (self._store.file if self._store else "")

    def close(self) -> None:
        """Close the files, let others add, and say what was damaged."""
        self._open.close()
        if self._damaged:
            self._say(f"{self._folder}: {len(self._damaged)} kept image(s) were damaged")

    def find(self, digest: bytes) -> tuple[ReadImage, int] | str | None:
        """Give a square and its slot, or why there is none; None where it is not known."""
        if self._store is None:
            return None
        with disk_errors(self._folder):
            kept = self.catalogue.kept(self._store, digest)
            if kept is None or isinstance(kept, str):
                return kept
            pixels = None if self._pixels is None else self._pixels.read(kept.slot)
        if pixels is None or (checksum(digest, kept.height, kept.width, pixels) != kept.checksum):
            self._damaged.add(digest)
            return None
        return ReadImage(pixels, kept.height, kept.width), kept.slot

    def begin_filling(self) -> None:
        """Take the right to add, once; what is no longer of use is removed."""
        if self._filling:
            return
        self._open.enter_context(only_filler(self._folder))
        self._filling = True
        with disk_errors(self._folder):
            self._remove_outdated()
            self._store = self.catalogue.store(self._size)
            if self._store is not None and not self.path.is_file():
                self._say(f"{self.path}: is gone; its images are decoded again")
                self.catalogue.remove_store(self._store)
                self._store = None
            if self._store is None:
                self._store = self.catalogue.add_store(self._size)
            pixels = self._take(PixelFile(self.path, self._size, write=True))
            lost = self.catalogue.cut(self._store, pixels.slots())
            if lost:
                self._say(f"{self.path}: was cut short; {lost} image(s) are decoded again")
            self._next = self.catalogue.slots(self._store)

    def _remove_outdated(self) -> None:
        for store in self.catalogue.outdated():
            self._say(
                f"{self._folder}: images of size {store.size} were read by another version; "
                "they are decoded again"
            )
            self.catalogue.remove_store(store)
            (self._folder / store.file).unlink(missing_ok=True)

    def _take(self, pixels: PixelFile) -> PixelFile:
        self._open.callback(pixels.close)
        self._pixels = pixels
        return pixels

    def add(self, digest: bytes, image: ReadImage | str) -> int:
        """Keep a square, or why there is none; it is kept when this returns.

        Returns:
            Its slot; -1 without a square.
        """
        assert self._store is not None  # noqa: S101 - begin_filling made it
        assert self._pixels is not None  # noqa: S101
        with disk_errors(self._folder):
            if isinstance(image, str):
                self.catalogue.add(self._store, digest, image)
                return -1
            slot = self._next
            self._pixels.write(slot, image.pixels)
            named_errors = checksum(digest, image.height, image.width, image.pixels)
            kept = Kept(slot, image.height, image.width, named_errors)
            self.catalogue.add(self._store, digest, kept)  # only now can it be found
        self._next = slot + 1
        return slot
