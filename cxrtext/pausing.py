"""Work that reports its progress, and work that pauses.

The latter is a generator that yields whenever it can stop for a while, and returns a result.  Its
caller decides how long a turn lasts, and whether there is another one: a command runs it to its
end; a server answers other questions in between, and ends work that nobody waits for any more.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TypeVar

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Is told what is done, and the total."""

StageProgress = Callable[[str, int, int], None]
"""Is told the same for a named stage."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """A `StageProgress` that shows nothing."""


Pausing = Generator[None, None, T]
"""Work that pauses often."""


def finish(work: Pausing[T]) -> T:
    """Do work to its end without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def within(held: AbstractContextManager[object], work: Pausing[T]) -> Pausing[T]:
    """Do work and hold something, such as a lock, while it runs but not while it pauses.

    ``held`` can be entered repeatedly.
    """
    while True:
        with held:
            try:
                next(work)
            except StopIteration as end:
                result: T = end.value
                return result
        yield
