"""The files of a decoded cache, to which several processes may add at a time.

Squares of a size lie one after the other in ``decoded-READER-SIZE.u8``; the record of each, at the
same place in ``….keys``, has the SHA-256 of the image file.  ``decoded-READER.paths`` has the
SHA-256 of files by path, size and times.  Records are only ever added, after what they tell of is
on disk: a killed process leaves whole squares.
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
"""To be raised when an image read, or made a square, is no longer the same pixels as before."""

PATHS = ".paths"  # ending of the file by which a cache is known
YOUNG_NS = 2_000_000_000
"""A file changed so shortly ago may change again without its times showing it."""

_PENDING_BYTES = 2**24  # of squares that wait to be written
_PENDING_SECONDS = 5.0
# Of 64 bytes, so that none lies on two pages of the disk.
_KEY = np.dtype([("height", "<u4"), ("width", "<u4"), ("digest", "V32"), ("spare", "V24")])
_PATH = np.dtype([("path", "V8"), ("stamp", "V24"), ("digest", "V32")])
_STAMP = struct.Struct("<3q")


@contextmanager
def disk_errors(folder: Path, what: str = "decoded images") -> Iterator[None]:
    """Turn what a disk refuses into one line that names the cache and what it holds."""
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
    mtime_ns: int  # when its bytes changed, as the file says
    # When anything of it changed, as the system says: copying tools cannot keep this.
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


def path_key(path: Path) -> bytes:
    """What stands for a path, whose name may be a patient's."""
    name = os.fsencode(os.path.abspath(path))  # noqa: PTH100 - links stay as they are
    return hashlib.blake2b(name, digest_size=8).digest()


def write_at(handle: int, place: int, data: bytes | memoryview) -> None:
    """Write all of some bytes at a place of an open file, in as many pieces as the system takes."""
    view = memoryview(data)
    while view:
        count = os.pwrite(handle, view, place)
        view, place = view[count:], place + count


def _records(handle: int, kind: np.dtype[Any], first: int = 0) -> np.ndarray[Any, Any]:
    """Read the whole records of a file, from one on."""
    start = first * kind.itemsize
    data = os.pread(handle, max(0, os.fstat(handle).st_size - start), start)
    return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)


def _opened(path: Path) -> int:
    """Open a file for its owner alone."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def _in_use(path: Path, *, alone: bool = False) -> Iterator[int]:
    """Hold an open file of a cache, with others or alone; a killed process lets it go."""
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


@contextmanager
def _alone(handle: int) -> Iterator[None]:
    """Keep other processes from writing meanwhile."""
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def remove_cache(folder: Path) -> None:
    """Remove all decoded images of a folder (WorkError while another process uses them)."""
    for paths in folder.glob(f"decoded*{PATHS}"):
        with _in_use(paths, alone=True):
            for path in folder.glob("decoded*"):
                remove_file(path)


def count_kept(folder: Path, paths: set[bytes], digests: set[bytes]) -> int:
    """Count the squares and notes of files, by `path_key` or SHA-256."""
    count = 0
    for path in folder.glob("decoded*.keys"):
        found = np.fromfile(path, _KEY)["digest"].tolist()
        count += sum(digest in digests for digest in found)
    for path in folder.glob(f"decoded*{PATHS}"):
        noted = np.fromfile(path, _PATH)[["path", "digest"]].tolist()
        count += sum(name in paths and digest not in digests for name, digest in noted)
    return count


class SquareStore(AbstractContextManager["SquareStore"]):
    """The squares of one size, of that many pixels a side; open from its making until its exit."""

    def __init__(self, folder: Path, size: int, say: Callable[[str], None]) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"decoded-{READER_VERSION}"
        others = [
            p for p in folder.glob("decoded*") if not p.name.startswith((f"{name}-", f"{name}."))
        ]
        if others:
            say(f"{folder}: was made by another version; images are decoded again")
        for path in others:
            path.unlink(missing_ok=True)
        self._size, self._path = size, folder / f"{name}-{size}.u8"
        self._slots: dict[bytes, int] = {}
        self._sizes: list[tuple[int, int]] = []  # of the originals, by slot
        self._pending: dict[bytes, ReadImage] = {}
        self._noted: list[bytes] = []
        self._written = time.monotonic()
        with ExitStack() as stack:
            self._path_file = stack.enter_context(_in_use(folder / f"{name}{PATHS}"))
            self._key_file = _opened(self._path.with_suffix(".keys"))
            stack.callback(os.close, self._key_file)
            self._file = _opened(self._path)
            stack.callback(os.close, self._file)
            self._learn()
            noted = _records(self._path_file, _PATH)
            # Of the notes of a path the last one counts.
            stamps, digests = noted["stamp"].tolist(), noted["digest"].tolist()
            found = zip(stamps, digests, strict=True)
            self._paths = dict(zip(noted["path"].tolist(), found, strict=True))
            self._open = stack.pop_all()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open:
            if kind is None or not issubclass(kind, OSError):
                self.flush()

    def _learn(self) -> None:
        """Read the records that were added meanwhile."""
        known, whole = len(self._sizes), os.fstat(self._file).st_size // self._size**2
        added = _records(self._key_file, _KEY, known)[: max(0, whole - known)]
        self._slots.update((digest, known + i) for i, digest in enumerate(added["digest"].tolist()))
        self._sizes += zip(added["height"].tolist(), added["width"].tolist(), strict=True)

    def digest_of(self, path: Path, stamp: Stamp) -> bytes | None:
        """The SHA-256 of a file that was seen with these times; None where it was not."""
        seen, digest = self._paths.get(path_key(path), (b"", b""))
        return digest if seen == _STAMP.pack(*stamp) else None

    def note(self, path: Path, stamp: Stamp, digest: bytes) -> None:
        self._noted.append(path_key(path) + _STAMP.pack(*stamp) + digest)

    def slot(self, digest: bytes) -> int:
        """Where the square of a file lies, once it is written; -1 where there is none."""
        return self._slots.get(digest, -1)

    def holds(self, digest: bytes) -> bool:
        return digest in self._slots or digest in self._pending

    def find(self, digest: bytes) -> ReadImage | None:
        """Read the square of a file; None where there is none."""
        if (slot := self.slot(digest)) < 0:
            return self._pending.get(digest)
        pixels = np.empty((1, self._size, self._size), dtype=np.uint8)
        if os.preadv(self._file, [pixels.data.cast("B")], slot * pixels.nbytes) < pixels.nbytes:
            raise OSError(errno.EIO, f"{self._path.name} was cut short")
        return ReadImage(pixels, *self._sizes[slot])

    def add(self, digest: bytes, image: ReadImage) -> None:
        """Keep a square, at the latest when the store is closed."""
        self._pending[digest] = image
        waited = time.monotonic() - self._written
        if len(self._pending) * self._size**2 >= _PENDING_BYTES or waited > _PENDING_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what waits; when this returns it is kept."""
        if self._noted:
            with _alone(self._key_file):
                end = os.fstat(self._path_file).st_size // _PATH.itemsize * _PATH.itemsize
                write_at(self._path_file, end, b"".join(self._noted))
            self._noted.clear()
        if self._pending:
            with _alone(self._key_file):
                self._learn()
                first = len(self._sizes)
                new = {d: image for d, image in self._pending.items() if d not in self._slots}
                for slot, image in enumerate(new.values(), first):
                    square = np.ascontiguousarray(image.pixels, dtype=np.uint8)
                    write_at(self._file, slot * square.nbytes, square.data.cast("B"))
                os.fdatasync(self._file)
                keys = np.array([(i.height, i.width, d, b"") for d, i in new.items()], _KEY)
                # What is beyond belongs to squares that are gone.
                os.ftruncate(self._key_file, first * _KEY.itemsize)
                write_at(self._key_file, first * _KEY.itemsize, keys.tobytes())
                self._learn()
            self._pending.clear()
        self._written = time.monotonic()

    def map(self) -> Pixels:
        """Map all squares into memory, [slots, size, size]."""
        if not self._sizes:
            return np.empty((0, self._size, self._size), dtype=np.uint8)
        return np.memmap(
            self._path, np.uint8, "r", shape=(len(self._sizes), self._size, self._size)
        )
