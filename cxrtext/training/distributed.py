"""Several processes that train one model, as ``torchrun`` starts them; or the one that there is."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from cxrtext.errors import CxrTextError, WorkError

T = TypeVar("T")
TIMEOUT = timedelta(days=2)
"""How long a process waits for the others: one may be decoding an archive.  A process that failed
is noticed in another way, within a second (:class:`_Alarm`)."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Which of how many processes this one is.

    Args:
        rank: This process, from 0.
        world: How many there are.
        local_rank: This process among those of its machine.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        """Which part of how many this process has of a batch."""
        return self.rank, self.world

    def any(self, condition: bool, device: torch.device) -> bool:
        """Whether a condition holds in any process; all must ask."""
        if self.world == 1:
            return condition
        flag = torch.tensor(int(condition), device=device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their ranks; all must call it."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def average(self, gradients: list[torch.Tensor]) -> None:
        """Replace tensors by their mean over the processes."""
        if self.world == 1:
            return
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient.div_(self.world)

    def in_turn(self, work: Callable[[], T]) -> T:
        """Let the first process work, then one of every other machine, then the rest.

        What the first leaves in a shared folder is there for the others; where machines have
        folders of their own, one process of each does the work again.
        """
        turn = 0 if self.first else 1 if self.local_rank == 0 else 2
        result: list[T] = []
        for now in range(3 if self.world > 1 else 1):
            if now == turn:
                result.append(work())
            if self.world > 1:
                dist.barrier()
        return result[0]


class _Alarm:
    """Ends this process when another has failed, even where it waits inside a collective."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._quiet = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._quiet.wait(0.5):
            try:
                failed = self._store.check(["failed"])
            except (RuntimeError, OSError):
                failed = True  # the process that keeps the store is gone
            # This process may be ending by itself, with the same error as the other.
            if failed and not self._quiet.wait(3.0):
                os._exit(1)

    def raise_once(self) -> bool:
        """Say that this process failed; whether it is the first to say so."""
        self._quiet.set()
        try:
            return bool(self._store.add("failed", 1) == 1)
        except (RuntimeError, OSError):
            return False

    def stop(self) -> None:
        """All went well."""
        self._quiet.set()
        self._thread.join()


def started_by_torchrun() -> bool:
    """Whether the environment says that this is one of several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def connected(device: torch.device) -> Iterator[Processes]:
    """Join the other processes that torchrun started, or be alone.

    The first process that fails says why; the others end without a word.

    Args:
        device: Where this process computes: gloo on the CPU, NCCL on CUDA.
    """
    if not started_by_torchrun():
        yield Processes()
        return
    store, rank, world = next(iter(rendezvous("env://", timeout=TIMEOUT)))
    on_gpu = device.type == "cuda"
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=TIMEOUT,
        device_id=device if on_gpu else None,
    )
    alarm = _Alarm(PrefixStore("cxrtext", store))
    try:
        yield Processes(rank, world, int(os.environ.get("LOCAL_RANK", rank)))
        dist.barrier()
        alarm.stop()
        dist.destroy_process_group()
    except KeyboardInterrupt:  # all stop at the same step
        alarm.stop()
        raise
    except BaseException as error:
        if alarm.raise_once():
            raise
        raise SystemExit(getattr(error, "exit_code", 1)) from None


def local_device(name: str) -> str:
    """The device of this process: each of a machine's processes has a GPU of its own."""
    if not started_by_torchrun() or name not in ("auto", "cuda"):
        return name
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto" and not torch.cuda.is_available():
        return "cpu"
    if rank >= torch.cuda.device_count():
        raise WorkError(
            f"torchrun started process {rank} of this machine, which has "
            f"{torch.cuda.device_count()} GPUs; start one process a GPU (--nproc-per-node)"
        )
    return f"cuda:{rank}"


def agreed(processes: Processes, value: int, what: str) -> int:
    """A value that must be the same in all processes.

    Raises:
        CxrTextError: It is not.
    """
    values = processes.gather(value)
    if len(set(values)) > 1:
        raise CxrTextError(
            f"the processes do not agree on {what}: {values}; give them the same files and an "
            "'out' folder that all of them see"
        )
    return value
