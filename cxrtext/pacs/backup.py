"""A copy of a gateway's state while all of its parts go on; the index is backed up after it.

A part notes that another has something only once the other has it: following notes what it put into
the inbox, and the inbox what entered the index.  Each is copied before what it counts on: what is
known of followed peers, the results, the inbox, and the index last.  So nothing that was
acknowledged is lost: what the copy of the inbox has as done is in the copied index; what entered
the index meanwhile waits in the copy, or is asked for again, and is found to be the same.
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
"""The files of these databases, below their folder, each with what changes when the file does."""


def copy_state(state: Path, index: Path, out: Path) -> None:
    """Copy what a gateway knows and what waits, without the files that its index keeps.

    Whoever receives waits only while a database is copied.

    Args:
        index: The index that the gateway fills, which is to be backed up after this.
        out: A new folder, which gets ``inbox/`` and ``results/``.

    Raises:
        DataError: It is not a state, or that of another index, or a database of it is damaged.
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
    """Copy a database with the files that it names, as both are at one moment.

    Most files are copied before that moment; one whose row is another by then is copied anew.
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
        copied = {one for one in live.execute(files).fetchall() if take(one[0])}
        with transaction(live):  # nobody writes, so that no file goes either
            reading.backup(copy)
            named = set(copy.execute(files).fetchall())
            for name, _ in named - copied:
                take(name)
        check_pages(copy)
    for name in {name for name, _ in copied} - {name for name, _ in named}:
        (target.parent / name).unlink()


def _copy_file(path: Path, target: Path) -> bool:
    """Whether a file is there to be copied: it may be taken in meanwhile."""
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        shutil.copyfile(path, target)
        return True
    return False
