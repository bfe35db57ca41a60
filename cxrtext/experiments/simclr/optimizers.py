"""The optimizers by name, and LARS: momentum with a rate of each layer's own."""

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor


class Lars(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

    With w the weights of a layer, g their gradient, β the weight decay and m the momentum,
    ``v ← m v + lr λ (g + β w)``, ``w ← w − v``, ``λ = trust ‖w‖ / (‖g‖ + β ‖w‖)``.  λ is 1 where
    ‖w‖ or ‖g‖ is 0.  Biases and norms (tensors of one dimension) have λ = 1 and β = 0.

    Source: You, Gitman and Ginsburg 2017 (LARS), algorithm 1; what is left out, Chen et al. 2020
        (SimCLR), section B.6.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        if not (lr >= 0 and 0 <= momentum < 1 and weight_decay >= 0 and trust > 0):
            raise ValueError(
                "LARS needs lr and weight_decay of at least 0, momentum in [0, 1) and trust above "
                f"0, not {lr}, {weight_decay}, {momentum} and {trust}"
            )
        super().__init__(
            params,
            {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust},
        )

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take a step; what has no gradient stays."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            layers = [p for p in moved if p.ndim > 1]
            if layers:
                self._move(layers, _adapted(layers, group), group)
            plain = [p for p in moved if p.ndim <= 1]
            if plain:
                self._move(plain, [p.grad for p in plain], group)
        return loss

    def _move(self, weights: list[Tensor], updates: list[Tensor], group: dict[str, Any]) -> None:
        """``v ← m v + lr u``, ``w ← w − v``."""
        for weight in weights:
            if "momentum" not in self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        velocity = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_mul_(velocity, group["momentum"])
        torch._foreach_add_(velocity, updates, alpha=group["lr"])
        torch._foreach_sub_(weights, velocity)


def _adapted(layers: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
    """``λ (g + β w)`` of each layer, without waiting for the device."""
    gradients = [p.grad for p in layers if p.grad is not None]
    decay = group["weight_decay"]
    sizes = torch.stack(torch._foreach_norm(layers))
    slopes = torch.stack(torch._foreach_norm(gradients))
    known = (sizes > 0) & (slopes > 0)
    rates = torch.where(known, group["trust"] * sizes / (slopes + decay * sizes), 1.0)
    updates = torch._foreach_add(gradients, layers, alpha=decay)
    return list(torch._foreach_mul(updates, list(rates.unbind())))


OPTIMIZERS: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lars": Lars}
