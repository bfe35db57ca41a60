"""The files of a decoded cache; several processes may add to them at a time.

Squares of one size lie one after the other in ``decoded-READER-SIZE.u8``; ``….places`` says which
file each comes from.  A record is only ever added, and only after its square is on disk: a killed
process leaves whole squares.
"""

import errno
import fcntl
import hashlib
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cxrtext.errors import DataError, WorkError
from cxrtext.files import remove_file
from cxrtext.images.limits import MAX_FILE_BYTES
from cxrtext.images.reader_pool import ReadImage

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

READER_VERSION = 6
"""Raise it when reading an image, or making its square, gives other pixels than before."""

PLACES = ".places"  # ending of the file that marks a cache
YOUNG_NS = 2_000_000_000
"""A file changed this recently may change again without its times showing it."""

_PENDING_BYTES = 2**24  # of squares that wait to be written
_PENDING_SECONDS = 5.0
# 64 bytes, so that no record lies on two pages of the disk.  The path is empty if the file's times
# say nothing.
_RECORD = np.dtype(
    [("slot", "<u4"), ("height", "<u2"), ("width", "<u2"), ("path", "V24"), ("digest", "V32")]
)


@contextmanager
def disk_errors(folder: Path, what: str = "decoded images") -> Iterator[None]:
    """Turn an error of the disk into one line that names the cache and what it holds."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
            raise DataError(
                f"{folder}: {what} cannot be kept there ({reason}); name a folder that can "
                "be written"
            ) from None
        raise WorkError(
            f"{folder}: {what} cannot be kept ({reason}); make room or name another "
            "folder, then run again: what was done is kept"
        ) from None


class Stamp(NamedTuple):
    size: int
    mtime_ns: int  # when its bytes changed, according to the file
    # When anything of it changed, according to the system: copying tools cannot keep this.
    ctime_ns: int

    @property
    def settled(self) -> bool:
        """Whether a later change would show in the times."""
        return time.time_ns() - max(self.mtime_ns, self.ctime_ns) > YOUNG_NS


def stamp_of(path: Path) -> Stamp | None:
    """Look at a file; None if it cannot be read as an image."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    # A pipe could be read without end; files that are too large are refused before they are read.
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _file_key(path: Path, stamp: Stamp) -> bytes:
    """Hash a path, which may hold a patient's name, and its times."""
    name = os.fsencode(os.path.abspath(path))  # noqa: PTH100 - links stay as they are
    times = hashlib.blake2b(struct.pack("<3q", *stamp), digest_size=16)
    return hashlib.blake2b(name, digest_size=8).digest() + times.digest()


def write_at(handle: int, place: int, data: bytes | memoryview) -> None:
    """Write all bytes at a place of an open file, in as many pieces as the system takes."""
    view = memoryview(data)
    while view:
        count = os.pwrite(handle, view, place)
        view, place = view[count:], place + count


@contextmanager
def _in_use(path: Path, *, alone: bool = False) -> Iterator[int]:
    """Lock an open file of a cache, shared or alone; a killed process lets it go."""
    while True:
        handle = _opened(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(handle)):
                yield handle
                return
        except BlockingIOError:
            raise WorkError(
                f"{path.parent}: another process uses the decoded images of this cache; "
                "wait for it to end"
            ) from None
        finally:
            os.close(handle)


def _opened(path: Path) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def remove_cache(folder: Path) -> None:
    """Remove all decoded images of a folder (WorkError while another process uses them)."""
    with ExitStack() as stack:
        for places in folder.glob(f"decoded*{PLACES}"):
            stack.enter_context(_in_use(places, alone=True))
        for path in folder.glob("decoded*"):
            remove_file(path)


class SquareStore(AbstractContextManager["SquareStore"]):
    """The squares of one size, in pixels a side; open from its making until its exit."""

    def __init__(self, folder: Path, size: int, say: Callable[[str], None]) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"decoded-{READER_VERSION}-"
        others = [
            path
            for path in folder.glob("decoded*")
            if not path.name.startswith(name) or path.suffix not in (".u8", PLACES)
        ]
        if others:
            say(f"{folder}: was made by another version; images are decoded again")
        for path in others:
            path.unlink(missing_ok=True)
        self._size, self._path = size, folder / f"{name}{size}.u8"
        self._slots: dict[bytes, tuple[int, int, int]] = {}  # slot, height, width by digest
        self._files: dict[bytes, bytes] = {}  # digests by path and times
        self._read = self._next = 0  # records read, and the first slot after theirs
        self._pending: dict[bytes, ReadImage] = {}
        self._noted: list[tuple[bytes, bytes]] = []
        self._written = time.monotonic()
        with ExitStack() as stack:
            self._records = stack.enter_context(_in_use(self._path.with_suffix(PLACES)))
            self._file = _opened(self._path)
            stack.callback(os.close, self._file)
            self._learn()
            self._open = stack.pop_all()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open:
            if kind is None or not issubclass(kind, OSError):
                self.flush()

    def _learn(self) -> None:
        """Read the records added meanwhile, up to the first without its square."""
        start, size = self._read * _RECORD.itemsize, os.fstat(self._records).st_size
        data = os.pread(self._records, max(0, size - start), start)
        added = np.frombuffer(data[: len(data) // _RECORD.itemsize * _RECORD.itemsize], _RECORD)
        gone = np.flatnonzero(added["slot"] >= os.fstat(self._file).st_size // self._size**2)
        for slot, height, width, path, digest in added[: gone[0] if gone.size else None].tolist():
            self._slots[digest] = slot, height, width
            self._files[path] = digest
            self._next = max(self._next, slot + 1)
            self._read += 1

    def digest_of(self, path: Path, stamp: Stamp) -> bytes | None:
        """The digest of a file seen with these times, or None."""
        return self._files.get(_file_key(path, stamp))

    def note(self, path: Path, stamp: Stamp, digest: bytes) -> None:
        """Remember a file by its path, if its times will show a change."""
        if stamp.settled:
            self._noted.append((_file_key(path, stamp), digest))

    def slot(self, digest: bytes) -> int:
        """Where the written square of a file lies, or -1."""
        return self._slots.get(digest, (-1,))[0]

    def holds(self, digest: bytes) -> bool:
        return digest in self._slots or digest in self._pending

    def find(self, digest: bytes) -> ReadImage:
        if digest not in self._slots:
            return self._pending[digest]
        slot, height, width = self._slots[digest]
        pixels = np.empty((1, self._size, self._size), dtype=np.uint8)
        if os.preadv(self._file, [pixels.data.cast("B")], slot * pixels.nbytes) < pixels.nbytes:
            raise OSError(errno.EIO, f"{self._path.name} was cut short")
        return ReadImage(pixels, height, width)

    def add(self, digest: bytes, image: ReadImage) -> None:
        """Take a square, and write it at the latest when the store is closed."""
        self._pending[digest] = image
        waited = time.monotonic() - self._written
        if len(self._pending) * self._size**2 >= _PENDING_BYTES or waited > _PENDING_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what waits; it is safe once this returns."""
        if self._pending or self._noted:
            fcntl.flock(self._file, fcntl.LOCK_EX)  # keeps other processes from writing meanwhile
            try:
                self._write()
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        self._written = time.monotonic()

    def _write(self) -> None:
        self._learn()
        records: list[tuple[Any, ...]] = []
        for digest, image in self._pending.items():
            if digest not in self._slots:
                square = np.ascontiguousarray(image.pixels, dtype=np.uint8)
                slot = self._next + len(records)
                write_at(self._file, slot * square.nbytes, square.data.cast("B"))
                records.append((slot, image.height, image.width, b"", digest))
        new = {digest: (slot, height, width) for slot, height, width, _, digest in records}
        for path, digest in self._noted:
            if self._files.get(path) != digest:
                records.append((*(new.get(digest) or self._slots[digest]), path, digest))
        os.fdatasync(self._file)
        # Later records name squares that are gone.
        os.ftruncate(self._records, self._read * _RECORD.itemsize)
        data = np.array(records, _RECORD).tobytes()
        write_at(self._records, self._read * _RECORD.itemsize, data)
        self._learn()
        self._pending.clear()
        self._noted.clear()

    def map(self) -> Pixels:
        """Map all squares into memory, [slots, size, size]."""
        if not self._next:
            return np.empty((0, self._size, self._size), dtype=np.uint8)
        return np.memmap(self._path, np.uint8, "r", shape=(self._next, self._size, self._size))
