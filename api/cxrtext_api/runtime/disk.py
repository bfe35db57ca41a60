"""Whether the server can write to its disk, and which errors mean that a disk is full."""

import errno
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cxrtext.errors import DiskError, kind_of

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
"""No space left, quota used up, file system read-only, file too large."""

NEEDED_BYTES = 2**20

CHECK_SECONDS = 10.0  # how long a result holds


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, means that a disk is full."""
    return any(
        isinstance(one, DiskError)
        or (isinstance(one, OSError) and one.errno in FULL)
        or (isinstance(one, sqlite3.Error) and kind_of(one) is DiskError)
        for one in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def place_of(error: BaseException) -> str:
    """The file and the system's message about a disk, in a few words."""
    system = [one for one in _chain(error) if isinstance(one, OSError) and one.strerror]
    if system:
        named = f"{system[-1].filename}: " if system[-1].filename else ""
        return f"{named}{system[-1].strerror}"
    others = [str(one) for one in _chain(error) if isinstance(one, DiskError | sqlite3.Error)]
    return others[0] if others else type(error).__name__


class Disk:
    """Tries to write where the server keeps things; it blocks, so not for the event loop."""

    def __init__(
        self, folders: Sequence[Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folders = folders
        self._clock = clock
        self._tried = -math.inf
        self._found: str | None = None

    def wrong(self) -> str | None:
        """Why nothing can be written, such as "/data/index: No space left on device", or None."""
        if self._clock() - self._tried >= CHECK_SECONDS:
            self._tried = self._clock()
            self._found = next(filter(None, map(_try, self._folders)), None)
        return self._found


def _try(folder: Path) -> str | None:
    """Take some space in a folder for a moment, in an unnamed file."""
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except FileNotFoundError:
        return None  # the folder is made when something is first kept
    except OSError as error:
        # A file system may not support unnamed files.
        full = error.errno in FULL or error.errno == errno.EACCES
        return f"{folder}: {error.strerror}" if full else None
    try:
        os.posix_fallocate(handle, 0, NEEDED_BYTES)
    except OSError as error:
        return f"{folder}: {error.strerror}" if error.errno in FULL else None
    finally:
        os.close(handle)
    return None
