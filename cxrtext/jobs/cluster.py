"""The processes that make shards: Dask's, on this machine or in a cluster.

A process works on one shard at a time.  If it dies, Dask gives its shard to another.  If these die,
too, the shard is lost (:class:`Outcome`) and the others continue.  Exceptions of the work come back
as outcomes: Dask would log them, and they may quote a report.

Data are sent pickled: whoever reaches a port of a cluster can run programs there.  So the cluster
on this machine uses TLS with its own key, and Dask's settings (``DASK_DISTRIBUTED__COMM__TLS__…``)
name the certificates for another cluster's ``tls://`` address.
"""

import errno
import logging
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cxrtext.errors import ConfigError, CxrTextError, DataError, DiskError, WorkError
from cxrtext.images.sandbox_worker import cores
from cxrtext.jobs.shards import ShardFile

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

TRIES = 3  # to start the processes on this machine, which may be busy
START_S = 60.0  # for a scheduler to answer
PATIENCE_S = 600.0  # for the first worker of a cluster to join


@dataclass(frozen=True, slots=True)
class Task:
    number: int  # of the shard, from 0
    rows: tuple[Any, ...]  # what the work needs for each row


Do = Callable[[Task], ShardFile]
"""Makes a shard and commits it; the bytes are the same whenever and wherever it runs."""


class Work(Protocol):
    """Sent pickled with every task; a process reopens it when it changes."""

    def open(self, device: str) -> AbstractContextManager[Do]:
        """Load what every shard needs, such as a model, onto the device of this process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task; one of the last three is set."""

    number: int
    made: ShardFile | None = None
    error: CxrTextError | None = None  # what the work raised
    lost: str | None = None  # what else ended it


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    device: str = "cpu"
    workers: int | None = None  # processes on this machine; None: one per visible GPU, or per core
    address: str | None = None  # of a Dask scheduler; None: this machine

    def devices(self) -> list[str]:
        """The devices that workers take in turn; each machine of a cluster has its own."""
        if self.address or not self.device.startswith("cuda"):
            return [self.device]
        from cxrtext.device import gpus

        return gpus(self.device) or [self.device]

    def here(self) -> int:
        """How many processes work on this machine."""
        on_gpu = self.device.startswith("cuda")
        return self.workers or (len(self.devices()) if on_gpu else cores())


# --- at a worker


def attempt(do: Do, task: Task) -> Outcome:
    """Do a task in this process."""
    try:
        return Outcome(task.number, do(task))
    except CxrTextError as error:
        return Outcome(task.number, error=error)
    except OSError as error:
        kind = DiskError if error.errno in (errno.ENOSPC, errno.EDQUOT) else WorkError
        why = f"{error.filename}: {error.strerror or error}; check the disk"
        return Outcome(task.number, error=kind(f"{why}, then run the same command again"))
    except Exception as error:  # noqa: BLE001 - an image or a device may cause anything
        return Outcome(task.number, lost=type(error).__name__)


_one_at_a_time = threading.Lock()
_opened: tuple[tuple[Work, str], Do] | None = None
_ends = ExitStack()


def _run(
    work: Work, task: Task, devices: Sequence[str], release: str, shared: Sequence[str]
) -> Outcome:
    # Dask makes malloc return each image's memory to the kernel, which takes a third of the time.
    os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)

    def do(task: Task) -> ShardFile:
        global _opened
        wanted = work, own_device(devices)
        if _opened is None or _opened[0] != wanted:
            _opened = None
            _ends.close()
            check_worker(release, shared)
            _opened = wanted, _ends.enter_context(work.open(wanted[1]))
        return _opened[1](task)

    with _one_at_a_time:
        return attempt(do, task)


def own_device(devices: Sequence[str]) -> str:
    """The device of this process; Dask numbers the processes on this machine."""
    from distributed import get_worker

    return devices[int(get_worker().name) % len(devices)] if len(devices) > 1 else devices[0]


def check_worker(release: str, shared: Sequence[str]) -> None:
    """Refuse a worker with another release, or without access to the files of the job."""
    name = os.uname().nodename
    if (ours := version("cxrtext")) != release:
        raise ConfigError(
            f"Dask: the worker on {name} has cxrtext {ours}, but this machine has {release}; "
            "install the same version everywhere"
        )
    for path in shared:
        if not Path(path).exists():
            raise DataError(
                f"Dask: the worker on {name} does not see {path}; put it on storage that all "
                "machines mount at the same place"
            )


# --- at the driver


def outcomes(
    work: Work, tasks: Iterable[Task], cluster: Cluster, shards: int, shared: Sequence[Path] = ()
) -> Generator[Outcome, None, None]:
    """The outcome of each task, in any order.

    Args:
        tasks: Read one by one, as processes become free.
        shards: The most tasks there can be.
        shared: Files that all machines must see.
    """
    from distributed import as_completed

    release, seen = version("cxrtext"), [str(path.resolve()) for path in shared]
    devices = cluster.devices()
    under_way: dict[str, int] = {}
    tasks = iter(tasks)
    with _connected(cluster, shards) as client:
        futures = as_completed(loop=client.loop)

        def give() -> None:
            # Only as many as can run: Dask counts a dead worker against all its tasks.
            free = max(1, _workers(client, cluster)) - len(under_way)
            for task in islice(tasks, max(0, free)):
                key = f"shard-{task.number}-{os.urandom(8).hex()}"
                given = work, task, devices, release, seen
                future = client.submit(_run, *given, key=key, pure=False)
                under_way[future.key] = task.number
                futures.add(future)

        give()
        for future in futures:
            yield _outcome(future, under_way.pop(future.key), cluster)
            give()


def _workers(client: "Client", cluster: Cluster) -> int:
    """How many processes there are; those of a cluster come and go."""
    try:
        return len(client.nthreads())
    except (OSError, TimeoutError):
        raise _gone(cluster) from None


def _outcome(future: "Future[Any]", number: int, cluster: Cluster) -> Outcome:
    if future.status == "cancelled":
        raise _gone(cluster)
    try:
        outcome: Outcome = future.result(timeout=START_S)
    except ImportError as error:
        raise ConfigError(
            f"Dask: a worker does not have {error.name}; install the same cxrtext with the same "
            "extras on every machine"
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


@contextmanager
def _connected(cluster: Cluster, shards: int) -> "Iterator[Client]":
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)  # its lines quote tasks
    with ExitStack() as ends:
        ends.callback(log.setLevel, level)
        if cluster.address is None:
            local = _local(min(cluster.here(), shards))
            ends.callback(_end, local)
            client = local.get_client()
        else:
            client = _client(cluster.address)
        ends.callback(client.close, timeout=2)
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            raise WorkError(
                f"Dask: {cluster.address} has no worker; start some (dask worker "
                f"{cluster.address} --nworkers 8 --nthreads 1), then run the same command again"
            ) from None
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
                dashboard_address="127.0.0.1:0",  # another cluster may use the usual port
                scheduler_kwargs={"dashboard": False},
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError:  # one of its processes died at the start
            if not tries_left:
                raise WorkError(
                    f"{workers} processes cannot be started here; use fewer --workers"
                ) from None
    raise AssertionError


def _end(local: "LocalCluster") -> None:
    """Kill the processes, as Dask would wait for those that still work."""
    for nanny in local.workers.values():
        nanny.auto_restart = False
        if (pid := nanny.pid) is not None:  # None between two processes
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    local.close()


def _client(address: str) -> "Client":
    from distributed import Client

    try:
        try:
            return Client(address, timeout=START_S, set_as_default=False)
        # Dask's own error: on a busy machine two words of the scheduler's greeting arrive as one.
        except AssertionError:
            return Client(address, timeout=START_S, set_as_default=False)
    except (OSError, TimeoutError, AssertionError) as error:
        raise WorkError(
            f"Dask: the scheduler at {address} does not answer within {START_S:g} s "
            f"({type(error).__name__}); check the address, and that 'dask scheduler' is running "
            "there"
        ) from None
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"--address {address}: cannot be used ({error}); write tcp://HOST:8786, or "
            "tls://HOST:8786 with Dask's settings for certificates"
        ) from None
