"""Lost workers and two drivers, with work that costs nothing."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError, WorkError
from cxrtext.files.storage import Storage, open_storage
from cxrtext.jobs.driver import EveryNth, Running, drive
from cxrtext.jobs.engines.engine import Engine, Task, Work
from cxrtext.jobs.engines.local import LocalEngine
from cxrtext.jobs.plan import Contents, Plan, begin, read_plan
from cxrtext.jobs.shards import Shard, commit_shard, committed, read_shard
from cxrtext.jobs.status import failures, job_status
from tests.jobs.here import Here
from tests.waiting import until


@dataclass(frozen=True)
class Doubling:
    """Work that doubles numbers; some of them end their process, each in its way."""

    address: str
    job: str
    gate: Path | None = None  # a file for which all shards but the first wait

    def __call__(self, task: Task) -> None:
        until(lambda: not task.number or self.gate is None or self.gate.exists())
        for row in task.rows:
            if row == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            if row == "memory":
                raise MemoryError("what it says may quote a report")
            if row == "hang":
                time.sleep(600)
            if row == "refused":
                raise DataError("row.png: is no input")
            if row == "disk":
                raise WorkError("the disk is full")
        doubled = np.array([2 * int(row) for row in task.rows], np.int64)
        shard = Shard(task.number, list(range(len(doubled))), {}, {}, {"doubled": doubled})
        commit_shard(open_storage(self.address), self.job, shard)


def a_job(folder: Path, rows: list[str], size: int = 8) -> tuple[Storage, Plan, list[Task]]:
    storage = open_storage(folder)
    tasks = [
        Task(n, tuple(rows[i : i + size]), limit_s=0.3 if "hang" in rows[i : i + size] else 60)
        for n, i in enumerate(range(0, len(rows), size))
    ]
    plan = begin(storage, "embed", {}, Contents(len(rows), len(tasks), {}))
    return storage, plan, tasks


def processes(work: Work) -> Engine:
    return LocalEngine(work, 2)


def run(
    folder: Path,
    rows: list[str],
    running: Running | None = None,
    start: Callable[[Work], Engine] = Here,
) -> Storage:
    storage, plan, tasks = a_job(folder, rows)
    work = Doubling(storage.location, plan.digest)
    drive(storage, plan, tasks, lambda: start(work), running)
    return storage


def results(storage: Storage) -> tuple[list[int], dict[int, str]]:
    values: list[int] = []
    rejected: dict[int, str] = {}
    assert job_status(storage).is_done
    plan = read_plan(storage)
    for number, file in sorted(committed(storage).items()):
        shard = read_shard(storage, plan.digest, file)
        values += shard.arrays["doubled"].tolist()
        rejected |= {8 * number + place: why for place, why in shard.rejected.items()}
    return values, rejected


@pytest.mark.parametrize(
    ("row", "how"),
    [("segfault", "SIGSEGV"), ("memory", "MemoryError"), ("hang", "no end within 0.3 s")],
)
def test_a_shard_that_kills_its_worker_costs_no_other(tmp_path: Path, row: str, how: str) -> None:
    rows, said = [str(i) for i in range(24)], list[str]()
    with pytest.raises(WorkError, match=r"1 of 3 shards could not be made, the first 1: its worke"):
        run(tmp_path / "job", [*rows[:9], row, *rows[10:]], Running(say=said.append), processes)
    storage = open_storage(tmp_path / "job")
    assert f"its worker was lost 2 times ({how}): look at its" in job_status(storage).failures[1]
    assert len(said) == 2
    assert not any("quote a report" in line for line in said)
    run(tmp_path / "job", rows)
    assert results(storage) == ([2 * i for i in range(24)], {})


def test_a_shard_that_fails_costs_no_other_and_is_tried_again(tmp_path: Path) -> None:
    rows = [str(i) for i in range(24)]
    with pytest.raises(WorkError, match=r"1 of 3 shards could not be made, the first 1: the disk"):
        run(tmp_path / "job", [*rows[:9], "disk", *rows[10:]])
    storage = open_storage(tmp_path / "job")
    status = job_status(storage)
    assert (status.shards_done, status.shards_failed) == (2, 1)
    assert status.failures == {1: "the disk is full"}
    run(tmp_path / "job", rows)
    assert results(storage) == ([2 * i for i in range(24)], {})
    assert job_status(storage).failures == {}
    assert storage.names("failed/") == []


def test_wrong_input_stops_the_job_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row.png: is no input"):
        run(tmp_path / "job", ["1", "refused", "3"])


def test_what_another_driver_removes_while_it_is_read_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = run(tmp_path / "job", ["1", "2"])
    storage.commit("failed/000001.json", b'{"reason": "the disk is full"}')
    read = storage.read

    def too_late(name: str) -> bytes:
        if name.startswith("failed/"):
            storage.remove(name)
        return read(name)

    monkeypatch.setattr(storage, "read", too_late)
    assert failures(storage) == {}


def test_of_two_shards_the_one_with_fewer_rejected_rows_counts(tmp_path: Path) -> None:
    storage, plan, (task,) = a_job(tmp_path / "job", ["1", "2"])
    less = Shard(0, [0], {1: "no image"}, {}, {"doubled": np.array([2], np.int64)})
    commit_shard(storage, plan.digest, less)  # on a machine that could not read a file
    Doubling(storage.location, plan.digest)(task)
    assert len(storage.names("shards/")) == 2
    assert results(storage) == ([2, 4], {})


def test_the_clock_of_the_storage_may_be_ahead(tmp_path: Path) -> None:
    storage = run(tmp_path / "job", ["1", "2"])
    (shard,) = (tmp_path / "job/shards").iterdir()
    os.utime(shard, (time.time() + 3600,) * 2)
    assert job_status(storage).idle_s == 0.0


def test_a_killed_worker_is_replaced_and_its_shard_is_made(tmp_path: Path) -> None:
    said: list[str] = []
    storage, plan, tasks = a_job(tmp_path / "job", [str(i) for i in range(64)])
    engine = LocalEngine(Doubling(storage.location, plan.digest, tmp_path / "gate"), 2)
    with ThreadPoolExecutor(1) as pool:
        running = Running(say=said.append)
        driver = pool.submit(drive, storage, plan, tasks, lambda: engine, running)
        until(lambda: len(engine.pids) == 2)
        os.kill(engine.pids[-1], signal.SIGKILL)  # it waits
        (tmp_path / "gate").touch()
        driver.result()
    assert len(said) == 1
    assert results(storage) == ([2 * i for i in range(64)], {})


def test_two_drivers_of_one_job_make_the_same(tmp_path: Path) -> None:
    rows = [str(i) for i in range(64)]
    with ThreadPoolExecutor(2) as pool:
        drivers = [pool.submit(run, tmp_path / "job", rows, start=processes) for _ in range(2)]
        for driver in drivers:
            driver.result()
    run(tmp_path / "alone", rows)
    storage, alone = open_storage(tmp_path / "job"), open_storage(tmp_path / "alone")
    assert storage.names("shards/") == alone.names("shards/")
    assert results(storage) == results(alone)


def test_parts_make_every_shard_once(tmp_path: Path) -> None:
    rows = [str(i) for i in range(40)]
    for number in (1, 2, 3):
        storage = run(tmp_path / "job", rows, Running(part=EveryNth(number, 3)))
        made = {file.number for file in committed(storage).values()}
        assert made == {n for n in range(5) if n % 3 < number}
    assert results(storage) == ([2 * i for i in range(40)], {})
    with pytest.raises(ValueError, match="I/N"):
        EveryNth(4, 3)
