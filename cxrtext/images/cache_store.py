"""The files of a decoded cache: a catalogue in SQLite, and the squares of each size in a file."""

import os
import re
import secrets
import sqlite3
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from cxrtext.errors import DataError, WorkError, line_of
from cxrtext.files import only_one, remove_file
from cxrtext.files.sqlite import make_tables, strict_text, transaction
from cxrtext.images.reader_pool import ReadImage
from cxrtext.images.source import MAX_FILE_BYTES

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

NAME = "decoded.sqlite"
READER_VERSION = 5
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

# A file changed so shortly ago may change again without its times showing it.
YOUNG_NS = 2_000_000_000


@contextmanager
def disk_errors(folder: Path, what: str = "decoded images") -> Iterator[None]:
    """Turn what a disk or SQLite refuses into one line that names the cache and what it holds."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        reason = line_of(error)
        forbidden = "readonly" in reason or "unable to open" in reason
        if isinstance(error, OSError):
            reason = (error.strerror or type(error).__name__).lower()
            forbidden = isinstance(error, PermissionError | NotADirectoryError | FileExistsError)
        if forbidden:
            raise DataError(
                f"{folder}: {what} cannot be kept there ({reason}); name a folder that can "
                "be written"
            ) from None
        raise WorkError(
            f"{folder}: {what} cannot be kept ({reason}); make room or name another "
            "folder, then run again: what was done is kept"
        ) from None
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # the latter of SQLite's message
        raise DataError(
            f"{folder}: the catalogue of decoded images is damaged; delete the folder, and it is "
            "made again"
        ) from None


class Stamp(NamedTuple):
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


def _name_of(path: Path) -> bytes:
    """Give the absolute path, as the system writes it; names need not be text."""
    return os.fsencode(Path(os.path.abspath(path)))  # noqa: PTH100 - links stay as they are


class PixelFile:
    """An open file of squares [size, size] uint8, its owner's alone; a slot is a place from 0."""

    def __init__(self, path: Path, size: int, *, write: bool) -> None:
        self._size = size
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        self._handle = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        os.close(self._handle)

    def slots(self) -> int:
        return os.fstat(self._handle).st_size // self._size**2

    def read(self, slot: int) -> Pixels | None:
        """Read a square, [1, size, size]; None where the file is too short.

        Read and not mapped: a mapped file that another process cuts short ends this one.
        """
        pixels = np.empty((1, self._size, self._size), dtype=np.uint8)
        count = os.preadv(self._handle, [pixels.data.cast("B")], slot * pixels.nbytes)
        return pixels if count == pixels.nbytes else None

    def write(self, slot: int, pixels: Pixels) -> None:
        view = np.ascontiguousarray(pixels, dtype=np.uint8).data.cast("B")
        write_at(self._handle, slot * self._size**2, view)


def write_at(handle: int, place: int, data: bytes | memoryview) -> None:
    """Write all of some bytes at a place of an open file, in as many pieces as the system takes."""
    view = memoryview(data)
    while view:
        count = os.pwrite(handle, view, place)
        view, place = view[count:], place + count


class Store(NamedTuple):
    id: int
    size: int
    file: str


class Kept(NamedTuple):
    slot: int
    height: int
    width: int
    checksum: int

    @classmethod
    def of(cls, slot: int, digest: bytes, image: ReadImage) -> Self:
        """What is noted of a square: its checksum covers the pixels and the other numbers."""
        noted = digest + struct.pack("<II", image.height, image.width)
        total = zlib.crc32(np.ascontiguousarray(image.pixels).data, zlib.crc32(noted))
        return cls(slot, image.height, image.width, total)

    def read(self, file: PixelFile | None, digest: bytes) -> ReadImage | None:
        """Read the square; None where it, or what is noted of it, is not what was kept."""
        pixels = None if file is None else file.read(self.slot)
        if pixels is None:
            return None
        image = ReadImage(pixels, self.height, self.width)
        return image if Kept.of(self.slot, digest, image) == self else None


def _reason_checksum(digest: bytes, reason: object) -> int:
    return zlib.crc32(digest + str(reason).encode("utf-8", "surrogatepass"))


_FILE = re.compile(r"decoded-\w+-\w+\.u8")


class UnusableError(DataError):
    """The catalogue is damaged or of another version."""


class Catalogue(AbstractContextManager["Catalogue"]):
    """An open catalogue; one that is damaged or of another version is an UnusableError."""

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        # SQLite's own files take the rights of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._base = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        self._base.text_factory = strict_text
        self._noted: list[tuple[Any, ...]] = []
        try:
            # A killed process leaves what the system has; only a machine that loses power could
            # lose more, and then the checksums show it.
            self._base.execute("PRAGMA journal_mode = PERSIST")
            self._base.execute("PRAGMA synchronous = OFF")
            make_tables(self._base, path, _SCHEMA, FORMAT, wrong=UnusableError, mend="decode again")
            if self._value("PRAGMA quick_check(1)") != "ok":
                raise UnusableError
            if any(_FILE.fullmatch(store.file) is None for store in self._stores("true")):
                raise UnusableError  # it would lead out of the folder
        except BaseException as error:
            self._base.close()
            damaged = isinstance(error, sqlite3.DatabaseError)
            if damaged and not isinstance(error, sqlite3.OperationalError):
                raise UnusableError from None
            raise

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def _value(self, query: str, *values: Any) -> Any:
        row = self._base.execute(query, values).fetchone()
        return row and row[0]

    def _stores(self, where: str, *values: Any) -> list[Store]:
        query = f"SELECT id, size, file FROM store WHERE {where}"  # noqa: S608 - our own words
        return [Store(*row) for row in self._base.execute(query, values).fetchall()]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with transaction(self._base) as base:
            base.executemany("INSERT OR REPLACE INTO file VALUES (?,?,?,?,?)", self._noted)
            yield base
        self._noted.clear()

    def digest(self, path: Path, stamp: Stamp) -> bytes | None:
        query = "SELECT digest FROM file WHERE (path, size, mtime_ns, ctime_ns) = (?, ?, ?, ?)"
        found: bytes | None = self._value(query, _name_of(path), *stamp)
        return found

    def note(self, path: Path, stamp: Stamp, digest: bytes) -> None:
        """Note the digest of a file; kept with the next square, or by :meth:`flush`."""
        self._noted.append((_name_of(path), *stamp, digest))
        if len(self._noted) >= 1000:
            self.flush()

    def flush(self) -> None:
        with self._writing():
            pass

    def store(self, size: int) -> Store | None:
        """Give the squares of a size, as this version reads images; None where there are none."""
        return next(iter(self._stores("size = ? AND reader = ?", size, READER_VERSION)), None)

    def add_store(self, size: int) -> Store:
        file = f"decoded-{size}-{secrets.token_hex(4)}.u8"
        with self._writing() as base:
            query = "INSERT INTO store (size, reader, file) VALUES (?, ?, ?)"
            number = base.execute(query, [size, READER_VERSION, file]).lastrowid
        return Store(number or 0, size, file)

    def outdated(self) -> list[Store]:
        return self._stores("reader != ?", READER_VERSION)

    def remove_store(self, store: Store) -> None:
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
        values: tuple[Any, ...] = (*entry, None)
        if isinstance(entry, str):
            values = (None, None, None, _reason_checksum(digest, entry), entry)
        with self._writing() as base:
            query = "INSERT OR REPLACE INTO square VALUES (?,?,?,?,?,?,?)"
            base.execute(query, [store.id, digest, *values])

    def entries(self) -> Iterator[tuple[Store, bytes, Kept | str | None]]:
        """Give every entry of every store: its digest, and what :meth:`kept` says of it."""
        for store in self._stores("true"):
            found = self._base.execute("SELECT digest FROM square WHERE store = ?", [store.id])
            for (digest,) in found.fetchall():
                yield store, digest, self.kept(store, digest)

    def slots(self, store: Store) -> int:
        """Give the number of slots in use: one more than the last."""
        query = "SELECT coalesce(max(slot) + 1, 0) FROM square WHERE store = ?"
        return int(self._value(query, store.id))

    def cut(self, store: Store, slots: int) -> int:
        """Forget the squares from a slot on, and say how many they were."""
        with self._writing() as base:
            query = "DELETE FROM square WHERE store = ? AND slot >= ?"
            return base.execute(query, [store.id, slots]).rowcount


@contextmanager
def only_filler(folder: Path) -> Iterator[None]:
    """Hold the right to add to a cache, across processes; a killed process gives it up."""
    with ExitStack() as stack:
        try:
            stack.enter_context(only_one(folder / NAME))
        except WorkError:
            raise WorkError(
                f"{folder}: another process is adding decoded images to this cache; wait for "
                "it to end, or name another folder"
            ) from None
        yield


def _open_catalogue(folder: Path, say: Callable[[str], None]) -> Catalogue:
    """Open the catalogue of a cache; one that is damaged or of another version is made afresh."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(UnusableError):
        return Catalogue(folder)
    with only_filler(folder):
        with suppress(UnusableError):
            return Catalogue(folder)  # the process before may have made it afresh
        say(f"{folder}: the cache is damaged or of another version; images are decoded again")
        clear(folder)
        return Catalogue(folder)


def clear(folder: Path) -> None:
    """Remove all of a cache, the catalogue last; held by :func:`only_filler`."""
    for path in [*folder.glob("decoded-*.u8"), *folder.glob(f"{NAME}*")]:
        if path.suffix != ".lock":
            remove_file(path)


class SquareStore:
    """The squares of one size, of that many pixels a side; open from its making until closed."""

    def __init__(self, folder: Path, size: int, say: Callable[[str], None]) -> None:
        self._folder, self._size, self._say = folder, size, say
        self._filling, self._next = False, 0
        self._damaged: set[bytes] = set()
        self._pixels: PixelFile | None = None
        self._store: Store | None = None
        with ExitStack() as stack:
            self.catalogue = stack.enter_context(_open_catalogue(folder, say))
            self._open = stack
            self._store = self.catalogue.store(size)
            if self._store is not None and self.path.is_file():
                self._take(PixelFile(self.path, size, write=False))
            self._open = stack.pop_all()

    @property
    def path(self) -> Path:
        """The file of the squares; the folder, as long as nothing is kept."""
        return self._folder / (self._store.file if self._store else "")

    def close(self) -> None:
        """Close the files, let others add, and say what was damaged."""
        self._open.close()
        if self._damaged:
            self._say(f"{self._folder}: {len(self._damaged)} kept image(s) were damaged")

    def map(self, slots: int) -> Pixels:
        if slots == 0:
            return np.empty((0, self._size, self._size), dtype=np.uint8)
        return np.memmap(self.path, np.uint8, "r", shape=(slots, self._size, self._size))

    def find(self, digest: bytes) -> tuple[ReadImage, int] | str | None:
        """Give a square and its slot, or why there is none; None where it is not known."""
        kept = None if self._store is None else self.catalogue.kept(self._store, digest)
        if not isinstance(kept, Kept):
            return kept
        if (image := kept.read(self._pixels, digest)) is None:
            self._damaged.add(digest)
            return None
        return image, kept.slot

    def begin_filling(self) -> None:
        """Take the right to add, once; what is no longer of use is removed."""
        if self._filling:
            return
        self._open.enter_context(only_filler(self._folder))
        self._filling = True
        for store in self.catalogue.outdated():
            self._say(
                f"{self._folder}: images of size {store.size} were read by another version; "
                "they are decoded again"
            )
            self.catalogue.remove_store(store)
            (self._folder / store.file).unlink(missing_ok=True)
        self._store = self.catalogue.store(self._size)
        if self._store is not None and not self.path.is_file():
            self._say(f"{self.path}: is gone; its images are decoded again")
            self.catalogue.remove_store(self._store)
            self._store = None
        if self._store is None:
            self._store = self.catalogue.add_store(self._size)
        pixels = self._take(PixelFile(self.path, self._size, write=True))
        if lost := self.catalogue.cut(self._store, pixels.slots()):
            self._say(f"{self.path}: was cut short; {lost} image(s) are decoded again")
        self._next = self.catalogue.slots(self._store)

    def _take(self, pixels: PixelFile) -> PixelFile:
        self._open.callback(pixels.close)
        self._pixels = pixels
        return pixels

    def add(self, digest: bytes, image: ReadImage | str) -> int:
        """Keep a square, or why there is none, for good; give its slot, -1 without a square."""
        assert self._store is not None  # noqa: S101 - begin_filling made it
        assert self._pixels is not None  # noqa: S101
        if isinstance(image, str):
            self.catalogue.add(self._store, digest, image)
            return -1
        slot = self._next
        self._pixels.write(slot, image.pixels)
        # Only now can it be found.
        self.catalogue.add(self._store, digest, Kept.of(slot, digest, image))
        self._next = slot + 1
        return slot
