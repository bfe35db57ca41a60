"""What learns: a model, its optimizer, and all else that a run must keep to go on exactly."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.training.distributed import Processes
from cxrtext.training.ema import Average


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


@dataclass(slots=True, kw_only=True)
class Learner:
    """What the loop knows of what learns, whatever it is.

    Args:
        model: The model.
        optimizer: Its optimizer.
        scaler: Scales the loss for float16; otherwise does nothing.
        average: The moving average of the weights, or None.
        processes: The processes that share the work.
        progress: How far it has come.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: GradScaler
    average: Average | None = None
    processes: Processes = field(default_factory=Processes)
    progress: Progress = field(default_factory=Progress)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.parameters()[0].device

    def parts(self) -> dict[str, nn.Module]:
        """The modules whose weights a state keeps, by name."""
        return {"model": self.model}

    def state(self) -> dict[str, Any]:
        """All that :meth:`load` needs."""
        return {
            "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
            **{name: part.state_dict() for name, part in self.parts().items()},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.weights if self.average else {},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take a state; it is of the same configuration."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        if self.average:
            self.average.load(state["average"])
        self.progress = Progress(**state["progress"])

    def average_the_rest(self) -> None:
        """Average gradients over processes that the model does not average by itself."""

    def bound(self) -> None:
        """Bring weights that a step has pushed out of their range back to its border.

        After the optimizer's step, in place: a border in the forward pass has no gradient beyond
        it, so that what is once outside would never come back.
        """

    def parameters(self) -> list[nn.Parameter]:
        """Everything that is trained."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]
