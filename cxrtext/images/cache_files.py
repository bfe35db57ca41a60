"""What tells whether a file is still the one that was decoded, and what a disk may answer."""

import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError, WorkError
from cxrtext.images.read import MAX_FILE_BYTES

YOUNG_NS = 2_000_000_000
"""A file changed so shortly ago may change again without its times telling."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and times of a file.

    Args:
        size: In bytes.
        mtime_ns: When its bytes changed, as the file says.
        ctime_ns: When anything of it changed, as the system says; copying tools that keep the
            first cannot keep this.
    """

    size: int
    mtime_ns: int
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


def digest_of(path: Path) -> bytes | None:
    """Give the SHA-256 of a file's bytes; None where it cannot be read."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").digest()
    except OSError:
        return None


def name_of(path: Path) -> bytes:
    """Give the absolute path, as the system writes it; names need not be text."""
    return os.fsencode(Path(os.path.abspath(path)))  # noqa: PTH100 - links stay as they are


@contextmanager
def told(folder: Path) -> Iterator[None]:
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
