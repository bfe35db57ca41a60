"""The processes that make shards: Dask's, of this machine or of a cluster.

A process works on one shard at a time.  Where one dies, Dask gives its shard to another, and where
that dies, too, the shard is lost (:class:`Outcome`) and the others go on.  An exception of the work
comes back as an outcome, never as Dask's own: Dask logs exceptions, and these may quote a report.

What is sent is pickled: whoever reaches a port of a cluster can run programs there.  The cluster of
this machine therefore speaks TLS with a key of its own, and Dask's settings
(``DASK_DISTRIBUTED__COMM__TLS__…``) say which certificates another one's ``tls://`` address wants.
"""

import logging
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version_tuple
from typing import TYPE_CHECKING, Any, Protocol

from cxrtext.errors import ConfigError, CxrTextError, DataError, WorkError
from cxrtext.images.sandbox_worker import cores

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

TRIES = 3  # how often a task is done whose disk or network fails
START_S = 60.0  # for a scheduler to answer
PATIENCE_S = 600.0  # how long a cluster may be without a worker while there is work
REFRESH_S = 5.0  # how often the workers are counted
WAIT_S = 1.0

_SETTINGS = {
    # A machine that is gone without a word: Dask else takes it for alive for five minutes.
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.scheduler.allowed-failures": 1,
    "distributed.comm.timeouts.connect": "60s",
    "distributed.admin.large-graph-warning-threshold": "1 GiB",
}


@dataclass(frozen=True, slots=True)
class Task:
    number: int  # of the shard, from 0
    rows: tuple[Any, ...]  # what the work needs of each row
    limit_s: float = 3600.0  # seconds on the clock after which its process is ended


Do = Callable[[Task], None]
"""Makes a shard and commits it: the same bytes whenever and wherever it runs."""


class Work(Protocol):
    """What a process is given once; pickled."""

    def open(self) -> AbstractContextManager[Do]:
        """Load what makes every shard, such as a model."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task: done where neither is set."""

    number: int
    error: CxrTextError | None = None  # what the work raised
    lost: str | None = None  # what else ended it


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    device: str = "cpu"
    workers: int | None = None  # processes of this machine; None: one a core, or one a GPU
    address: str | None = None  # of a Dask scheduler; None: this machine

    @property
    def gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def worker_device(self) -> str:
        """Of a worker, which sees its own GPU alone."""
        return "cuda" if self.gpu else self.device

    def here(self) -> int:
        """How many processes work on this machine."""
        return self.workers or (len(_gpus(self.device)) if self.gpu else cores())


# --- at a worker


def attempt(do: Do, task: Task) -> Outcome:
    """Do a task where it is to be done."""
    for tries_left in reversed(range(TRIES)):
        try:
            do(task)
        except WorkError as error:
            if tries_left:
                continue
            return Outcome(task.number, error)
        except CxrTextError as error:
            return Outcome(task.number, error)
        except Exception as error:  # noqa: BLE001 - whatever an image or a device brings about
            return Outcome(task.number, lost=type(error).__name__)
        break
    return Outcome(task.number)


_one_at_a_time = threading.Lock()
_opened: tuple[bytes, Do] | None = None
_ends = ExitStack()


def _run(pickled: bytes, task: Task, here: "_Seen", gpus: Sequence[str]) -> Outcome:
    if gpus:  # before a library of CUDA's looks
        from distributed import get_worker

        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(get_worker().name) % len(gpus)]
    # Dask has the memory of each image given back to the kernel: a third of the time.
    os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)

    def do(task: Task) -> None:
        global _opened
        if _opened is None or _opened[0] != pickled:
            _close()
            _compare(here)
            work: Work = pickle.loads(pickled)  # noqa: S301 - from the driver
            _opened = pickled, _ends.enter_context(work.open())
        _opened[1](task)

    with _one_at_a_time:
        # Nothing ends a thread that hangs but the end of its process.
        watch = threading.Timer(task.limit_s, os._exit, [1])
        watch.daemon = True
        watch.start()
        try:
            return attempt(do, task)
        finally:
            watch.cancel()


def _close() -> None:
    global _opened
    _opened = None
    _ends.close()


def _release(pickled: bytes) -> None:
    """Give back the memory of a job that is over, but not while a shard of it is being made."""
    if _opened and _opened[0] == pickled and _one_at_a_time.acquire(blocking=False):
        try:
            _close()
        finally:
            _one_at_a_time.release()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What every machine must have alike."""

    versions: Mapping[str, str]
    sizes: Mapping[str, int | None]  # bytes of files, None of one that is not there

    @classmethod
    def of(cls, paths: Iterable[str]) -> "_Seen":
        sizes: dict[str, int | None] = dict.fromkeys(paths)
        for path in sizes:
            with suppress(OSError):
                sizes[path] = 0 if Path(path).is_dir() else Path(path).stat().st_size
        python = ".".join(python_version_tuple()[:2])
        return cls({"cxrtext": version("cxrtext"), "Python": python}, sizes)


def _compare(theirs: _Seen) -> None:
    ours, name = _Seen.of(theirs.sizes), os.uname().nodename
    for what, expected in theirs.versions.items():
        if ours.versions[what] != expected:
            raise ConfigError(
                f"Dask: the worker on {name} has {what} {ours.versions[what]}, and this machine "
                f"{expected}; install the same versions everywhere"
            )
    for path, size in theirs.sizes.items():
        if ours.sizes[path] != size:
            state = "does not see" if ours.sizes[path] is None else "sees another file as"
            raise DataError(
                f"Dask: the worker on {name} {state} {path}; put it on storage that all machines "
                "mount at the same place"
            )


# --- at the driver


def outcomes(
    work: Work, tasks: Iterable[Task], cluster: Cluster, shards: int, shared: Sequence[Path] = ()
) -> Generator[Outcome | None, None, None]:
    """The outcome of each task, in any order, and None at least every second.

    Args:
        tasks: Taken when there is a process for the next.
        shards: Most tasks that there will be.
        shared: Files that all machines must see.
    """
    pickled, here = pickle.dumps(work), _Seen.of(str(path.resolve()) for path in shared)
    gpus = _gpus(cluster.device) if cluster.gpu and not cluster.address else []
    ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
    under_way: dict[str, tuple[Future[Any], int]] = {}
    tasks = iter(tasks)
    with _connected(cluster, shards) as client:
        workers = _Workers(client, cluster)
        task = next(tasks, None)
        try:
            while task is not None or under_way:
                # No more than can be worked on: Dask counts a dead worker against all its tasks.
                while task is not None and len(under_way) < workers.count():
                    future = client.submit(
                        _run,
                        *(pickled, task, here, gpus),
                        key=f"shard-{task.number}-{os.urandom(8).hex()}",
                        pure=False,
                        resources={"GPU": 1} if cluster.gpu and cluster.address else None,
                    )
                    under_way[future.key] = future, task.number
                    future.add_done_callback(ended.put)
                    task = next(tasks, None)
                try:
                    key = ended.get(timeout=WAIT_S).key
                except queue.Empty:
                    workers.count()  # raises where they are gone
                    yield None
                else:
                    yield _outcome(*under_way.pop(key), cluster)
        finally:
            if cluster.address and client.status == "running":
                client.run(_release, pickled, on_error="ignore")


def _outcome(future: "Future[Any]", number: int, cluster: Cluster) -> Outcome:
    if future.status == "cancelled":
        raise _gone(cluster)
    try:
        outcome: Outcome = future.result(timeout=START_S)
    except ImportError as error:
        raise ConfigError(
            f"Dask: a worker lacks {error.name}; install the same cxrtext with the same extras on "
            "every machine"
        ) from None
    except Exception as error:  # noqa: BLE001 - Dask's own, which quote the task
        name = type(error).__name__
        return Outcome(number, lost="it died each time" if name == "KilledWorker" else name)
    return outcome


def _gone(cluster: Cluster) -> WorkError:
    return WorkError(
        f"Dask: the scheduler at {cluster.address} is gone; what is done is kept: start it, then "
        "run the same command again"
    )


class _Workers:
    """How many processes work; those of a cluster come and go."""

    def __init__(self, client: "Client", cluster: Cluster) -> None:
        self._client, self._cluster = client, cluster
        self._count, self._looked, self._alive = 0, float("-inf"), time.monotonic()

    def count(self) -> int:
        now = time.monotonic()
        if now - self._looked < (REFRESH_S if self._count else WAIT_S):
            return self._count
        gpu = self._cluster.gpu and self._cluster.address
        try:
            if self._client.status != "running":
                raise OSError
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except (OSError, TimeoutError):
            raise _gone(self._cluster) from None
        self._count = sum(int(one["resources"].get("GPU", 0)) if gpu else 1 for one in workers)
        self._looked = now
        if self._count:
            self._alive = now
        elif now - self._alive > PATIENCE_S:
            what = "worker that offers a GPU (--resources GPU=1)" if gpu else "worker"
            raise WorkError(
                f"Dask: {self._cluster.address} has had no {what} for {PATIENCE_S:g} s; what is "
                f"done is kept: start some (dask worker {self._cluster.address} --nworkers 8 "
                "--nthreads 1), then run the same command again"
            )
        return self._count


@contextmanager
def _connected(cluster: Cluster, shards: int) -> "Iterator[Client]":
    import dask
    import distributed  # noqa: F401 - else its own settings end with those below

    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)  # its lines quote tasks
    with ExitStack() as ends:
        ends.callback(log.setLevel, level)
        ends.enter_context(dask.config.set(_SETTINGS))
        if cluster.address is None:
            local = _local(min(cluster.here(), shards))
            ends.callback(_end, local)
            client = local.get_client()
        else:
            client = _client(cluster.address)
        ends.callback(client.close, timeout=2)
        yield client


def _local(workers: int) -> "LocalCluster":
    from distributed import LocalCluster

    for tries_left in reversed(range(TRIES)):
        try:
            return LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                security=True,
                dashboard_address=None,
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError:  # one of its processes died before it had begun
            if not tries_left:
                raise WorkError(
                    f"{workers} processes cannot be started here; take fewer --workers"
                ) from None
    raise AssertionError


def _end(local: "LocalCluster") -> None:
    """End the processes, also those that still work: Dask would wait for these."""
    for nanny in local.workers.values():
        nanny.auto_restart = False
        with suppress(ProcessLookupError):
            os.kill(nanny.pid, signal.SIGKILL)
    local.close()


def _client(address: str) -> "Client":
    from distributed import Client

    try:
        try:
            return Client(address, timeout=START_S, set_as_default=False)
        # Of Dask's own: on a busy machine two words of the scheduler's greeting come as one.
        except AssertionError:
            return Client(address, timeout=START_S, set_as_default=False)
    except (OSError, TimeoutError, AssertionError) as error:
        raise WorkError(
            f"Dask: the scheduler at {address} does not answer within {START_S:g} s "
            f"({type(error).__name__}); check the address, and that 'dask scheduler' runs there"
        ) from None
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"--address {address}: cannot be used ({error}); write tcp://HOST:8786, or "
            "tls://HOST:8786 with Dask's settings for certificates"
        ) from None


def _gpus(device: str) -> list[str]:
    """The GPUs that work on this machine, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(
        map(str, range(torch.cuda.device_count()))
    )
    names = seen.split(",")
    _, _, number = device.partition(":")
    return [names[int(number)]] if number else names
