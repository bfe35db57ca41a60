"""The learning rate as a pure function of the step."""

import math


def learning_rate(step: int, *, total: int, warmup: int, peak: float) -> float:
    """Linear warm-up, then cosine decay to zero.

    Args:
        step: The step, from 0.
        total: Number of steps.
        warmup: Steps of the warm-up; a warm-up longer than half the run is cut there.
        peak: The rate at the end of the warm-up.

    Returns:
        The rate of this step; above 0 for every step below ``total``.
    """
    warmup = min(warmup, total // 2)
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return peak * 0.5 * (1.0 + math.cos(math.pi * progress))
