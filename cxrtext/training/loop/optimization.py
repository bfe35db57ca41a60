"""How long and how fast to train, and the optimizer's parameters."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import nn

from cxrtext.models import ImageTextModel

Decay = Literal["cosine", "constant"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the loop needs to know about any training."""

    steps: int
    batch: int  # images per step
    lr: float = 1e-5  # highest learning rate
    warmup: int = 0  # steps of the linear warm-up
    decay: Decay = "cosine"  # after the warm-up
    clip: float = 1.0  # largest norm of the gradients; infinite for no limit
    seed: int = 0  # with the step, decides what a step sees and draws
    precision: str = "float32"  # "float32", "bfloat16" or "float16"

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0."""
        return learning_rate(
            step, total=self.steps, warmup=self.warmup, peak=self.lr, decay=self.decay
        )

    def advice(self) -> str:
        """What to change if a loss or a gradient is not a number."""
        half = self.precision != "float32"
        return f"lower lr (now {self.lr:g})" + (", or take float32 precision" if half else "")


@dataclass(frozen=True, slots=True)
class TrainingArguments(Schedule):
    """How to train the image–text model; see ``config.TrainingSection``."""

    sentences: int = 1
    accumulate: int = 1
    brightness: float = 0.0
    contrast: float = 0.0
    mlm_weight: float = 0.0
    lock: tuple[str, ...] = ()
    unlock: int | None = None
    unlocked_lr: float = 1.0

    def locked(self, step: int) -> tuple[str, ...]:
        """The encoders that are locked in a step, from 0."""
        return self.lock if self.unlock is None or step < self.unlock else ()

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0; warm-up and decay begin again after unlocking."""
        first, last, peak = 0, self.steps, self.lr
        if self.unlock is not None:
            if step < self.unlock:
                last = self.unlock
            else:
                first, peak = self.unlock, self.lr * self.unlocked_lr
        return learning_rate(
            step - first, total=last - first, warmup=self.warmup, peak=peak, decay=self.decay
        )

    def advice(self) -> str:
        half = self.precision != "float32"
        other = ", or train with training.precision=float32" if half else ", or training.clip"
        return f"lower training.lr (now {self.lr:g}){other}"


def learning_rate(
    step: int, *, total: int, warmup: int, peak: float, decay: Decay = "cosine"
) -> float:
    """Linear warm-up to ``peak``, then cosine decay to 0, or no decay.

    The warm-up is at most half the run.  The rate is above 0 for every step from 0 to below
    ``total``.
    """
    warmup = min(warmup, total // 2)
    if step < warmup:
        return peak * (step + 1) / warmup
    if decay == "constant":
        return peak
    progress = (step - warmup) / max(1, total - warmup)
    return peak * 0.5 * (1.0 + math.cos(math.pi * progress))


def seed_of(*numbers: int) -> int:
    """A seed for torch that depends only on the numbers."""
    return int(np.random.default_rng(numbers).integers(2**62))


def lock_towers(model: ImageTextModel, lock: Iterable[str]) -> None:
    """Lock these encoders up to their projections, and unlock the others."""
    for name in ("image", "text"):
        _backbone(model, name).requires_grad_(name not in lock)


def set_training(model: ImageTextModel, lock: Iterable[str]) -> None:
    """Set training mode; locked encoders stay in evaluation: no dropout, no batch statistics."""
    model.train()
    for name in lock:
        _backbone(model, name).eval()


def _backbone(model: ImageTextModel, name: str) -> nn.Module:
    return model.image_encoder.trunk if name == "image" else model.text_encoder.backbone


def decay_groups(new: Sequence[nn.Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Groups of parameters: matrices and kernels decay, biases and norms do not."""
    return [
        {"params": chosen, "weight_decay": decay}
        for decay, chosen in (
            (weight_decay, [p for p in new if p.ndim > 1]),
            (0.0, [p for p in new if p.ndim <= 1]),
        )
        if chosen
    ]
