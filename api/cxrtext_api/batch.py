"""Doing several pieces of work together, such that one that fails spoils no other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Outcome = tuple[Any, BaseException | None]
"""A result, or why there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Generic[Item, Result]):
    """A kind of work that is quicker for several at a time.

    Args:
        name: For metrics.
        work: Does it for some items, giving a result of each.
        most: What items weigh together that are done at a time; one alone may weigh more.
        weigh: What an item weighs; by default 1, so that items are counted.
    """

    name: str
    work: Callable[[Sequence[Item]], Sequence[Result]]
    most: int
    weigh: Callable[[Item], int] = lambda _: 1


def do_together(batch: Batch[Any, Any], items: Sequence[Any]) -> list[Outcome]:
    """Do some items at once, and one by one where that fails."""
    try:
        results = list(batch.work(items))
        if len(results) != len(items):
            raise RuntimeError(f"{len(results)} results of {len(items)} items")
        return [(result, None) for result in results]
    except Exception as error:  # noqa: BLE001 - told to whom it concerns
        if len(items) == 1:
            return [(None, error)]
    return [outcome for item in items for outcome in do_together(batch, [item])]
