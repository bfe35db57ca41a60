"""How long and how fast to train, and the learning rate as a pure function of the step."""

import math
from dataclasses import dataclass
from typing import Literal

Schedule = Literal["cosine", "constant"]


@dataclass(frozen=True, slots=True)
class Pace:
    """What the loop reads of how to train, whatever is trained.

    Args:
        steps: Steps in all.
        batch: Images a step.
        lr: Highest learning rate.
        warmup: Steps of the linear warm-up.
        schedule: What comes after it.
        clip: Largest norm of the gradients; infinite for no limit.
        seed: What a step sees and draws follows from it and the step.
        precision: "float32", "bfloat16" or "float16".
    """

    steps: int
    batch: int
    lr: float = 1e-5
    warmup: int = 0
    schedule: Schedule = "cosine"
    clip: float = 1.0
    seed: int = 0
    precision: str = "float32"

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0."""
        return learning_rate(
            step, total=self.steps, warmup=self.warmup, peak=self.lr, schedule=self.schedule
        )

    def mend(self) -> str:
        """What to change where a loss or a gradient is no number."""
        half = self.precision != "float32"
        return f"lower lr (now {self.lr:g})" + (", or take float32 precision" if half else "")


def learning_rate(
    step: int, *, total: int, warmup: int, peak: float, schedule: Schedule = "cosine"
) -> float:
    """Linear warm-up, then cosine decay to zero, or none.

    Args:
        step: The step, from 0.
        total: Number of steps.
        warmup: Steps of the warm-up; a warm-up longer than half the run is cut there.
        peak: The rate at the end of the warm-up.
        schedule: "cosine", or "constant" to stay there.

    Returns:
        The rate of this step; above 0 for every step below ``total``.
    """
    warmup = min(warmup, total // 2)
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    progress = (step - warmup) / max(1, total - warmup)
    return peak * 0.5 * (1.0 + math.cos(math.pi * progress))
