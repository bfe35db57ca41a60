"""What the work under way tells of itself."""

from collections.abc import Callable
from dataclasses import dataclass


def _nothing(name: str, value: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told how the work goes; may be called on any thread.

    Args:
        stage: Told a stage and its seconds.
        batch: Told a stage and how many items it did together.
        queue: Told a queue and its length.
    """

    stage: Callable[[str, float], None] = _nothing
    batch: Callable[[str, int], None] = _nothing
    queue: Callable[[str, int], None] = _nothing
