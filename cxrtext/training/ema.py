"""An exponential moving average of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The average of a model's weights; buffers are as in the model, which averages them itself.

    Args:
        model: The model.
        decay: How much of the average stays at each step; less in the first steps, so that the
            beginning is forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after a step (from 1)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages, current = [], []
        for name, parameter in model.named_parameters():
            averages.append(self.weights[name])
            current.append(parameter.detach())
        torch._foreach_lerp_(averages, current, 1 - decay)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take the averages of a saved state."""
        for name, value in self.weights.items():
            value.copy_(weights[name])

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averages inside the block, and its own weights back after it."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    @torch.no_grad()
    def _swap(self, model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            own = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name].copy_(own)
