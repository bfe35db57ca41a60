"""Process 0 of two under the pretended GPU: collectives that do nothing stand in for the other.

What is shown is that the branches of several GPUs run: DistributedDataParallel, SyncBatchNorm, the
gathers.  The numbers are of no training.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from cxrtext.training.loop import distributed

ENVIRONMENT = {
    "WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
}  # fmt: skip


class _Quiet:
    """Takes any call, and says yes: the alarm of lost processes, and the statistics of DDP."""

    def __init__(self, *_: Any) -> None: ...

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: True


def _along(values: Tensor) -> Tensor:
    return values.view(1, -1, 1, 1)


def _statistics(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    x = x.float()
    return x.mean((0, 2, 3)), (x.var((0, 2, 3), unbiased=False) + eps).rsqrt()


def _gathered(x: Tensor, mean: Tensor, invstd: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return mean[0].clone(), invstd[0].clone()


def _normalized(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, invstd: Tensor, *_: Any
) -> Tensor:
    return ((x.float() - _along(mean)) * _along(invstd * weight) + _along(bias)).to(x.dtype)


def _reduced(
    gradient: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    gradient, centered = gradient.float(), x.float() - _along(mean)
    total, product = gradient.sum((0, 2, 3)), (gradient * centered).sum((0, 2, 3))
    return total, product, product * invstd, total


def _gradient(gradient: Tensor, x: Tensor, *_: Any) -> Tensor:
    return gradient.to(x.dtype)


def _gather(out: Tensor, own: Tensor, group: Any = None, async_op: bool = False) -> None:
    out.view(2, -1).copy_(own.view(1, -1).expand(2, -1))


@contextmanager
def two_gpus() -> Iterator[list[str]]:
    """What trains inside is process 0 of two; gives the backends that it asked for."""
    asked: list[str] = []
    begin, divide = dist.init_process_group, DistributedDataParallel.__init__

    def fake(backend: str, **given: Any) -> None:
        asked.append(backend)
        begin("fake", store=FakeStore(), rank=given["rank"], world_size=given["world_size"])

    def divided(self: Any, *args: Any, **options: Any) -> None:
        divide(self, *args, **options)
        self.logger = _Quiet()

        def hook(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
            future: torch.futures.Future[Tensor] = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        self.register_comm_hook(None, hook)

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setattr(dist, "init_process_group", fake)
        patch.setattr(dist, "all_gather_single", _gather)
        patch.setattr(DistributedDataParallel, "__init__", divided)
        patch.setattr(distributed, "_Alarm", _Quiet)
        patch.setattr(distributed, "PrefixStore", _Quiet)
        patch.setattr(distributed, "rendezvous", lambda *_, **__: iter([(FakeStore(), 0, 2)]))
        patch.setattr(distributed.Processes, "gather", lambda own, value: [value] * own.world)
        patch.setattr(distributed.Processes, "in_turn", lambda _, do: do())
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        # What SyncBatchNorm calls on CUDA has no form for a CPU.
        kernels = {
            "batch_norm_stats": _statistics,
            "batch_norm_gather_stats_with_counts": _gathered,
            "batch_norm_elemt": _normalized,
            "batch_norm_backward_reduce": _reduced,
            "batch_norm_backward_elemt": _gradient,
        }
        for name, kernel in kernels.items():
            patch.setattr(torch, name, kernel)
        try:
            yield asked
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
