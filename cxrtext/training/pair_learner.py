"""The image–text model as what learns."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from cxrtext.models import ImageTextModel
from cxrtext.training.distributed import Processes
from cxrtext.training.ema import Average
from cxrtext.training.learner import Learner
from cxrtext.training.synced_norm import synchronise
from cxrtext.training.towers import Towers


@dataclass(slots=True, kw_only=True)
class PairLearner(Learner):
    """An image–text model that learns; made by :func:`build_learner`.

    Args:
        model: The model.
        head: The language model's head, or None.
        plain_towers: The encoders.
        towers: The same, averaging gradients over processes.
    """

    model: ImageTextModel
    head: nn.Module | None
    plain_towers: Towers
    towers: nn.Module

    def parts(self) -> dict[str, nn.Module]:
        """The modules whose weights a state keeps, by name."""
        return {"model": self.model, "head": self.head or nn.Module()}

    def average_the_rest(self) -> None:
        """Average the gradients of what is not in the towers: γ² and the query map."""
        inside = {id(p) for p in self.plain_towers.parameters()}
        outside = [p for p in self.model.parameters() if p.requires_grad and id(p) not in inside]
        for parameter in outside:
            if parameter.grad is None:  # an objective need not use γ²
                parameter.grad = torch.zeros_like(parameter)
        self.processes.average([p.grad for p in outside if p.grad is not None])

    def bound(self) -> None:
        """Keep γ² at most at its cap."""
        self.model.bound()


def build_learner(
    model: ImageTextModel,
    head: nn.Module | None,
    optimizer: torch.optim.Optimizer,
    *,
    precision: str,
    ema: float,
    processes: Processes,
) -> PairLearner:
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
    return PairLearner(
        model=model,
        head=head,
        plain_towers=plain,
        towers=towers,
        optimizer=optimizer,
        scaler=GradScaler(model.device.type, enabled=precision == "float16"),
        average=Average(model, ema) if ema else None,
        processes=processes,
    )
