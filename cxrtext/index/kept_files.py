"""Files that are kept for images of an index: named by their content, never written over.

A file is noted among the leftovers before it is written, and again when an image gives it up.
Whoever writes next removes the leftovers that no image names, so that whatever is killed, each
image has the file that was written for it and no other file stays.
"""

from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection

from cxrtext.files import remove_file, sha256, write_private
from cxrtext.index.catalogue import Catalogue


def keep_file(catalogue: Catalogue, root: Path, data: bytes, digest: str, ending: str) -> str:
    """Keep a file, on disk when this returns, until the lock is given up; longer for an image.

    Args:
        catalogue: Open for writing.
        root: The folder, made where there is none.
        data: The file's bytes.
        digest: Their SHA-256, in hexadecimal.
        ending: Of its name.

    Returns:
        Its name below the folder, for :class:`~cxrtext.index.changes.NewImage`.

    Raises:
        OSError: The disk is full or cannot be written.
    """
    file = f"{digest}{ending}"
    with catalogue.transaction(write=True) as database:
        database.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (str(root),))
        database.execute(
            "INSERT OR IGNORE INTO leftovers SELECT root, ? FROM roots WHERE path = ?",
            (file, str(root)),
        )
    path = root / file
    # Another image may have the same pixels.  What is not what its name says is a killed writer's.
    if path.is_symlink() or not path.is_file() or sha256(path) != digest:
        write_private(path, data)
    return file


def leave_files(database: Connection, condition: str, value: str, old_root: Path | None) -> None:
    """Note the files of images that are about to go, in the caller's transaction.

    Args:
        database: The catalogue.
        condition: Which images, in SQL, such as ``study_id = ?``.
        value: What stands for the question mark.
        old_root: A folder in which files were kept by their image's own name.
    """
    database.execute(
        "INSERT OR IGNORE INTO leftovers SELECT root, coalesce(file, image) "  # noqa: S608
        f"FROM images JOIN roots USING (root) WHERE (file IS NOT NULL OR path = ?) AND {condition}",
        ("" if old_root is None else str(old_root), value),
    )


def remove_leftovers(catalogue: Catalogue) -> None:
    """Remove the leftovers that no image has; one that cannot be removed now is left to the next.

    Args:
        catalogue: Open for writing.
    """
    database = catalogue.database
    found = database.execute("SELECT root, path, file FROM leftovers JOIN roots USING (root)")
    for root, folder, file in found.fetchall():
        with suppress(OSError):
            if not Path(folder).is_dir():  # it is not mounted here, perhaps
                continue
            if not _is_named(database, Path(folder), file):
                _remove(Path(folder), file)
            with catalogue.transaction(write=True):
                database.execute("DELETE FROM leftovers WHERE root = ? AND file = ?", (root, file))


def _is_named(database: Connection, folder: Path, file: str) -> bool:
    """Whether an image has a file, by whatever path its folder is known."""
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


def _remove(folder: Path, file: str) -> None:
    """Remove a file, and folders below its own that are empty without it."""
    remove_file(folder / file)
    for above in Path(file).parents[:-1]:
        with suppress(OSError):
            (folder / above).rmdir()
