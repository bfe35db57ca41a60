"""The processes that train one model: several, started by ``torchrun``, or just this one."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from cxrtext.errors import ConfigError, WorkError

T = TypeVar("T")
HELD_S = 20.0
"""How long a process that lost another one waits before it ends, if torchrun may restart it.  The
dead process counts as present until it misses three heartbeats, five seconds apart; restarted
earlier, torchrun's agent would wait for it in vain and end."""
TIMEOUT = timedelta(days=2)
"""How long a process waits for the others: one may be decoding an archive.  A failed process is
noticed within a second in another way (:class:`_Alarm`)."""


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's rank among all, from 0, and how many there are."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def any(self, condition: bool) -> bool:
        """Whether a condition holds in any process; all must call it.  Waits for no device."""
        if self.world == 1:
            return condition
        flag = torch.tensor(int(condition))
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their ranks; all must call it."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def average(self, gradients: list[Tensor]) -> None:
        """Replace tensors by their mean over the processes."""
        if self.world == 1:
            return
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient.div_(self.world)

    def in_turn(self, work: Callable[[], T]) -> T:
        """Let the first process work, then the others, who find what it leaves in a folder."""
        if not self.first:
            dist.barrier()
        result = work()
        if self.first and self.world > 1:
            dist.barrier()
        return result


class _Alarm:
    """Ends this process when another has failed, even while it waits inside a collective."""

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
        """Report that this process failed; True if it is the first to report."""
        self._quiet.set()
        try:
            return bool(self._store.add("failed", 1) == 1)
        except (RuntimeError, OSError):
            return False

    def stop(self) -> None:
        self._quiet.set()
        self._thread.join()


def started_by_torchrun() -> bool:
    """Whether torchrun started this as one of several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def connected(device: torch.device) -> Iterator[Processes]:
    """Join the other processes that torchrun started, if any.

    The first process that fails says why; the others end silently.  CPU tensors go by gloo, CUDA
    tensors by NCCL.
    """
    if not started_by_torchrun():
        yield Processes()
        return
    store, rank, world = next(iter(rendezvous("env://", timeout=TIMEOUT)))
    on_gpu = device.type == "cuda"
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=TIMEOUT,
        device_id=device if on_gpu else None,
    )
    alarm = _Alarm(PrefixStore("cxrtext", store))
    try:
        yield Processes(rank, world)
        dist.barrier()
        alarm.stop()
        dist.destroy_process_group()
    except KeyboardInterrupt:  # all stop at the same step
        alarm.stop()
        raise
    except BaseException as error:
        lost = _is_lost(error)
        if lost and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")):
            time.sleep(HELD_S)
        if not alarm.raise_once():
            raise SystemExit(getattr(error, "exit_code", 1)) from None
        if lost:
            raise WorkError(
                "lost the connection to another process: it was killed, or its machine is gone; "
                "what was done since the last saved state is lost; resume with --resume"
            ) from None
        raise


def _is_lost(error: BaseException) -> bool:
    """Whether a collective failed because another process is gone."""
    # gloo has no exception class of its own.
    gloo = isinstance(error, RuntimeError) and "gloo" in str(error).lower()
    return gloo or isinstance(error, dist.DistError)


def local_device(name: str) -> str:
    """The device of this process: each process of a machine has its own GPU."""
    if not started_by_torchrun():
        return name
    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    if name.startswith("cuda:") and here > 1:
        raise ConfigError(
            f"training.device: '{name}' is one GPU, and torchrun started {here} processes on this "
            "machine; give cuda, so that each takes its own"
        )
    if name not in ("auto", "cuda"):
        return name
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto" and not torch.cuda.is_available():
        return "cpu"
    if rank >= torch.cuda.device_count():
        raise WorkError(
            f"torchrun started process {rank} of this machine, which has "
            f"{torch.cuda.device_count()} GPUs; start one process per GPU (--nproc-per-node)"
        )
    return f"cuda:{rank}"


class _Sum(torch.autograd.Function):
    """The sum of all processes' tensors; its gradient is the sum of their gradients."""

    @staticmethod
    def forward(_context: Any, own: Tensor) -> Tensor:
        total = own.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        return summed(gradients[0])


def summed(own: Tensor) -> Tensor:
    """The sum of a tensor over all processes, with its gradient."""
    total: Tensor = _Sum.apply(own)  # type: ignore[no-untyped-call]
    return total


# The gradient of gathered tensors depends on what each process does with its copy; the wrong choice
# is off by a factor of the number of processes.  So there is a function for each of the two cases.


def gather_shared(own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
    """The rows of all processes, if each process computes something else from them.

    A row's gradient is the sum over all processes.  ``own`` is [sizes[rank], K]; the result is
    [Σ sizes, K], in the order of ranks.
    """
    start = sum(sizes[:rank])
    return summed(F.pad(own, (0, 0, start, sum(sizes) - start - len(own))))


def gather_same(own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
    """The rows of all processes, if every process computes the same from them.

    Each process then has the whole gradient and keeps the part of its own rows; nothing is summed.
    Shapes as in :func:`gather_shared`.
    """
    start = sum(sizes[:rank])
    everyone = gather_shared(own.detach(), sizes, rank)
    return torch.cat([everyone[:start], own, everyone[start + len(own) :]])


class SyncedBatchNorm(_BatchNorm):
    """A batch norm, [B, C, ...], with batch statistics over all processes.

    For the CPU, where torch's ``SyncBatchNorm`` does not run: without it, each process would
    normalize only its part of a batch, unlike a single process.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            normalized: Tensor = super().forward(input)
            return normalized
        x = input.float()
        axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
        local = torch.cat([x.sum(axes), x.new_tensor([x.numel() / x.shape[1]])])
        totals = summed(local)
        count = totals[-1].detach()
        mean = totals[:-1] / count
        centered = x - mean.view(shape)
        # First the mean, then squares around it: E[x²] − E[x]² loses digits.
        variance = summed(centered.square().sum(axes)) / count
        self._learn(mean.detach(), variance.detach(), count)
        y = centered * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(input.dtype)

    @torch.no_grad()
    def _learn(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = 0.1 if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * (count / (count - 1)), momentum)


def synchronize(module: nn.Module) -> None:
    """Replace the batch norms inside a module; parameters, buffers and their names stay."""
    if any(parameter.is_cuda for parameter in module.parameters()):
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            own = child.num_features, child.eps, child.momentum, child.affine, True
            synced = SyncedBatchNorm(*own)
            synced.weight, synced.bias = child.weight, child.bias
            synced.running_mean, synced.running_var = child.running_mean, child.running_var
            synced.num_batches_tracked = child.num_batches_tracked
            synced.train(child.training)
            setattr(module, name, synced)
        else:
            synchronize(child)
