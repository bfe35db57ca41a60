"""A cluster of Dask's: each of its workers has one task a thread.

A worker of Dask's does no task itself.  It hands it to a process of its own beside it
(:class:`~cxrtext.jobs.engines.local.LocalEngine`), so that an image that crashes or hangs its
process ends no worker: that is an outcome (``lost``), which the driver looks into.  A worker that
is gone all the same, with its machine, is no fault of the work: Dask gives the task to another.

What is sent between the machines is pickled: whoever reaches a port of the cluster can run
programs there.  Dask's own settings (``DASK_DISTRIBUTED__COMM__TLS__…``) say which certificates a
``tls://`` address is used with.
"""

import logging
import math
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError, CxrTextError, DataError, WorkError
from cxrtext.files.storage import EXTRA
from cxrtext.jobs.engines.engine import Outcome, Task, Work
from cxrtext.jobs.engines.local import LocalEngine

if TYPE_CHECKING:
    from distributed import Client, Future

START_S = 60.0  # for a scheduler to answer
JOIN_S = 60.0  # for a first worker to join it
PATIENCE_S = 600.0  # how long a cluster may be without a worker while there is work
GRACE_S = 120.0  # beyond a task's own limit, for its outcome to arrive
REFRESH_S = 5.0  # how often the workers are counted
IDLE_S = 300.0  # after which a process that waits beside a worker, with its model, is ended
TIMES = 3  # how often a task is given to the cluster again that has lost its workers

_SETTINGS = {
    # A machine that is gone without a word: Dask else takes it for alive for five minutes.
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.admin.large-graph-warning-threshold": "1 GiB",
}

_LOG = logging.getLogger("distributed")

# --- on the workers


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Work that only the process beside a worker unpacks: it imports far more than a worker."""

    pickled: bytes

    def __call__(self, task: Task) -> None:
        _unpacked(self.pickled)(task)


@lru_cache(maxsize=1)
def _unpacked(pickled: bytes) -> Work:
    work: Work = pickle.loads(pickled)  # noqa: S301 - from the driver
    return work


class _Beside:
    def __init__(self, pickled: bytes) -> None:
        self.pickled = pickled
        # Dask starts its workers as processes that may have no children; those of ours end with
        # the worker by themselves (`end_with_parent`).
        multiprocessing.current_process().daemon = False
        # Dask has the memory of each image given back to the kernel: a third of the time.
        os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)
        self.engine = LocalEngine(_Sealed(pickled), 1)
        self.since = math.inf  # when it began to wait

    def run(self, task: Task) -> Outcome:
        """Do a task; ends at its limit at the latest."""
        self.engine.submit(task)
        while (outcome := self.engine.next(1.0)) is None:
            pass
        return outcome

    def stop(self) -> None:
        for pid in self.engine.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class _Processes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Beside] = []
        self._busy: list[_Beside] = []

    def run(self, pickled: bytes, task: Task) -> Outcome:
        """Do a task in a process that has done others of the job, or in a new one."""
        with self._lock:
            beside = next((each for each in self._waiting if each.pickled == pickled), None)
            if beside is not None:
                self._waiting.remove(beside)
            else:
                self._close(self._waiting)  # of other jobs
                beside = _Beside(pickled)
            self._busy.append(beside)
        try:
            return beside.run(task)
        finally:
            with self._lock:
                self._busy.remove(beside)
                self._waiting.append(beside)
                beside.since = time.monotonic()
            # Where the driver was killed, nobody says that the job is over.
            timer = threading.Timer(IDLE_S, self._close_idle)
            timer.daemon = True
            timer.start()

    def _close(self, some: Sequence[_Beside]) -> None:
        for beside in list(some):
            self._waiting.remove(beside)
            beside.engine.close()

    def _close_idle(self) -> None:
        with self._lock:
            now = time.monotonic()
            self._close([each for each in self._waiting if now - each.since >= IDLE_S])

    def stop(self, pickled: bytes) -> None:
        with self._lock:
            for beside in self._busy:
                if beside.pickled == pickled:
                    beside.stop()
            self._close([each for each in self._waiting if each.pickled == pickled])


_processes = _Processes()


def _run(pickled: bytes, task: Task) -> tuple[CxrTextError | None, str | None]:
    outcome = _processes.run(pickled, task)
    return outcome.error, outcome.lost


def _stop(pickled: bytes) -> None:
    _processes.stop(pickled)


@dataclass(frozen=True, slots=True)
class _Seen:
    versions: dict[str, str]
    sizes: dict[str, int | None]  # bytes of files, None of one that is not there


def _look(paths: Sequence[str]) -> _Seen:
    import platform

    python = ".".join(platform.python_version_tuple()[:2])
    versions = {name: version(name) for name in ("cxrtext", "distributed")} | {"Python": python}
    sizes: dict[str, int | None] = {}
    for path in paths:
        try:
            sizes[path] = 0 if Path(path).is_dir() else Path(path).stat().st_size
        except OSError:
            sizes[path] = None
    return _Seen(versions, sizes)


# --- at the driver


def _compare(ours: _Seen, seen: "Mapping[str, _Seen | BaseException]") -> set[str]:
    """Refuse workers that have other versions or files; gives the names of those that are fit."""
    fit = set()
    for name, theirs in seen.items():
        if isinstance(theirs, ImportError):
            raise ConfigError(
                f"Dask: worker {name} lacks {theirs.name}; install the same cxrtext with "
                "the same extras on every machine"
            )
        if isinstance(theirs, BaseException):  # it is gone again
            continue
        for what, ours_is in ours.versions.items():
            if theirs.versions[what] != ours_is:
                raise ConfigError(
                    f"Dask: worker {name} has {what} {theirs.versions[what]}, and this "
                    f"machine {ours_is}; install the same versions everywhere"
                )
        for path, size in ours.sizes.items():
            if theirs.sizes[path] != size:
                state = "does not see" if theirs.sizes[path] is None else "sees another file as"
                raise DataError(
                    f"Dask: worker {name} {state} {path}; put it on storage that all "
                    "machines mount at the same place"
                )
        fit.add(name)
    return fit


class DaskEngine:
    """Runs tasks on a cluster of Dask's; with ``gpu`` on workers with ``--resources GPU=1``."""

    def __init__(
        self, work: Work, address: str, *, gpu: bool = False, shared: Sequence[Path] = ()
    ) -> None:
        try:
            import dask
            import distributed  # noqa: F401 - without it, Dask has no cluster
        except ImportError:
            raise ConfigError(f"--address: Dask is not installed; run {EXTRA}") from None
        self._pickled = pickle.dumps(work)
        self._gpu = gpu
        self._shared = [str(path.resolve()) for path in shared]
        self._known: set[str] = set()  # workers that were looked at
        self._waiting: deque[Task] = deque()
        self._tasks: dict[str, _Given] = {}  # by key
        self._ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._looked = self._alive = -math.inf
        self._slots = 0
        self._address = address
        self._log_level = _LOG.level
        _LOG.setLevel(logging.CRITICAL)  # its lines quote tasks
        try:
            with dask.config.set(_SETTINGS):
                self._client = self._connect()
            self._await_workers()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> "Client":
        from distributed import Client

        connect = partial(Client, self._address, timeout=START_S, set_as_default=False)
        try:
            try:
                return connect()
            # Of Dask's own: on a busy machine two words of the scheduler's greeting come as one, or
            # its thread does not begin within ten seconds.
            except AssertionError:
                return connect()
        except (OSError, TimeoutError, AssertionError) as error:
            raise WorkError(
                f"Dask: the scheduler at {self._address} does not answer within "
                f"{START_S:g} s ({type(error).__name__}); check the address, and that 'dask "
                "scheduler' runs there"
            ) from None
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"--address {self._address}: cannot be used ({error}); write "
                "tcp://HOST:8786, or tls://HOST:8786 with Dask's settings for certificates"
            ) from None

    def _await_workers(self) -> None:
        until = time.monotonic() + JOIN_S
        self._count_workers()
        while not self._slots:
            if time.monotonic() > until:
                what = "worker that offers a GPU (--resources GPU=1)" if self._gpu else "worker"
                raise WorkError(
                    f"Dask: no {what} joined {self._address} within {JOIN_S:g} s; start "
                    f"some: dask worker {self._address} --nworkers 8 --nthreads 1"
                )
            time.sleep(0.2)
            self._count_workers()

    def _count_workers(self) -> None:
        self._looked = time.monotonic()
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError):
            raise self._gone() from None
        if new := [name for name in workers if name not in self._known]:
            seen = self._client.run(_look, self._shared, workers=new, on_error="return")
            self._known |= _compare(_look(self._shared), seen)
        self._slots = sum(
            int(info["resources"].get("GPU", 0)) if self._gpu else info["nthreads"]
            for info in workers.values()
        )
        if self._slots:
            self._alive = self._looked

    def _gone(self) -> WorkError:
        return WorkError(
            f"Dask: the scheduler at {self._address} is gone; what is done is kept: start "
            "it, then run the same command again"
        )

    @property
    def slots(self) -> int:
        return max(1, self._slots)

    def submit(self, task: Task) -> None:
        self._waiting.append(task)
        self._give_out()

    def _give_out(self) -> None:
        # No more than can be worked on: where a worker is gone, Dask counts it against all tasks
        # that it was to have.
        while self._waiting and len(self._tasks) < self._slots:
            self._give(_Given(self._waiting.popleft()))

    def _give(self, given: "_Given") -> None:
        key = f"shard-{given.task.number}-{os.urandom(8).hex()}"
        future = self._client.submit(
            _run,
            self._pickled,
            given.task,
            key=key,
            pure=False,
            resources={"GPU": 1} if self._gpu else None,
        )
        given.future, given.deadline = future, time.monotonic() + given.task.limit_s + GRACE_S
        self._tasks[key] = given
        future.add_done_callback(self._ended.put)

    def next(self, wait_s: float) -> Outcome | None:
        until = time.monotonic() + wait_s
        while True:
            if time.monotonic() - self._looked > REFRESH_S:
                self._watch()
            self._give_out()
            try:
                future = self._ended.get(timeout=max(0.0, min(0.5, until - time.monotonic())))
            except queue.Empty:
                outcome = self._overdue()
            else:
                outcome = self._outcome(future)
            if outcome is not None or time.monotonic() >= until:
                return outcome

    def _watch(self) -> None:
        if self._client.status != "running":
            raise self._gone()
        self._count_workers()
        if time.monotonic() - self._alive > PATIENCE_S:
            raise WorkError(
                f"Dask: {self._address} has had no workers for {PATIENCE_S:g} s; what is "
                "done is kept: start some, then run the same command again"
            )

    def _overdue(self) -> Outcome | None:
        now = time.monotonic()
        for key, given in self._tasks.items():
            if now > given.deadline and self._slots:
                self._forget(key)
                return Outcome(given.task, lost=f"no end within {given.task.limit_s:g} s")
        return None

    def _forget(self, key: str) -> None:
        future = self._tasks.pop(key).future
        if future is not None:
            future.release()

    def _outcome(self, future: "Future[Any]") -> Outcome | None:
        given = self._tasks.get(future.key)
        if given is None:  # was overdue
            return None
        if future.status == "cancelled":
            raise self._gone()
        try:
            error, lost = future.result(timeout=START_S)
        except CxrTextError:
            raise
        except Exception as failure:  # noqa: BLE001 - Dask's own, which quote the task
            self._forget(future.key)
            return self._again(given, type(failure).__name__)
        self._forget(future.key)
        self._give_out()
        return Outcome(given.task, error, lost)

    def _again(self, given: "_Given", kind: str) -> Outcome | None:
        """What is done where Dask has no result: workers that had the task are gone."""
        if kind not in ("KilledWorker", "TimeoutError", "FutureCancelledError", "CommClosedError"):
            return Outcome(given.task, lost=f"worker failed with {kind}")
        given.times += 1
        if given.times > TIMES:
            return Outcome(given.task, lost="its workers are gone each time")
        self._give(given)
        return None

    def close(self) -> None:
        """End what is under way, and a cluster of this machine."""
        self._waiting.clear()
        client = getattr(self, "_client", None)
        if client is not None:
            with suppress(Exception):
                client.cancel([given.future for given in self._tasks.values()], force=True)
            with suppress(Exception):
                if client.status == "running":
                    client.run(_stop, self._pickled, on_error="ignore")
            with suppress(Exception):
                client.close(timeout=2)
        self._tasks.clear()
        _LOG.setLevel(self._log_level)


@dataclass(slots=True)
class _Given:
    task: Task
    times: int = 0  # it was given again
    future: "Future[Any] | None" = None
    deadline: float = 0.0
