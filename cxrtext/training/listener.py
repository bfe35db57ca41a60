"""Who hears how a run goes."""

from collections.abc import Callable
from dataclasses import dataclass

from cxrtext.training.loop import StepReport


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how a run goes.

    Args:
        say: Takes a line of text.
        decoding: Takes (done, total) while images are decoded.
        step: Takes (report, total) after every step.
    """

    say: Callable[[str], None] = lambda _: None
    decoding: Callable[[int, int], None] = lambda _done, _total: None
    step: Callable[[StepReport, int], None] = lambda _report, _total: None
