"""How an inbox does: what waits, since when, and what became of the rest.  Numbers alone."""

import math
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cxrtext.errors import CxrTextError
from cxrtext.files.sqlite import transaction
from cxrtext.pacs.inbox.database import FILE, Database
from cxrtext.pacs.inbox.queue import Inbox

ALIVE_S = 65.0  # how old the last sign of a listener may be; one is given every half minute
_BEAT_S = 1.0


class ListenerCounts:
    """What a receiver, "dicom" or "hl7", counts; a thread notes it in its inbox, for metrics."""

    def __init__(self, inbox: Inbox, kind: str, open_now: Callable[[], int]) -> None:
        self._inbox, self._kind, self._open_now = inbox, kind, open_now
        self._counts = {"accepted": 0, "refused": 0, "cut": 0}
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._note, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(5)

    def add(self, name: Literal["accepted", "refused", "cut"]) -> None:
        with self._lock:
            self._counts[name] += 1

    def _note(self) -> None:
        before: tuple[int, ...] = ()
        noted = -math.inf
        while not self._ended.is_set():
            now = (self._open_now(), *self._counts.values())
            if now != before or time.monotonic() > noted + 30:
                with suppress(CxrTextError):
                    self._inbox.note_listener(self._kind, *now)
                    before, noted = now, time.monotonic()
            self._ended.wait(_BEAT_S)


@dataclass(frozen=True, slots=True)
class Listening:
    """What a process that receives has counted since it was started."""

    open: int  # associations or connections now; 0 where the process is gone
    accepted: int
    refused: int
    cut: int
    alive: bool


@dataclass(frozen=True, slots=True)
class InboxStatus:
    received: int = 0  # entries ever: those done with, and those of the three other states
    waiting: dict[str, int] = field(default_factory=dict)  # by kind of entry
    held: int = 0  # wait until something of their study changes
    failed: int = 0  # for somebody to look at
    oldest_s: float = 0.0  # how long the first that waits has waited
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)  # by kind and outcome
    listeners: dict[str, Listening] = field(default_factory=dict)  # by "dicom" or "hl7"
    unjoined: int = 0  # reports whose study is not here, or another patient's


def read_status(folder: Path) -> InboxStatus:
    """Look at an inbox; whoever receives or works is not kept waiting."""
    with (
        closing(Database(folder / FILE, read_only=True)) as database,
        database.reading() as asked,
        transaction(asked, write=False),  # what is counted here adds up
    ):
        states = asked.execute(
            "SELECT state, what, count(*), min(received) FROM entries WHERE state <> 'done' "
            "GROUP BY state, what"
        ).fetchall()
        outcomes = asked.execute("SELECT what, outcome, number FROM tallies").fetchall()
        listeners = asked.execute("SELECT * FROM listeners").fetchall()
        sequence = asked.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'entries'"
        ).fetchone()
        (unjoined,) = asked.execute(
            "SELECT count(*) FROM reports WHERE joined IS NULL AND seen = 1"
        ).fetchone()
    now = time.time()
    first = min((row[3] for row in states if row[0] == "waiting"), default=now)
    return InboxStatus(
        received=sequence[0] if sequence else 0,
        waiting={what: count for state, what, count, _ in states if state == "waiting"},
        held=sum(count for state, _, count, _ in states if state == "held"),
        failed=sum(count for state, _, count, _ in states if state == "failed"),
        oldest_s=max(0.0, now - first),
        outcomes={(what, outcome): number for what, outcome, number in outcomes},
        listeners={kind: _listening(now - seen, *counts) for kind, seen, *counts in listeners},
        unjoined=unjoined,
    )


def _listening(age: float, number: int, accepted: int, refused: int, cut: int) -> Listening:
    alive = abs(age) < ALIVE_S  # a clock may have been set back since
    return Listening(number if alive else 0, accepted, refused, cut, alive)


def reasons(folder: Path) -> list[tuple[str, str, str, int]]:
    """Kind, outcome, reason and number of the entries that are not simply in the index."""
    with closing(Database(folder / FILE, read_only=True)) as database, database.reading() as asked:
        return asked.execute(
            "SELECT what, outcome, reason, count(*) AS n FROM entries WHERE outcome IN "
            "('left out', 'held', 'failed') GROUP BY what, outcome, reason ORDER BY n DESC"
        ).fetchall()
