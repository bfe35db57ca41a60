"""How far a job is, from what lies on its storage alone: anyone can ask, from any machine."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from cxrtext.errors import NotFoundError
from cxrtext.files.storage import Storage
from cxrtext.jobs.plan import Plan, read_plan
from cxrtext.jobs.shards import ShardFile, committed

FAILED = "failed/"
"""Folder of notes on shards that could not be made, one ``000012.json`` each."""

RECENT_S = 900.0
"""The rate is that of the shards of the last so many seconds of work."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    kind: str
    shards: int
    shards_done: int
    shards_failed: int
    rows: int
    rows_done: int  # rejected ones included
    rejected: int
    rate: float | None  # images a second; None where too few shards are there to say
    seconds_left: float | None  # at that rate; None where nobody works any more
    idle_s: float | None  # seconds since the last shard; None before the first
    failures: dict[int, str]  # reason by shard

    @property
    def is_done(self) -> bool:
        return self.shards_done == self.shards

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shards_left": self.shards - self.shards_done}


def job_status(storage: Storage) -> JobStatus:
    """Say how far a job is (NotFoundError where there is none)."""
    return status_of(read_plan(storage), committed(storage), failures(storage))


def status_of(plan: Plan, done: Mapping[int, ShardFile], failed: Mapping[int, str]) -> JobStatus:
    files = sorted(done.values(), key=lambda file: file.modified)
    rows_done = sum(file.rows + file.rejected for file in files)
    # The clock of the storage may be ahead of ours.
    idle = max(0.0, time.time() - files[-1].modified) if files else None
    rate = _rate(files)
    left = None
    if rate and idle is not None and idle < RECENT_S:
        left = (plan.rows - rows_done) / rate
    open_failures = {number: why for number, why in failed.items() if number not in done}
    return JobStatus(
        plan.kind, plan.shards, len(files), len(open_failures), plan.rows, rows_done,
        sum(file.rejected for file in files), rate, left, idle, open_failures,
    )  # fmt: skip


def _rate(files: list[ShardFile]) -> float | None:
    recent = [file for file in files if files[-1].modified - file.modified < RECENT_S]
    seconds = recent[-1].modified - recent[0].modified if recent else 0
    # The first was begun before the time that is looked at.
    return sum(file.rows + file.rejected for file in recent[1:]) / seconds if seconds > 0 else None


def note_failure(storage: Storage, number: int, reason: str) -> None:
    storage.commit(f"{FAILED}{number:06d}.json", json.dumps({"reason": reason}).encode())


def forget_failure(storage: Storage, number: int) -> None:
    storage.remove(f"{FAILED}{number:06d}.json")


def failures(storage: Storage) -> dict[int, str]:
    found = {}
    for name in storage.names(FAILED):
        number = name.removeprefix(FAILED).removesuffix(".json")
        if number.isdigit():
            with suppress(NotFoundError):  # another driver has made it meanwhile
                found[int(number)] = str(json.loads(storage.read(name))["reason"])
    return found
