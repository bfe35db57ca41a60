"""A cluster whose parts are killed."""

import signal
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.jobs import cluster
from cxrtext.jobs.cluster import Cluster, check_worker
from cxrtext.jobs.job import Say, make_missing, silent
from tests.jobs.dask_parts import Parts
from tests.jobs.test_job_driver import Doubling, a_job, results
from tests.waiting import until


@pytest.fixture(scope="module")
def started_parts() -> Iterator[Parts]:
    made = Parts()
    yield made
    made.close()


@pytest.fixture
def parts(started_parts: Parts) -> Parts:
    """A scheduler and two nodes, whatever the test before killed."""
    started_parts.mend()
    return started_parts


def run(
    folder: Path,
    rows: list[str],
    address: str,
    say: Say = silent,
    *,
    gate: bool = False,
) -> None:
    plan, tasks = a_job(folder, rows)
    work = Doubling(folder, plan.digest, folder.with_name("gate") if gate else None)
    make_missing(folder, plan, tasks, work, Cluster(address=address), say=say)


def when_a_shard_is_there(job: Path, do: Callable[[Any], None], what: Any) -> threading.Thread:
    """Do something to a part once the first of a job's shards is made, and let the others be."""

    def watch() -> None:
        until(lambda: any(job.rglob("*.safetensors")))
        do(what)
        job.with_name("gate").touch()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_errors_of_the_work_come_back_as_they_are(tmp_path: Path, parts: Parts) -> None:
    with pytest.raises(DataError, match=r"row.png: is not an input"):
        run(tmp_path / "job", ["1", "refused", "3"], parts.address)
    with pytest.raises(WorkError, match=r"1 of 1 shards could not be made, .*the share is away"):
        run(tmp_path / "other", ["1", "disk", "3"], parts.address)


def test_a_scheduler_without_a_worker_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 0.1)
    parts = Parts(0)
    try:
        with pytest.raises(WorkError, match=r"tcp://127\.0\.0\.1:\d+ has no worker; start some"):
            run(tmp_path / "job", ["1"], parts.address)
    finally:
        parts.close()


def test_a_machine_that_is_gone_costs_no_row(tmp_path: Path, parts: Parts) -> None:
    rows = [str(i) for i in range(64)]
    said: list[str] = []
    node = parts.nodes[0]
    killer = when_a_shard_is_there(tmp_path / "job", parts.kill, node)
    run(tmp_path / "job", rows, parts.address, said.append, gate=True)
    killer.join(600)
    assert not killer.is_alive()  # the job ended before its first shard
    assert node.poll() == -signal.SIGKILL
    assert results(tmp_path / "job") == ([2 * i for i in range(64)], {})
    assert said == []  # a machine that is gone is not a fault of a row


def test_a_scheduler_that_is_gone_is_one_line_and_it_goes_on(tmp_path: Path, parts: Parts) -> None:
    rows = [str(i) for i in range(64)]
    killer = when_a_shard_is_there(tmp_path / "job", parts.kill, parts.scheduler)
    with pytest.raises(WorkError, match=r"the scheduler at \S+ is gone; what is done is kept"):
        run(tmp_path / "job", rows, parts.address, gate=True)
    killer.join(600)
    assert not killer.is_alive()  # the job ended before its first shard
    parts.mend()
    run(tmp_path / "job", rows, parts.address)
    assert results(tmp_path / "job") == ([2 * i for i in range(64)], {})


def test_a_scheduler_that_does_not_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "START_S", 0.5)
    with pytest.raises(WorkError, match=r"the scheduler at tcp://127.0.0.1:9 does not answer"):
        run(tmp_path / "job", ["1"], "tcp://127.0.0.1:9")


@pytest.mark.parametrize("address", ["nonsense://127.0.0.1:9", "tcp://127.0.0.1:port"])
def test_an_address_that_is_none_is_one_line(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match=r"--address \S+: cannot be used"):
        run(tmp_path / "job", ["1"], address)


def test_workers_of_another_version_or_without_the_files_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "manifest.csv")
    check_worker(version("cxrtext"), [str(tmp_path)])
    with pytest.raises(ConfigError, match=r"has cxrtext \S+, but this machine has 0.0.9; install"):
        check_worker("0.0.9", [])
    with pytest.raises(DataError, match=r"does not see \S+manifest.csv; put it on storage"):
        check_worker(version("cxrtext"), [path])
