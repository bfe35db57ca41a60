"""How to train, without a configuration object; and the parameters' groups."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from cxrtext.models import ImageTextModel
from cxrtext.training.schedule import Pace


@dataclass(frozen=True, slots=True)
class Recipe(Pace):
    """How to train the image–text model; see ``config.TrainingSection``."""

    sentences: int = 1
    accumulate: int = 1
    brightness: float = 0.0
    contrast: float = 0.0
    rotation: float = 0.0
    mlm_weight: float = 0.0
    ema: float = 0.0
    lock: tuple[str, ...] = ()

    def mend(self) -> str:
        """What to change where a loss or a gradient is no number."""
        half = self.precision != "float32"
        other = ", or train with training.precision=float32" if half else ", or training.clip"
        return f"lower training.lr (now {self.lr:g}){other}"


def seed_of(*numbers: int) -> int:
    """A seed for torch that follows from numbers alone."""
    return int(np.random.default_rng(numbers).integers(2**62))


def lock_towers(model: ImageTextModel, lock: Iterable[str]) -> None:
    """Hold an encoder up to its projection still."""
    for name in lock:
        _backbone(model, name).requires_grad_(False)


def set_training(model: ImageTextModel, lock: Iterable[str]) -> None:
    """Training mode; locked encoders stay in evaluation: no dropout, no batch statistics."""
    model.train()
    for name in lock:
        _backbone(model, name).eval()


def _backbone(model: ImageTextModel, name: str) -> nn.Module:
    encoder = model.image_encoder if name == "image" else model.text_encoder
    return encoder.backbone


def parameter_groups(
    model: ImageTextModel,
    head: nn.Module | None,
    *,
    weight_decay: float,
    image_lr: float,
    text_lr: float,
) -> list[dict[str, object]]:
    """What an optimizer is to move, and how.

    Biases, norms and γ² do not decay.  ``scale`` is the group's share of the learning rate.

    Args:
        model: The model; what needs no gradient is left out.
        head: The language model's head, which goes with the text encoder.
        weight_decay: Of matrices and kernels.
        image_lr: The image encoder's share.
        text_lr: The text encoder's share.
    """
    groups = []
    seen: set[int] = set()
    parts: list[tuple[float, Iterable[nn.Parameter]]] = [
        (image_lr, model.image_encoder.parameters()),
        (text_lr, model.text_encoder.parameters()),
        (text_lr, head.parameters() if head else []),
        (1.0, model.parameters()),
    ]
    for scale, parameters in parts:
        new = [p for p in parameters if p.requires_grad and id(p) not in seen]
        seen.update(map(id, new))
        for decay, chosen in (
            (weight_decay, [p for p in new if p.ndim > 1]),
            (0.0, [p for p in new if p.ndim <= 1]),
        ):
            if chosen:
                groups.append({"params": chosen, "weight_decay": decay, "scale": scale})
    return groups


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group, by its share."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]
