"""What a pre-training run has measured, and the weights of its best epoch."""

from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass(slots=True)
class History:
    """Measurements on held-out sentences after each epoch, and the best epoch's weights.

    Args:
        validation_loss: Mean cross-entropy of hidden word pieces, in nats.
        pseudo_perplexity: Pseudo-perplexity a word piece, on a small sample.
        best: Weights of the epoch of the lowest loss, on the CPU; empty before the first epoch.
    """

    validation_loss: list[float] = field(default_factory=list)
    pseudo_perplexity: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        return len(self.validation_loss)

    @property
    def best_epoch(self) -> int:
        """The epoch of the lowest loss, from 1, the earliest of equal ones; 0 before the first."""
        if not self.validation_loss:
            return 0
        return self.validation_loss.index(min(self.validation_loss)) + 1

    def add(self, model: nn.Module, loss: float, perplexity: float) -> None:
        """Note an epoch; its weights are kept when none before was better."""
        self.validation_loss.append(loss)
        self.pseudo_perplexity.append(perplexity)
        if self.best_epoch == self.epochs:
            self.best = {name: value.cpu().clone() for name, value in model.state_dict().items()}

    def exhausted(self, patience: int) -> bool:
        """Return whether so many epochs in a row were no better; never with patience 0."""
        return 0 < patience <= self.epochs - self.best_epoch
