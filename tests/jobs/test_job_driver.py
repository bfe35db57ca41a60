"""Lost workers and two drivers, with work that costs nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from cxrtext.errors import DataError, DiskError, WorkError
from cxrtext.files import write_private
from cxrtext.jobs.cluster import Cluster, Do, Task, _local, own_device
from cxrtext.jobs.job import JobOptions, Say, make_missing, silent
from cxrtext.jobs.plan import Plan, begin, read_plan
from cxrtext.jobs.shards import Shard, ShardFile, commit_shard, committed, read_shard
from tests.jobs.kill_job import children, digests
from tests.waiting import until


@dataclass(frozen=True)
class Doubling:
    """Work that doubles numbers; some of them end their process, each in its way."""

    folder: Path
    job: str
    gate: Path | None = None  # a file for which all shards but the first wait

    @contextmanager
    def open(self, device: str) -> Iterator[Do]:
        self.folder.with_name(f"worker on {device}").touch()
        yield self.make

    def make(self, task: Task) -> ShardFile:
        if task.number and self.gate is not None and not self.gate.exists():
            write_private(self.gate.with_name("gate.waits"), str(os.getpid()).encode())
            until(self.gate.exists)
        for row in task.rows:
            if row == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            if row == "memory":
                raise MemoryError("what it says may quote a report")
            if row == "refused":
                raise DataError("row.png: is not an input")
            if row == "full":
                raise DiskError("the disk is full")
            if row == "disk":
                raise WorkError("the share is away")
        doubled = np.array([2 * int(row) for row in task.rows], np.int64)
        shard = Shard(task.number, list(range(len(doubled))), {}, {}, {"doubled": doubled})
        return commit_shard(self.folder, self.job, shard)


def a_job(folder: Path, rows: list[str], size: int = 8) -> tuple[Plan, list[Task]]:
    tasks = [Task(n, tuple(rows[i : i + size])) for n, i in enumerate(range(0, len(rows), size))]
    plan = begin(folder, "embed", {}, size, lambda: (len(rows), {}))
    return plan, tasks


HERE, TWO = Cluster(), Cluster(workers=2)


def run(folder: Path, rows: list[str], cluster: Cluster = HERE, say: Say = silent) -> None:
    plan, tasks = a_job(folder, rows)
    make_missing(folder, plan, tasks, Doubling(folder, plan.digest), cluster, say=say)


def results(folder: Path) -> tuple[list[int], dict[int, str]]:
    values: list[int] = []
    rejected: dict[int, str] = {}
    plan = read_plan(folder)
    assert len(committed(folder)) == plan.shards
    for number, file in sorted(committed(folder).items()):
        shard = read_shard(folder, plan.digest, file)
        values += shard.arrays["doubled"].tolist()
        rejected |= {8 * number + place: why for place, why in shard.rejected.items()}
    return values, rejected


def test_shards_that_fail_cost_no_other_and_are_tried_again(tmp_path: Path) -> None:
    rows, said = [str(i) for i in range(56)], list[str]()
    poisoned = [*rows]
    poisoned[9], poisoned[25], poisoned[41] = "segfault", "memory", "disk"
    with pytest.raises(WorkError, match=r"3 of 7 shards could not be made, the first 1: its worke"):
        run(tmp_path / "job", poisoned, TWO, said.append)
    how = "its worker was lost ({}): look at its memory"
    for number, why in {
        1: how.format("it died each time"),
        3: how.format("MemoryError"),
        5: "the share is away",
    }.items():
        assert any(line.startswith(f"shard {number}: {why}") for line in said)
    assert len(said) == 3
    assert not any("quote a report" in line for line in said)
    assert len(committed(tmp_path / "job")) == 4
    run(tmp_path / "job", rows)
    assert results(tmp_path / "job") == ([2 * i for i in range(56)], {})


def test_two_clusters_on_one_machine(tmp_path: Path) -> None:
    rows = ["1"] * 16
    with _local(1):
        run(tmp_path / "job", rows, TWO)
    assert results(tmp_path / "job") == ([2] * 16, {})


def test_each_visible_gpu_has_a_worker_and_a_share_of_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr("cxrtext.jobs.job.cores", lambda: 8)
    both, second = JobOptions(device="cuda"), JobOptions(device="cuda:1")
    assert (both.here(), both.readers) == (2, 4)
    assert (second.here(), second.readers) == (1, 8)
    assert JobOptions(device="cuda", address="tcp://head:8786").devices() == ["cuda"]
    run(tmp_path / "job", ["1"] * 64, Cluster(device="cuda", workers=2))  # one may do all of it
    seen = {path.name for path in tmp_path.glob("worker on *")}
    assert seen
    assert seen <= {"worker on cuda:0", "worker on cuda:1"}
    for number, own in enumerate(["cuda:0", "cuda:1", "cuda:0"]):
        with patch("distributed.get_worker", return_value=SimpleNamespace(name=number)):
            assert own_device(both.devices()) == own


def test_wrong_input_and_a_full_disk_stop_the_job_in_their_own_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row.png: is not an input"):
        run(tmp_path / "job", ["1", "refused", "3"])
    rows = ["1"] * 40
    rows[20] = "full"
    with pytest.raises(DiskError, match=r"the disk is full"):
        run(tmp_path / "full", rows)
    assert len(committed(tmp_path / "full")) < 4  # not those after it


def test_of_two_shards_the_one_with_fewer_rejected_rows_counts(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    plan, (task,) = a_job(folder, ["1", "2"])
    less = Shard(0, [0], {1: "no image"}, {}, {"doubled": np.array([2], np.int64)})
    commit_shard(folder, plan.digest, less)  # on a machine that could not read a file
    Doubling(folder, plan.digest).make(task)
    assert len(list((folder / "shards").iterdir())) == 2
    assert results(tmp_path / "job") == ([2, 4], {})


def test_a_killed_worker_is_replaced_and_its_shard_is_made(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "job"
    plan, tasks = a_job(folder, [str(i) for i in range(64)])
    work = Doubling(folder, plan.digest, tmp_path / "gate")
    with ThreadPoolExecutor(1) as pool:
        driver = pool.submit(make_missing, folder, plan, tasks, work, TWO, say=said.append)
        until(lambda: (tmp_path / "gate.waits").exists())
        os.kill(int((tmp_path / "gate.waits").read_text()), signal.SIGKILL)
        (tmp_path / "gate").touch()
        driver.result()
    assert said == []
    assert results(tmp_path / "job") == ([2 * i for i in range(64)], {})


def test_two_drivers_of_one_job_make_the_same(tmp_path: Path) -> None:
    rows = [str(i) for i in range(64)]
    with ThreadPoolExecutor(2) as pool:
        drivers = [pool.submit(run, tmp_path / "job", rows) for _ in range(2)]
        for driver in drivers:
            driver.result()
    run(tmp_path / "alone", rows)
    shards, alone = (digests(tmp_path / name / "shards", "*") for name in ("job", "alone"))
    assert shards == alone
    assert results(tmp_path / "job") == results(tmp_path / "alone")


KILLED = """
import sys
from pathlib import Path
from tests.jobs.test_job_driver import TWO, Doubling, a_job, make_missing

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    plan, tasks = a_job(folder / "job", [str(i) for i in range(64)])
    work = Doubling(folder / "job", plan.digest, folder / "gate")
    make_missing(folder / "job", plan, tasks, work, TWO)
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
