"""The state of an inbox in numbers: what waits, since when, and what became of the rest."""

import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from cxrtext.files.sqlite import transaction
from cxrtext.pacs.inbox.database import FILE, Database


@dataclass(frozen=True, slots=True)
class InboxStatus:
    received: int = 0  # entries ever: done, waiting, held and failed
    waiting: dict[str, int] = field(default_factory=dict)  # by kind of entry
    held: int = 0  # wait for a decision or a change of their study
    failed: int = 0  # for somebody to look at
    oldest_s: float = 0.0  # how long the oldest waiting entry has waited
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)  # by kind and outcome
    unjoined: int = 0  # reports whose study is not here
    undecided: int = 0  # reports that are held


def read_status(folder: Path) -> InboxStatus:
    """Read the state of an inbox; this blocks no other process."""
    with (
        closing(Database(folder / FILE, read_only=True)) as database,
        database.reading() as asked,
        transaction(asked, write=False),  # so that the counts add up
    ):
        states = asked.execute(
            "SELECT state, what, count(*), min(received) FROM entries WHERE state <> 'done' "
            "GROUP BY state, what"
        ).fetchall()
        outcomes = asked.execute("SELECT what, outcome, number FROM tallies").fetchall()
        sequence = asked.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'entries'"
        ).fetchone()
        unjoined, undecided = asked.execute(
            "SELECT total(joined IS NULL AND held IS NULL AND seen = 1), count(held) FROM reports"
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
        unjoined=int(unjoined),
        undecided=undecided,
    )


def reasons(folder: Path) -> list[tuple[str, str, str, int]]:
    """Kind, outcome, reason and number of the entries that did not simply enter the index."""
    with closing(Database(folder / FILE, read_only=True)) as database, database.reading() as asked:
        return asked.execute(
            "SELECT what, outcome, reason, count(*) AS n FROM entries WHERE outcome IN "
            "('left out', 'held', 'failed') GROUP BY what, outcome, reason ORDER BY n DESC"
        ).fetchall()
