"""Lost workers and two drivers, with work that costs nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError, WorkError
from cxrtext.files import write_private
from cxrtext.files.storage import Storage, open_storage
from cxrtext.jobs.cluster import Cluster, Do, Task
from cxrtext.jobs.driver import EveryNth, Running, drive
from cxrtext.jobs.plan import Contents, Plan, begin, read_plan
from cxrtext.jobs.shards import Shard, commit_shard, committed, read_shard
from cxrtext.jobs.status import failures, job_status
from tests.jobs.kill_job import children
from tests.waiting import until


@dataclass(frozen=True)
class Doubling:
    """Work that doubles numbers; some of them end their process, each in its way."""

    address: str
    job: str
    gate: Path | None = None  # a file for which all shards but the first wait

    @contextmanager
    def open(self) -> Iterator[Do]:
        yield self.make

    def make(self, task: Task) -> None:
        if task.number and self.gate is not None and not self.gate.exists():
            write_private(self.gate.with_name("gate.waits"), str(os.getpid()).encode())
            until(self.gate.exists)
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


HERE, TWO = Cluster(), Cluster(workers=2)


def run(
    folder: Path, rows: list[str], running: Running | None = None, cluster: Cluster = HERE
) -> Storage:
    storage, plan, tasks = a_job(folder, rows)
    drive(storage, plan, tasks, Doubling(storage.location, plan.digest), cluster, running)
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


def test_shards_that_end_their_worker_cost_no_other(tmp_path: Path) -> None:
    rows, said = [str(i) for i in range(56)], list[str]()
    poisoned = [*rows]
    poisoned[9], poisoned[25], poisoned[41] = "segfault", "memory", "hang"
    with pytest.raises(WorkError, match=r"3 of 7 shards could not be made, the first 1: its worke"):
        run(tmp_path / "job", poisoned, Running(say=said.append), TWO)
    failures = job_status(open_storage(tmp_path / "job")).failures
    for number, how in {1: "it died each time", 3: "MemoryError", 5: "it died each time"}.items():
        assert f"its worker was lost ({how}): look at its" in failures[number]
    assert len(said) == 3
    assert not any("quote a report" in line for line in said)
    run(tmp_path / "job", rows)
    assert results(open_storage(tmp_path / "job")) == ([2 * i for i in range(56)], {})


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
    Doubling(storage.location, plan.digest).make(task)
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
    work = Doubling(storage.location, plan.digest, tmp_path / "gate")
    with ThreadPoolExecutor(1) as pool:
        driver = pool.submit(drive, storage, plan, tasks, work, TWO, Running(say=said.append))
        until(lambda: (tmp_path / "gate.waits").exists())
        os.kill(int((tmp_path / "gate.waits").read_text()), signal.SIGKILL)
        (tmp_path / "gate").touch()
        driver.result()
    assert said == []
    assert results(storage) == ([2 * i for i in range(64)], {})


def test_two_drivers_of_one_job_make_the_same(tmp_path: Path) -> None:
    rows = [str(i) for i in range(64)]
    with ThreadPoolExecutor(2) as pool:
        drivers = [pool.submit(run, tmp_path / "job", rows) for _ in range(2)]
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


KILLED = """
import sys
from pathlib import Path
from tests.jobs.test_job_driver import TWO, Doubling, a_job, drive

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    storage, plan, tasks = a_job(folder / "job", [str(i) for i in range(64)])
    work = Doubling(storage.location, plan.digest, folder / "gate")
    drive(storage, plan, tasks, work, TWO)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_its_driver(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    driver = subprocess.Popen(
        [sys.executable, script, tmp_path],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    until((tmp_path / "gate.waits").exists)
    workers = children(driver.pid)
    assert len(workers) == 2
    driver.send_signal(how)
    driver.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
