"""The one thread that takes what waits in an inbox into an index.

After a kill it begins its batch again and changes nothing twice: the index names images by their
SOPInstanceUID.  An entry that ended it three times is set aside.  While the index or the disk
cannot be written, it waits, and nothing is lost.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from threading import Event
from typing import Self

from cxrtext.datasets.importing.reports.hl7 import (
    MessageError,
    is_merge,
    read_merges,
    read_message,
)
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.errors import CxrTextError, WorkError
from cxrtext.images.reader_pool import ReaderPool
from cxrtext.index.changes import move_patient
from cxrtext.index.entry import Imported, entering
from cxrtext.pacs.inbox.deletions import take_deletions
from cxrtext.pacs.inbox.intake import NAME, Intake, WorkerSettings
from cxrtext.pacs.inbox.queue import WRITE_WAIT_S, Entry, Inbox
from cxrtext.pacs.inbox.reports import ReportJoiner, put_merges, put_versions
from cxrtext.service import Service, load_service

BATCH = 16  # objects decoded and embedded together
ATTEMPTS = 3
POLL_S = 0.1
WAIT_S = (1.0, 60.0)  # how long to wait after a failure, at first and at most
DECODE_S = 30.0  # the CPU time that an image may take
ENDED_IT = "working on it ended the process three times"
LOST = "its file was removed, such as by 'cxrtext forget'"
DAMAGED = "its file is not what was received: it was damaged on the disk; have it sent again"
NO_REPORT = "a message of another kind than a report"


@dataclass(frozen=True, slots=True)
class _Merges:
    """Old patient ids, each with the new one."""

    pairs: Sequence[tuple[str, str]]


class OtherModelError(WorkError):
    """The index now has another model than the loaded one."""

    def __init__(self) -> None:
        super().__init__("the index has a new model, which is loaded next")


class Worker:
    """Takes entries of an inbox in, a batch at a time; a context manager.

    Args:
        say: Takes a line for the log: numbers of entries, outcomes and reasons, but nothing of
            what was sent.
    """

    def __init__(
        self, inbox: Inbox, settings: WorkerSettings, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._inbox, self._settings, self._say = inbox, settings, say
        self._open = ExitStack()
        try:
            settings.archive.mkdir(mode=0o700, parents=True, exist_ok=True)
            readers = self._open.enter_context(ReaderPool(settings.readers, seconds=DECODE_S))
            self.service = load_service(index=settings.index, device=settings.device)
            self._open.callback(self.service.close)
        except BaseException:
            self._open.close()
            raise
        self._imported = Imported()
        self._intake = Intake(inbox, self.service, settings, readers, self._imported)
        self._joiner = ReportJoiner(inbox, self.service)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, stopped: Event, then: Callable[[Service], None] = lambda _: None) -> None:
        """Work until it is stopped; ``then`` is called with the model after each batch.

        Raises:
            OtherModelError: A new worker has to load the model that the index has now.
        """
        wait = WAIT_S[0]
        while not stopped.is_set():
            try:
                busy = self.step()
                if self.service.renew():
                    then(self.service)
            except OtherModelError:
                raise
            except (CxrTextError, OSError) as error:
                self._say(f"{_line(error)}; trying again in {wait:.0f} s")
                stopped.wait(wait)
                wait = min(2 * wait, WAIT_S[1])
                continue
            wait = WAIT_S[0]
            if not busy:
                stopped.wait(POLL_S)

    def drain(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """Take a batch in; False if nothing waits."""
        if not self.service.renew():
            raise OtherModelError
        entries = self._inbox.waiting(BATCH)
        if not entries:
            return self._joiner.join() > 0
        batch = list(takewhile(lambda entry: entry.what == entries[0].what, entries))
        if batch[0].attempts >= ATTEMPTS:
            with self._inbox.finishing() as finishing:
                finishing.fail(batch[0], ENDED_IT)
            return True
        if unusable := [entry for entry in batch if not (entry.path.is_file() and entry.is_whole)]:
            with self._inbox.finishing() as finishing:
                for entry in unusable:
                    if entry.path.is_file():
                        finishing.fail(entry, DAMAGED)
                    else:
                        finishing.done(entry, "left out", LOST)
            return True
        self._inbox.begin(batch)
        try:
            self._take(batch)
        except (CxrTextError, OSError, KeyboardInterrupt):
            self._inbox.put_back(batch)  # the fault is elsewhere: the attempt does not count
            raise
        self._joiner.join()
        return True

    def _take(self, batch: Sequence[Entry]) -> None:
        if batch[0].what == "object":
            self._intake.take(batch)
        elif batch[0].what == "message":
            self._take_messages(batch)
        else:
            take_deletions(self._inbox, self.service, self._settings, batch, self._imported)

    def _take_messages(self, batch: Sequence[Entry]) -> None:
        read = {entry.number: self._read(entry) for entry in batch}
        for content in read.values():
            if isinstance(content, _Merges):
                self._move(content.pairs)
        with self._inbox.finishing() as finishing:
            for entry in batch:
                content = read[entry.number]
                if isinstance(content, str):
                    finishing.fail(entry, content)
                elif isinstance(content, _Merges):
                    put_merges(finishing, content.pairs, entry)
                elif content:
                    put_versions(finishing, content, entry, self._settings.ids)
                else:
                    finishing.done(entry, "left out", NO_REPORT)

    def _read(self, entry: Entry) -> "list[ReportVersion] | _Merges | str":
        """The content of a message, or a text that says why it cannot be read."""
        of = self._settings.ids.of
        try:
            data = entry.path.read_bytes()
            if versions := read_message(data, NAME, entry.charset):
                return versions
            if not is_merge(data):
                return []
            pairs = self._as_films_say(read_merges(data, entry.charset))
            return _Merges([(of("patient", old), of("patient", new)) for old, new in pairs])
        except MessageError as error:
            return str(error)

    def _as_films_say(self, merges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Merges as sent and, if messages and films differ in naming an issuer, as films say it.

        That is without an issuer if no film names one, and with the films' own if it is the only
        one and the message names none.
        """
        with self._inbox.database.reading() as database:
            issuers = {name for (name,) in database.execute("SELECT DISTINCT issuer FROM objects")}
        also: list[tuple[str, str]] = []
        for old, new in merges:
            (old_issuer, _, old_id), (new_issuer, _, new_id) = (
                one.rpartition(":") for one in (old, new)
            )
            if issuers == {""} and old_issuer and old_issuer == new_issuer:
                also.append((old_id, new_id))
            elif len(issuers) == 1 and issuers != {""} and not old_issuer and not new_issuer:
                (issuer,) = issuers
                also.append((f"{issuer}:{old_id}", f"{issuer}:{new_id}"))
        return [*merges, *also]

    def _move(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Give the images under old patient ids to the new ones."""
        index = self.service.archive
        with (
            entering(index.folder, index.snapshot.meta["generation"], WRITE_WAIT_S) as catalogue,
            catalogue.transaction(write=True) as database,
        ):
            for old, new in pairs:
                move_patient(database, old, new)


def _line(error: BaseException) -> str:
    if isinstance(error, CxrTextError):
        return str(error)
    return f"{type(error).__name__}: {getattr(error, 'strerror', None) or 'failed'}"
