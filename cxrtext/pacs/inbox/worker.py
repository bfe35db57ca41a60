"""The one process that takes what waits in an inbox into an index.

What it was killed at is begun again and changes nothing twice: the index names images by their
SOPInstanceUID.  What ended it three times is set aside.  Where the index or the disk cannot be
written it waits, and nothing is lost.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Self

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.datasets.importing.formats.dicom import KEEP
from cxrtext.datasets.importing.reports.hl7 import MessageError, read_message
from cxrtext.errors import CheckpointError, ConfigError, CxrTextError
from cxrtext.images.reader_pool import ReaderPool
from cxrtext.index.entry import Imported
from cxrtext.pacs.inbox.deletions import take_deletions
from cxrtext.pacs.inbox.intake import NAME, Given, Intake
from cxrtext.pacs.inbox.queue import Entry, Inbox
from cxrtext.pacs.inbox.reports import ReportJoiner, put_versions
from cxrtext.pacs.peers import Peer
from cxrtext.records.manifest import ACQUIRED
from cxrtext.service import load_service
from cxrtext.service.intake import Pixels

BATCH = 16  # objects that are decoded and embedded together
ATTEMPTS = 3
POLL_S = 0.1
WAIT_S = (1.0, 60.0)  # how long it is waited after a failure, at first and at most
DECODE_S = 30.0  # computing time that an image may take
ENDED_IT = "working on it ended the process three times"
LOST = "its file was removed, such as by 'cxrtext forget'"
DAMAGED = "its file is not what was received: it was damaged on the disk; have it sent again"
NO_REPORT = "a message of another kind than a report"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker does with what waits.

    Args:
        index: The index that images are added to; its own prompts label them.
        archive: Folder of the files that are kept of images: the objects as they came; where ids
            are hashed their pixels alone.
        hash_ids: Key file by which ids are replaced by hashes.
        columns: What is read of headers into the index, of what an import offers.
        issuer: Of patient ids whose header names none.
        peers: By name: what their deletions do here; "note" of others.
        readers: Processes that decode.
        burnt_in: What is read in the margins of an image, as a reason to hold it.
    """

    index: Path
    archive: Path
    device: str = "cpu"
    hash_ids: Path | None = None
    columns: tuple[str, ...] = ()
    issuer: str = ""
    peers: Mapping[str, Peer] = field(default_factory=dict)
    readers: int = 2
    burnt_in: Callable[[Pixels], str] | None = None

    @property
    def forgetting(self) -> frozenset[str]:
        return frozenset(name for name, peer in self.peers.items() if peer.on_deletion == "forget")

    def check(self) -> None:
        """Refuse columns that no import offers (ConfigError)."""
        for name in self.columns:
            if name not in KEEP:
                raise ConfigError(f"ids.keep: {name}: there is {', '.join(KEEP)}")
            if name in ("date", ACQUIRED) and self.hash_ids is not None:
                raise ConfigError(
                    f"ids.keep: {name}: dates are dropped with ids.hash; leave {name} out"
                )


class Worker:
    """Takes entries of an inbox in, a batch at a time; a context manager.

    Args:
        say: Takes a line for the log: numbers of entries, outcomes and reasons, nothing of what
            was sent.
    """

    def __init__(
        self, inbox: Inbox, settings: WorkerSettings, say: Callable[[str], None] = lambda _: None
    ) -> None:
        settings.check()
        self._inbox, self._settings, self._say = inbox, settings, say
        self._ids = Ids(None if settings.hash_ids is None else read_key(settings.hash_ids))
        self._open = ExitStack()
        try:
            self._open.enter_context(inbox.one_worker())
            settings.archive.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._readers = self._open.enter_context(ReaderPool(settings.readers, seconds=DECODE_S))
            self._load()
        except BaseException:
            self._open.close()
            raise

    def _load(self) -> None:
        settings = self._settings
        self.service = load_service(index=settings.index, device=settings.device)
        given = Given(
            settings.archive, self._ids, settings.columns, settings.issuer, settings.forgetting,
            settings.burnt_in,
        )  # fmt: skip
        self._imported = Imported()
        self._intake = Intake(self._inbox, self.service, given, self._readers, self._imported)
        self._joiner = ReportJoiner(self._inbox, self.service)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.service.close()
        self._open.close()

    def run(self, ended: Callable[[], bool]) -> None:
        wait = WAIT_S[0]
        while not ended():
            try:
                busy = self.step()
            except (CxrTextError, OSError) as error:
                self._say(f"{_line(error)}; trying again in {wait:.0f} s")
                until = time.monotonic() + wait
                while time.monotonic() < until and not ended():
                    time.sleep(POLL_S)
                wait = min(2 * wait, WAIT_S[1])
                if isinstance(error, CheckpointError):  # the index turned to another model
                    self._reload()
                continue
            wait = WAIT_S[0]
            if not busy:
                time.sleep(POLL_S)

    def drain(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """Take a batch in; False where nothing waits."""
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
            policies = {name: peer.on_deletion for name, peer in self._settings.peers.items()}
            take_deletions(self._inbox, self.service, self._ids, batch, policies, self._imported)

    def _take_messages(self, batch: Sequence[Entry]) -> None:
        with self._inbox.finishing() as finishing:
            for entry in batch:
                try:
                    versions = read_message(entry.path.read_bytes(), NAME, entry.charset)
                except MessageError as error:
                    finishing.fail(entry, str(error))
                    continue
                if versions:
                    put_versions(finishing, versions, entry, self._ids)
                else:
                    finishing.done(entry, "left out", NO_REPORT)

    def _reload(self) -> None:
        """Load the model that the index has now; what cannot be loaded is said, and tried again."""
        before = self.service
        try:
            self._load()
        except CxrTextError as error:
            self._say(_line(error))
        else:
            before.close()


def work(
    folder: Path,
    settings: WorkerSettings,
    ended: Callable[[], bool],
    say: Callable[[str], None],
    *,
    once: bool = False,
) -> None:
    """Work on an inbox until it is to end; with ``once`` until nothing waits any more."""
    with Inbox(folder) as inbox, Worker(inbox, settings, say) as worker:
        if once:
            worker.drain()
            return
        worker.service.warm_up()
        say(f"working on {folder} into {settings.index}")
        worker.run(ended)


def _line(error: BaseException) -> str:
    if isinstance(error, CxrTextError):
        return str(error)
    return f"{type(error).__name__}: {getattr(error, 'strerror', None) or 'failed'}"
