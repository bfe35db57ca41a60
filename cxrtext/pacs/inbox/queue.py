"""Put what was received on disk, so that nothing acknowledged is lost.

`Inbox.put` writes and syncs a file with a generated name that ends with the beginning of its
SHA-256, then notes it in the queue and syncs that, and only then returns.  A file that no entry
names was never acknowledged: `Inbox.tidy` removes it.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Literal, Self

from cxrtext.datasets.admission.ids import NO_UID
from cxrtext.errors import DiskError, InputError, WorkError
from cxrtext.files import is_as_named, sync
from cxrtext.files.digests import DIGITS
from cxrtext.pacs.inbox.database import FILE, Database

What = Literal["object", "message", "deletion"]
"""A DICOM object, an HL7 message, or a source's note that it deleted an object."""

NOT_HELD = "neither held nor failed; the list of what is held shows it"
OBJECTS = "objects"
MAX_BYTES = 2**30  # of one entry; larger images are not read (`cxrtext.images.source`)
MAX_WAITING = 1_000_000
RESERVE_BYTES = 2**30  # space to leave free on the disk
WRITE_WAIT_S = 600.0  # how long a worker waits while another process writes the index
KEPT_S = 90 * 86_400.0  # how long to remember the outcome of an entry
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:@/-]{0,99}")
_GENERATED = re.compile(rf"[0-9a-f]{{32}}(-[0-9a-f]{{{DIGITS}}})?")


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    what: What
    source: str  # the name of the peer
    path: Path
    received: float  # seconds since 1970
    attempts: int  # how often work on it began before
    charset: str = ""  # of a message that names none
    accepted: int = 0  # 1: somebody decided that it enters in any case
    state: Literal["waiting", "held", "failed"] = "waiting"
    reason: str = ""  # why it is held or failed
    study: str | None = None  # if it is held until this study changes

    @property
    def is_whole(self) -> bool:
        return is_as_named(self.path)


class Inbox:
    """A durable queue in its own folder; any number of threads may put into it.

    Args:
        folder: Made if it is missing; only its owner may read it, as entries name patients.
    """

    def __init__(self, folder: Path, *, reserve: int = RESERVE_BYTES) -> None:
        self.folder = Path(folder)
        self._reserve = reserve
        self._objects = self.folder / OBJECTS
        made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            self.database = Database(self.folder / FILE)
            for path in (self.folder, *(path.parent for path in made)):
                sync(path)
        except OSError as error:
            raise WorkError(
                f"{error.filename or folder}: {error.strerror}; name a folder that can be written"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    def put(
        self,
        source: str,
        data: bytes,
        what: What = "object",
        *,
        charset: str = "",
        held: str = "",
    ) -> int:
        """Keep something that was received; when this returns, it is on disk and survives a kill.

        Args:
            charset: Of a message that names none, written as in MSH-18; "" for UTF-8.
            held: Why it must wait until somebody accepts it; "" if it need not.

        Returns:
            The number of its entry; entries are taken in this order.

        Raises:
            DiskError: The disk is full, or too much waits; nothing was kept.
            WorkError: It cannot be kept for another reason.
        """
        if not _NAME.fullmatch(source):
            raise ValueError("a source is named with A-Z a-z 0-9 . _ : @ / - and space")
        try:
            self._require_room()
            path = self._write(data)
            try:
                sync(self._objects)
                return self._note(source, path, len(data), what, charset, held)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        except OSError as error:
            folder = self._objects
            if error.errno in _FULL:
                raise DiskError(f"{folder}: the disk is full; make room on it") from None
            raise WorkError(
                f"{folder}: {error.strerror}; check the disk and the right to write"
            ) from None

    def _note(self, source: str, path: Path, size: int, what: str, charset: str, held: str) -> int:
        state = ("held", "held", held) if held else ("waiting", None, None)
        with self.database.transaction() as database:
            made = database.execute(
                "INSERT INTO entries (what, source, file, bytes, charset, received, state, "
                "outcome, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (what, source, path.name, size, charset, time.time(), *state),
            )
            return int(made.lastrowid or 0)

    def _require_room(self) -> None:
        require_space(self.folder, self._reserve)
        with self.database.reading() as database:
            (waiting,) = database.execute(
                "SELECT count(*) FROM entries WHERE state = 'waiting'"
            ).fetchone()
        if waiting >= MAX_WAITING:
            raise DiskError(
                f"{self.folder}: {waiting} entries wait; does the gateway's file name a project?"
            )

    def _write(self, data: bytes) -> Path:
        if len(data) > MAX_BYTES:
            raise WorkError(f"larger than {MAX_BYTES >> 20} MiB; it was not kept")
        digest = hashlib.sha256(data).hexdigest()[:DIGITS]
        path = self._objects / f"{secrets.token_hex(16)}-{digest}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def waiting(self, limit: int) -> list[Entry]:
        """The first waiting entries, oldest first.

        An entry on which work began before but did not end comes alone: it may have caused that.
        """
        entries = self._entries("state = 'waiting'", limit)
        tried = next((i for i, entry in enumerate(entries) if entry.attempts), None)
        return entries if tried is None else entries[: max(tried, 1)]

    def _entries(self, where: str, limit: int = -1) -> list[Entry]:
        with self.database.reading() as database:
            rows = database.execute(
                "SELECT entry, what, source, file, received, attempts, charset, accepted, state, "  # noqa: S608
                f"coalesce(reason, ''), study FROM entries WHERE {where} ORDER BY entry LIMIT ?",
                (limit,),
            ).fetchall()
        return [
            Entry(number, what, source, self._objects / file, *more)
            for number, what, source, file, *more in rows
        ]

    def begin(self, entries: Sequence[Entry]) -> None:
        """Note that work on entries begins, so that we know if one ends the process."""
        with self.database.transaction() as database:
            database.executemany(
                "UPDATE entries SET attempts = attempts + 1 WHERE entry = ?",
                [(entry.number,) for entry in entries],
            )

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Let entries wait as if work on them had not begun, as the fault was elsewhere."""
        with self.database.transaction() as database:
            database.executemany(
                "UPDATE entries SET attempts = ? WHERE entry = ?",
                [(entry.attempts, entry.number) for entry in entries],
            )

    @contextmanager
    def finishing(self) -> Iterator["Finishing"]:
        """Note the outcomes of entries, all of the block or none, then remove their files."""
        with self.database.transaction() as database:
            finishing = Finishing(database)
            yield finishing
        for path in finishing.gone:
            with suppress(FileNotFoundError):
                path.unlink()

    def held(self) -> list[Entry]:
        """What waits for a decision or for a change of its study, and what failed."""
        return self._entries("state IN ('held', 'failed')")

    def accept(self, number: int) -> None:
        """Let an entry wait again; a held one enters in any case.

        InputError: it is not held, or is an object without a UID.
        """
        with self.database.transaction() as database:
            if self._held(number).reason == NO_UID:
                raise InputError(
                    f"{number}: {NO_UID}, so nothing could name it; drop it, and have it "
                    "sent with one"
                )
            database.execute(
                "UPDATE entries SET state = 'waiting', attempts = 0, study = NULL, "
                "accepted = max(accepted, state = 'held') WHERE entry = ?",
                (number,),
            )

    def drop(self, number: int) -> None:
        """Drop an entry (InputError: it is not held)."""
        with self.finishing() as finishing:
            finishing.done(self._held(number), "dropped")

    def _held(self, number: int) -> Entry:
        for entry in self._entries(f"state IN ('held', 'failed') AND entry = {number:d}"):
            return entry
        raise InputError(f"{number}: {NOT_HELD}")

    def tidy(self) -> None:
        """Remove files that no entry names, and entries that were done long ago.

        Nothing may put or take entries meanwhile.
        """
        with self.database.transaction() as database:
            database.execute(
                "DELETE FROM entries WHERE state = 'done' AND finished < ?", (time.time() - KEPT_S,)
            )
            named = dict(database.execute("SELECT file, entry FROM entries WHERE file <> ''"))
        for path in self._objects.iterdir():
            if _GENERATED.fullmatch(path.name) and path.name not in named:
                path.unlink(missing_ok=True)


class Finishing:
    """Outcomes of entries, in one transaction with what the block writes to ``database``."""

    def __init__(self, database: Connection) -> None:
        self.database = database
        self.gone: list[Path] = []

    def done(self, entry: Entry, outcome: str, reason: str = "") -> None:
        """Note that an entry is done; its file is removed."""
        self._end(entry, "done", outcome, reason)
        self.gone.append(entry.path)

    def fail(self, entry: Entry, reason: str) -> None:
        """Note that an entry is unusable; its file stays for somebody to look at."""
        self._stay(entry, "failed", reason)

    def hold(self, entry: Entry, study: str | None, reason: str) -> None:
        """Keep an entry until its study changes or somebody decides."""
        self._stay(entry, "held", reason, study)

    def release(self, study: str) -> None:
        self.database.execute(
            "UPDATE entries SET state = 'waiting', attempts = 0, study = NULL "
            "WHERE state = 'held' AND study = ?",
            (study,),
        )

    def _stay(self, entry: Entry, state: str, reason: str, study: str | None = None) -> None:
        """Keep an entry; if it was sent again, the first stays and gets the time of the last."""
        digest = entry.path.name.partition("-")[2]
        first = digest and self.database.execute(
            "UPDATE entries SET finished = ? WHERE entry = (SELECT min(entry) FROM entries "
            "WHERE state <> 'done' AND state = ? AND entry <> ? AND "
            "(what, source, reason, study, substr(file, -?)) IS (?, ?, ?, ?, ?))",
            (time.time(), state, entry.number, len(digest), entry.what, entry.source, reason, study,
             digest),
        ).rowcount  # fmt: skip
        if first:
            self.done(entry, "again", reason)
        else:
            self._end(entry, state, state, reason, study)

    def _end(
        self, entry: Entry, state: str, outcome: str, reason: str, study: str | None = None
    ) -> None:
        ended = self.database.execute(
            "UPDATE entries SET state = ?, outcome = ?, reason = ?, study = ?, finished = ?, "
            "file = iif(? = 'done', NULL, file) WHERE entry = ? AND state <> 'done'",
            (state, outcome, reason, study, time.time(), state, entry.number),
        )
        if state == "done" and ended.rowcount:  # else somebody dropped it meanwhile
            tally(self.database, entry.what, outcome)


def tally(database: Connection, what: str, outcome: str) -> None:
    """Count a finished entry: all received are these and those in the other states."""
    database.execute(
        "INSERT INTO tallies VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET number = number + 1",
        (what, outcome),
    )


def require_space(folder: Path, reserve: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < reserve:
        raise DiskError(
            f"{folder}: {free >> 20} MiB are free, but {reserve >> 20} MiB must stay free; make "
            "room on the disk"
        )
