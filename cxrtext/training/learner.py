"""What learns: a model, its optimizer, and all else that a run must keep to go on exactly."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from cxrtext.models import ImageTextModel
from cxrtext.training.distributed import Processes
from cxrtext.training.ema import Average
from cxrtext.training.synced_norm import synchronise
from cxrtext.training.towers import Towers


@dataclass(slots=True)
class Progress:
    """How a run goes; kept in its state.

    Args:
        step: Steps done.
        first_loss: Of the first step, in nats; None before it.
        worse: Steps in a row whose loss was far above the first.
        best: The best value of the chosen measure so far, larger is better; None before it.
        best_step: The step it was found after.
        waited: Validations since then.
        done: Whether it was stopped early.
    """

    step: int = 0
    first_loss: float | None = None
    worse: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    done: bool = False


@dataclass(slots=True)
class Learner:
    """What learns; made by :func:`build_learner`.

    Args:
        model: The model.
        head: The language model's head, or None.
        plain_towers: The encoders.
        towers: The same, averaging gradients over processes.
        optimizer: Its optimizer.
        scaler: Scales the loss for float16; otherwise does nothing.
        average: The moving average of the weights, or None.
        processes: The processes that share the work.
        progress: How far it has come.
    """

    model: ImageTextModel
    head: nn.Module | None
    plain_towers: Towers
    towers: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: GradScaler
    average: Average | None
    processes: Processes
    progress: Progress = field(default_factory=Progress)

    def state(self) -> dict[str, Any]:
        """All that :meth:`load` needs."""
        return {
            "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
            "model": self.model.state_dict(),
            "head": self.head.state_dict() if self.head else {},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.weights if self.average else {},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take a state; it is of the same configuration."""
        self.model.load_state_dict(state["model"])
        if self.head:
            self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        if self.average:
            self.average.load(state["average"])
        self.progress = Progress(**state["progress"])

    def average_the_rest(self) -> None:
        """Average the gradients of what is not in the towers: γ² and the query map."""
        inside = {id(p) for p in self.plain_towers.parameters()}
        outside = [p for p in self.model.parameters() if p.requires_grad and id(p) not in inside]
        for parameter in outside:
            if parameter.grad is None:  # an objective need not use γ²
                parameter.grad = torch.zeros_like(parameter)
        self.processes.average([p.grad for p in outside if p.grad is not None])

    def parameters(self) -> list[nn.Parameter]:
        """Everything that is trained."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]


def build_learner(
    model: ImageTextModel,
    head: nn.Module | None,
    optimizer: torch.optim.Optimizer,
    *,
    precision: str,
    ema: float,
    processes: Processes,
) -> Learner:
    """Put the pieces together, on the device where the model is.

    Args:
        model: The model.
        head: The language model's head, or None.
        optimizer: Of both.
        precision: "float32", "bfloat16" or "float16".
        ema: Decay of the moving average; 0 for none.
        processes: The processes that share the work.
    """
    plain = Towers(model, head, precision)
    towers: nn.Module = plain
    if processes.world > 1:
        synchronise(plain)
        devices = [model.device] if model.device.type == "cuda" else None
        towers = DistributedDataParallel(plain, device_ids=devices)
        towers.broadcast_buffers = False  # synchronised norms have the same ones everywhere
    return Learner(
        model=model,
        head=head,
        plain_towers=plain,
        towers=towers,
        optimizer=optimizer,
        scaler=GradScaler(model.device.type, enabled=precision == "float16"),
        average=Average(model, ema) if ema else None,
        processes=processes,
    )
