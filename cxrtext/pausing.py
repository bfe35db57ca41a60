"""Work that says how far it is, and work that pauses.

The latter is a generator that yields wherever it can stop for a while, and returns a result.  Who
runs it decides how long a turn lasts, and whether there is another one: a command runs it to its
end; a server answers other questions in between, and ends what nobody waits for any more.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TypeVar

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Told what is done, and what there is in all."""

StageProgress = Callable[[str, int, int], None]
"""Told the same of a stage."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """A `StageProgress` that shows nothing."""


Pausing = Generator[None, None, T]
"""Work between whose pauses little time passes."""


def finish(work: Pausing[T]) -> T:
    """Do work to its end without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def within(held: AbstractContextManager[object], work: Pausing[T]) -> Pausing[T]:
    """Do work such that something, such as a lock, is held while it runs and not while it pauses.

    ``held`` can be entered again and again.
    """
    while True:
        with held:
            try:
                next(work)
            except StopIteration as end:
                result: T = end.value
                return result
        yield
