"""Change an index: one process at a time, each change complete or not at all.

Vectors are appended and synced first, then the catalogue is committed.  Until then no reader uses
them, and the next writer overwrites what was never committed.  Vectors of deleted images stay
unused in the files until the index is compacted.

Files that are kept for images, such as uploads, are named by their content and never overwritten.
A file is noted among the leftovers before it is written, and again when an image gives it up.  The
next writer removes the leftovers that no image names.  So even after a kill, each image has its
file, and no other file stays.
"""

import fcntl
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from numpy.typing import NDArray

from cxrtext.errors import DataError, WorkError
from cxrtext.files import remove_file, sha256, write_json, write_private
from cxrtext.files import sweep as sweep_unfinished
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, catalogue_errors, structure_of
from cxrtext.index.store.vectors import checksum_key, vector_files

SUMMARY = "index.json"
LOCK = "writer.lock"
TURN = "writer.turn"  # held by the next writer, so that a busy one does not block it forever
_KEPT = re.compile(r"[0-9a-f]{64}\.?\w*")  # names that `keep_file` gives
NEXT = "next"  # folder in an index where one for another model grows
POLL_S = 0.2


@contextmanager
def writing(folder: Path, *, wait_s: float = 0.0, create: bool = False) -> Iterator[Catalogue]:
    """Open an index for changes, and remove what a killed writer left.

    CheckpointError: the folder has no index of this version.  DataError: another process is
    writing.

    Args:
        wait_s: How long to wait while another process writes; 0 refuses at once.
        create: Whether a new index may be made.
    """
    path = folder / CATALOGUE
    if not create and not path.is_file():
        Catalogue(path).close()  # refuses what is not an index before anything is made
    with disk_errors(folder, "the index holds what was acknowledged before"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # private, as it names patients
        with (folder / TURN).open("w") as turn, (folder / LOCK).open("w") as handle:
            end = time.monotonic() + wait_s
            for lock in (turn, handle):
                _lock(lock.fileno(), folder, end)
            turn.close()
            with catalogue_errors(path), Catalogue(path, write=True) as catalogue:
                sweep(folder, catalogue)
                try:
                    yield catalogue
                finally:
                    remove_leftovers(catalogue)


@contextmanager
def disk_errors(path: Path, state: str) -> Iterator[None]:
    """Report a disk error in one line, with the state that everything is in (WorkError)."""
    try:
        yield
    except OSError as error:
        raise WorkError(
            f"{error.filename or path}: {error.strerror}; {state}; fix the disk and run the same "
            "command again"
        ) from None


def _lock(handle: int, folder: Path, end: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise DataError(
                    f"{folder}: another process is writing this index; run the command "
                    "again when it has ended"
                ) from None
            time.sleep(POLL_S)
        else:
            return


def sweep(folder: Path, catalogue: Catalogue) -> None:
    """Remove files that no reader needs."""
    remove_leftovers(catalogue)
    sweep_unfinished(folder)
    for path in orphans(folder, catalogue):
        path.unlink(missing_ok=True)


def orphans(folder: Path, catalogue: Catalogue) -> list[Path]:
    """Vectors and structures of a killed writer or an older generation; [] for an empty index."""
    meta = catalogue.meta()
    if "generation" not in meta:
        return []
    own = {file.path for file in vector_files(folder, meta).values()}
    if structure := structure_of(meta):
        own.add(folder / structure["file"])
    endings = ("*.vectors", "*.faiss", ".*.tmp.faiss")
    return [path for ending in endings for path in folder.glob(ending) if path not in own]


def append_rows(
    folder: Path, meta: Mapping[str, str], start: int, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, int]:
    """Append rows on disk; gives what the catalogue must note about them."""
    files, keys = vector_files(folder, meta), {name: checksum_key(name) for name in arrays}
    return {
        keys[name]: files[name].append(start, values, int(meta.get(keys[name], 0)))
        for name, values in arrays.items()
    }


def keep_file(catalogue: Catalogue, root: Path, data: bytes, digest: str, ending: str) -> str:
    """Put a file on disk; when the lock is released, it stays only if an image names it.

    Gives its name below the folder, which is made if it is missing.
    """
    file = f"{digest}{ending}"
    with catalogue.transaction(write=True) as database:
        database.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (str(root),))
        database.execute(
            "INSERT OR IGNORE INTO leftovers SELECT root, ? FROM roots WHERE path = ?",
            (file, str(root)),
        )
    path = root / file
    # Another image may have the same pixels.  A killed writer may have left a damaged file.
    if path.is_symlink() or not path.is_file() or sha256(path) != digest:
        try:
            write_private(path, data)
        except OSError as error:
            error.filename = error.filename or str(path.parent)  # a failed write names no file
            raise
    return file


def leave_files(database: Connection, condition: str, value: str) -> None:
    """Note the files of images to be deleted, chosen by SQL such as ``study_id = ?``."""
    database.execute(
        "INSERT OR IGNORE INTO leftovers SELECT root, file FROM images "  # noqa: S608
        f"WHERE file IS NOT NULL AND {condition}",
        (value,),
    )


def remove_leftovers(catalogue: Catalogue) -> None:
    """Remove leftovers that no image names; what cannot be removed is left to the next writer."""
    database = catalogue.database
    rows = database.execute("SELECT root, path, file FROM leftovers JOIN roots USING (root)")
    for root, folder, file in rows.fetchall():
        with suppress(OSError):
            if not Path(folder).is_dir():  # perhaps it is not mounted here
                continue
            if _KEPT.fullmatch(file) and not _is_named(database, Path(folder), file):
                remove_file(Path(folder) / file)
            with catalogue.transaction(write=True):
                database.execute("DELETE FROM leftovers WHERE root = ? AND file = ?", (root, file))


def _is_named(database: Connection, folder: Path, file: str) -> bool:
    rows = database.execute(
        "SELECT DISTINCT path FROM images JOIN roots USING (root) WHERE file = ?", (file,)
    )
    path = folder / file
    return any(
        Path(other) == folder or (path.exists() and _is_same(path, Path(other) / file))
        for (other,) in rows
    )


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class IndexSummary:
    images: int  # images in it
    added: int  # images added by this run
    sentences: int  # distinct sentences in it
    rejected: Path | None = None  # where the rejected images are listed, or None
    replaced: int = 0  # images that took the place of one of their name
    warning: str = ""  # why not to rely on its model

    @classmethod
    def of(cls, written: Mapping[str, Any], **counts: Any) -> "IndexSummary":
        """The summary of what :func:`write_summary` gave, and of what this run did."""
        return cls(written["images"], **{"added": 0, **counts}, sentences=written["sentences"])

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rejected": str(self.rejected) if self.rejected else None}


def write_summary(folder: Path, catalogue: Catalogue) -> dict[str, Any]:
    """Write ``index.json``; gives its content."""
    meta = catalogue.meta()
    images, sentences = catalogue.counts()
    value = {
        "format": "cxrtext index",
        "schema": int(meta["schema_version"]),
        "model": meta["model"],
        "checkpoint": meta["checkpoint"],
        "images": images,
        "sentences": sentences,
        "holes": int(meta["places"]) - images,
        "storage": meta["storage"],
        "generation": int(meta["generation"]),
    }
    write_json(folder / SUMMARY, value)
    return value
