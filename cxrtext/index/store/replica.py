"""A replica: a folder that publications of an index are pulled into, and that turns to the newest.

::

    DIR/current                        which publication it answers by; changed by one rename
    DIR/publications/DIGEST/index/     a complete index, never changed
    DIR/publications/DIGEST/model/     its checkpoint
    DIR/publications/DIGEST/uploads/   images that were added over HTTP
    DIR/publications/DIGEST/in-use     locked by whoever answers by it, so that it is not removed

Whoever opens a replica keeps to one publication until it is closed, and can ask whether the replica
has turned to another one since.
"""

import fcntl
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files import read_sealed
from cxrtext.files.writing import is_at

POINTER, PUBLICATIONS, IN_USE = "current", "publications", "in-use"
INDEX, MODEL = "index", "model"
FORMAT, PUBLISHED_FORMAT = "cxrtext replica", "cxrtext publications"
"""What ``current`` says of a replica's folder, and of the place that it is pulled from."""

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Publication:
    digest: str  # SHA-256 of the digests of all its files
    published: str  # when, UTC, as ISO 8601


def is_replica(folder: Path) -> bool:
    """Whether a folder is one that publications are pulled into, or one of its publications."""
    return (folder / POINTER).is_file() or (folder.parent / IN_USE).is_file()


def current_of(folder: Path) -> Publication | None:
    """The publication that a replica has turned to; None of a folder that is no replica."""
    try:
        noted = read_sealed(folder / POINTER)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{folder / POINTER}: {error}; remove it and run 'cxrtext index pull' again"
        ) from None
    if noted.get("format") != FORMAT:
        raise DataError(
            f"{folder}: is where an index is published; pull it into a folder of its own: "
            f"'cxrtext index pull {folder} DIR'"
        )
    return Publication(noted["publication"], noted["published"])


def index_at(folder: Path) -> Path:
    """The folder of an index, or of a replica's publication, for a moment; see :func:`hold`."""
    found = current_of(folder)
    return folder if found is None else folder / PUBLICATIONS / found.digest / INDEX


def refuse_replica(folder: Path) -> None:
    """Refuse to change a replica (DataError)."""
    if is_replica(folder):
        raise DataError(
            f"{folder}: is a replica of a published index, which is only read; change the index "
            "that it is published from, then publish it again"
        )


class Held:
    """A publication of a replica, which is not removed while it is held."""

    def __init__(self, replica: Path, publication: Publication, handle: int) -> None:
        self.replica = replica
        self.publication = publication
        self.folder = replica / PUBLICATIONS / publication.digest / INDEX
        self._seen = _state(replica / POINTER)
        self._turned = False
        self._let_go = weakref.finalize(self, os.close, handle)

    def has_turned(self) -> bool:
        """Whether the replica has turned to another publication; costs a look at one file."""
        state = _state(self.replica / POINTER)
        if state != self._seen:
            self._seen = state
            found = current_of(self.replica)
            self._turned = found is not None and found.digest != self.publication.digest
        return self._turned

    def release(self) -> None:
        self._let_go()


def hold(folder: Path) -> Held | None:
    """Hold the publication that a replica has turned to; None of a folder that is no replica."""
    for _ in range(ATTEMPTS):
        found = current_of(folder)
        if found is None:
            return None
        try:
            handle = os.open(folder / PUBLICATIONS / found.digest / IN_USE, os.O_RDONLY)
        except FileNotFoundError:
            continue  # the replica turned, and the one before was removed
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being removed
            os.close(handle)
            continue
        # It may have been removed before it was locked.
        if is_at(folder / PUBLICATIONS / found.digest / IN_USE, handle):
            return Held(folder, found, handle)
        os.close(handle)
    raise CheckpointError(
        f"{folder}: the publication that it names is not there; run 'cxrtext index pull' again"
    )


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
