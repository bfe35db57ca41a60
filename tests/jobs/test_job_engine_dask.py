"""The engine on Dask: a cluster whose parts are killed."""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.files.storage import Storage, open_storage
from cxrtext.jobs.driver import Running, drive
from cxrtext.jobs.engines import dask
from cxrtext.jobs.engines.dask import DaskEngine
from cxrtext.jobs.status import job_status
from tests.jobs.dask_parts import Parts
from tests.jobs.test_job_driver import Doubling, a_job, results
from tests.waiting import until

distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")


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
    running: Running | None = None,
    *,
    gate: bool = False,
    gpu: bool = False,
) -> Storage:
    storage, plan, tasks = a_job(folder, rows)
    work = Doubling(storage.location, plan.digest, folder.with_name("gate") if gate else None)
    drive(storage, plan, tasks, lambda: DaskEngine(work, address=address, gpu=gpu), running)
    return storage


def when_a_shard_is_there(job: Path, do: Callable[[Any], None], what: Any) -> threading.Thread:
    """Do something to a part once the first of a job's shards is made, and let the others be."""

    def watch() -> None:
        until(lambda: any(job.rglob("*.safetensors")))
        do(what)
        job.with_name("gate").touch()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_rows_that_end_a_process_cost_no_other_shard_or_node(tmp_path: Path, parts: Parts) -> None:
    rows = [str(i) for i in range(24)]
    rows[3], rows[14] = "segfault", "memory"
    said: list[str] = []
    with pytest.raises(WorkError, match="2 of 3 shards could not be made, the first 0: its worker"):
        run(tmp_path / "job", rows, parts.address, Running(say=said.append))
    failed = job_status(open_storage(tmp_path / "job")).failures
    assert ["SIGSEGV" in failed[0], "MemoryError" in failed[1]] == [True, True]
    assert not any("quote a report" in line for line in [*said, *failed.values()])
    assert [node.poll() for node in parts.nodes] == [None] * len(parts.nodes)


def test_errors_of_the_work_come_back_as_they_are(tmp_path: Path, parts: Parts) -> None:
    with pytest.raises(DataError, match=r"row.png: is no input"):
        run(tmp_path / "job", ["1", "refused", "3"], parts.address)
    with pytest.raises(WorkError, match=r"1 of 1 shards could not be made, .*the disk is full"):
        run(tmp_path / "other", ["1", "disk", "3"], parts.address)


def test_without_workers_that_have_a_gpu_it_says_so(
    tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "JOIN_S", 0.0)
    with pytest.raises(
        WorkError, match=r"no worker that offers a GPU .* joined tcp://127\.0\.0\.1"
    ):
        run(tmp_path / "job", ["1"], parts.address, gpu=True)


def test_a_machine_that_is_gone_costs_no_row(tmp_path: Path, parts: Parts) -> None:
    rows = [str(i) for i in range(64)]
    said: list[str] = []
    node = parts.nodes[0]
    killer = when_a_shard_is_there(tmp_path / "job", parts.kill, node)
    storage = run(tmp_path / "job", rows, parts.address, Running(say=said.append), gate=True)
    killer.join(600)
    assert not killer.is_alive()  # the job ended before its first shard
    assert node.poll() == -signal.SIGKILL
    assert results(storage) == ([2 * i for i in range(64)], {})
    assert said == []  # a machine that is gone is no fault of a row


def test_a_scheduler_that_is_gone_is_one_line_and_it_goes_on(tmp_path: Path, parts: Parts) -> None:
    rows = [str(i) for i in range(64)]
    killer = when_a_shard_is_there(tmp_path / "job", parts.kill, parts.scheduler)
    with pytest.raises(WorkError, match=r"the scheduler at \S+ is gone; what is done is kept"):
        run(tmp_path / "job", rows, parts.address, gate=True)
    killer.join(600)
    assert not killer.is_alive()  # the job ended before its first shard
    parts.mend()
    storage = run(tmp_path / "job", rows, parts.address)
    assert results(storage) == ([2 * i for i in range(64)], {})


def test_a_scheduler_that_does_not_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "START_S", 0.5)
    with pytest.raises(WorkError, match=r"the scheduler at tcp://127.0.0.1:9 does not answer"):
        run(tmp_path / "job", ["1"], "tcp://127.0.0.1:9")


def test_nothing_is_left_where_the_client_cannot_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a setting of Dask's, nor the level of its log."""
    log = logging.getLogger("distributed")

    def refused(*_: Any, **__: Any) -> None:
        raise OSError

    monkeypatch.setattr(distributed, "Client", refused)
    before = log.level, dict(distributed.config)
    with pytest.raises(WorkError, match="does not answer"):
        DaskEngine(Doubling(str(tmp_path), "job"), "tcp://127.0.0.1:9")
    assert (log.level, dict(distributed.config)) == before


@pytest.mark.parametrize("address", ["nonsense://127.0.0.1:9", "tcp://127.0.0.1:port"])
def test_an_address_that_is_none_is_one_line(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match=r"--address \S+: cannot be used"):
        run(tmp_path / "job", ["1"], address)


def test_it_says_which_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ConfigError, match=r"Dask is not installed; run pip install 'cxrtext\[clu"):
        run(tmp_path / "job", ["1"], "tcp://127.0.0.1:9")


def test_workers_with_other_versions_or_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.csv").write_text("image")
    ours = dask._look([str(tmp_path), str(tmp_path / "manifest.csv")])
    assert dask._compare(ours, {"tcp://n1:1": ours, "tcp://n2:1": OSError()}) == {"tcp://n1:1"}
    older = dask._Seen({**ours.versions, "cxrtext": "0.0.9"}, ours.sizes)
    with pytest.raises(ConfigError, match=r"worker tcp://n1:1 has cxrtext 0\.0\.9, and this machi"):
        dask._compare(ours, {"tcp://n1:1": older})
    with pytest.raises(ConfigError, match=r"worker tcp://n1:1 lacks cxrtext; install"):
        dask._compare(ours, {"tcp://n1:1": ModuleNotFoundError(name="cxrtext")})
    path = str(tmp_path / "manifest.csv")
    for size, says in ((None, "does not see"), (3, "sees another file as")):
        theirs = dask._Seen(ours.versions, {**ours.sizes, path: size})
        with pytest.raises(DataError, match=rf"worker tcp://n1:1 {says} \S+manifest.csv; put it"):
            dask._compare(ours, {"tcp://n1:1": theirs})
