"""Tensors of all processes in each of them, with gradients.

Gradients of gathered tensors go wrong by exactly the number of processes when it is not said what
each process does with its copy.  There are two cases, and a function for each.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
        ctx.start, ctx.length = sum(sizes[:rank]), sizes[rank]
        return _collect(own, sizes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        return total.narrow(0, ctx.start, ctx.length), None, None


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
        ctx.start, ctx.length = sum(sizes[:rank]), sizes[rank]
        return _collect(own, sizes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0].narrow(0, ctx.start, ctx.length), None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, own: Tensor) -> Tensor:
        total = own.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


def _collect(own: Tensor, sizes: Sequence[int]) -> Tensor:
    longest = max(sizes)
    padded = own.new_zeros((longest, *own.shape[1:]))  # collectives want equal sizes
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def gather_shared(own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
    """Rows of all processes, of which each process computes something else.

    The gradient of a row is the sum of what all processes make of it.

    Args:
        own: [sizes[rank], ...], this process's rows.
        sizes: Rows of each process.
        rank: This process.

    Returns:
        [Σ sizes, ...], in the order of ranks.
    """
    gathered: Tensor = _Shared.apply(own, sizes, rank)  # type: ignore[no-untyped-call]
    return gathered


def gather_same(own: Tensor, sizes: Sequence[int], rank: int) -> Tensor:
    """Rows of all processes, of which every process computes the same.

    Each then knows the whole gradient, and takes the part of its own rows: nothing is added.

    Args:
        own: [sizes[rank], ...], this process's rows.
        sizes: Rows of each process.
        rank: This process.

    Returns:
        [Σ sizes, ...], in the order of ranks.
    """
    gathered: Tensor = _Same.apply(own, sizes, rank)  # type: ignore[no-untyped-call]
    return gathered


def sum_over_processes(own: Tensor) -> Tensor:
    """The sum of a tensor over processes, each of which goes on in its own way with it."""
    total: Tensor = _Sum.apply(own)  # type: ignore[no-untyped-call]
    return total
