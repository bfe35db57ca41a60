"""Copy a gateway's state while the gateway runs; the index is backed up after it.

Each part notes that the next one has something only once it does: following notes what is in the
inbox, and the inbox notes what is in the index.  So they are copied in this order: what is known
about followed peers, the results, the inbox, and the index last.  Nothing acknowledged is lost:
what the copied inbox calls done is in the copied index.  What entered the index meanwhile still
waits in the copy, or is asked for again and recognized as the same.
"""

import shutil
from contextlib import closing, suppress
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files.sqlite import check_pages, open_database, sqlite_errors, transaction
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.database import FILE
from cxrtext.pacs.inbox.queue import OBJECTS
from cxrtext.pacs.results.folder import FILE as RESULTS_FILE

INBOX, RESULTS = f"inbox/{FILE}", f"results/{RESULTS_FILE}"

_OF_INBOX = f"SELECT '{OBJECTS}/' || file, '' FROM entries WHERE file > ''"  # noqa: S608
_OF_RESULTS = "SELECT file, digest FROM results"
"""The files of each database, below its folder, each with a value that changes with the file."""


def copy_state(state: Path, index: Path, out: Path) -> None:
    """Copy what a gateway knows and what waits, but not the files that its index keeps.

    Receiving pauses only while a database is copied.

    Args:
        index: The index that the gateway fills; back it up after this.
        out: A new folder, which gets ``inbox/`` and ``results/``.

    Raises:
        DataError: It is not a gateway's state, belongs to another index, or has a damaged database.
    """
    _check(state, index)
    for path in sorted((state / "inbox").glob("follow-*.sqlite")):
        _copy(path, out / "inbox" / path.name)
    if (state / RESULTS).is_file():
        _copy(state / RESULTS, out / RESULTS, _OF_RESULTS)
    _copy(state / INBOX, out / INBOX, _OF_INBOX)


def _check(state: Path, index: Path) -> None:
    if not (state / INBOX).is_file():
        raise DataError(
            f"{state}: is not the state of a gateway: it has no {INBOX}; give the folder that "
            "'state' in the gateway's file names"
        )
    with (
        sqlite_errors(state / INBOX, DataError, "restore it from a backup"),
        closing(open_database(state / INBOX, write=False)) as database,
        Catalogue(index / CATALOGUE) as catalogue,
    ):
        last = "SELECT instance FROM objects ORDER BY rowid DESC LIMIT 1000"
        known = database.execute(last).fetchall()
        if known and not any(catalogue.image(name) for (name,) in known):
            raise DataError(
                f"{index}: has none of the images that came through {state}; name the project or "
                "index that this gateway fills"
            )


def _copy(source: Path, target: Path, files: str = "SELECT '', '' WHERE false") -> None:
    """Copy a database and the files that it names, as they are at one moment.

    Most files are copied before that moment; a file whose row changed meanwhile is copied again.
    """

    def take(name: str) -> bool:
        return _copy_file(source.parent / name, target.parent / name)

    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        sqlite_errors(source, DataError, "a damaged state is not copied: restore it from a backup"),
        closing(open_database(source)) as live,
        closing(open_database(source, write=False)) as reading,
        closing(open_database(target)) as copy,
    ):
        copied = {row for row in live.execute(files).fetchall() if take(row[0])}
        with transaction(live):  # nobody writes, so no file disappears either
            reading.backup(copy)
            named = set(copy.execute(files).fetchall())
            for name, _ in named - copied:
                take(name)
        check_pages(copy)
    for name in {name for name, _ in copied} - {name for name, _ in named}:
        (target.parent / name).unlink()


def _copy_file(path: Path, target: Path) -> bool:
    """Copy a file; False if it is gone, because it was taken in meanwhile."""
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        shutil.copyfile(path, target)
        return True
    return False
