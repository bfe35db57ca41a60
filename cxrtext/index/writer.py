"""Changing an index: one process at a time, each change whole or not at all.

Vectors are appended and synced first, the catalogue is committed after: until then no reader
looks at them, and the next writer overwrites what was never committed.  Vectors of deleted images
stay in the files, unread, until the index is compacted.
"""

import fcntl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from numpy.typing import NDArray

from cxrtext.errors import DataError, WorkError
from cxrtext.files import sweep as sweep_unfinished
from cxrtext.index.catalogue import CATALOGUE, Catalogue, told
from cxrtext.index.kept_files import remove_leftovers
from cxrtext.index.layout import LOCK, named, strays, vector_files

POLL_S = 0.2


@contextmanager
def writing(folder: Path, *, wait_s: float = 0.0, create: bool = False) -> Iterator[Catalogue]:
    """Open an index for changes, and remove what a killed writer left.

    Args:
        folder: The index's folder.
        wait_s: How long to queue while another process writes; 0 refuses at once.
        create: Whether a new index may be made.

    Raises:
        CheckpointError: The folder holds no index, or one of another version.
        DataError: Another process writes.
        WorkError: The folder cannot be written, or the disk is full.
    """
    path = folder / CATALOGUE
    if not create and not path.is_file():
        Catalogue(path).close()  # refuses what is no index before anything is made
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as handle:
            _lock(handle.fileno(), folder, wait_s)
            with told(path), Catalogue(path, write=True) as catalogue:
                sweep(folder, catalogue)
                try:
                    yield catalogue
                finally:
                    remove_leftovers(catalogue)
    except OSError as error:
        raise WorkError(
            f"{error.filename or folder}: {error.strerror}; the index holds what was acknowledged "
            "before; mend the disk and run the same command again"
        ) from None


def _lock(handle: int, folder: Path, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise DataError(
                    f"{folder}: another process is writing this index; wait for it to end, or "
                    "queue with --wait SECONDS"
                ) from None
            time.sleep(POLL_S)
        else:
            return


def sweep(folder: Path, catalogue: Catalogue) -> None:
    """Remove files that no reader will look for: a killed writer's, or an older generation's."""
    remove_leftovers(catalogue)
    sweep_unfinished(folder)
    meta = catalogue.meta()
    if "generation" in meta:
        files = {name for (name,) in catalogue.database.execute("SELECT file FROM structures")}
        for path in strays(folder, named(folder, meta, files)):
            path.unlink(missing_ok=True)


def set_meta(database: Connection, values: Mapping[str, Any]) -> None:
    """Note something of the index as a whole, in the caller's transaction."""
    rows = [(key, str(value)) for key, value in values.items()]
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def append_rows(
    folder: Path, meta: Mapping[str, str], start: int, arrays: Mapping[str, NDArray[Any]]
) -> list[tuple[str, int, int, int]]:
    """Put rows on disk behind those that are there; gives what ``segments`` notes of them."""
    files = vector_files(folder, meta)
    return [
        (name, start, len(values), files[name].append(start, values))
        for name, values in arrays.items()
    ]


def note_segments(database: Connection, segments: Iterable[tuple[str, int, int, int]]) -> None:
    """Note what :func:`append_rows` gave."""
    database.executemany("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?)", segments)
