"""Which sentences are scored together: equal lengths, under a budget of tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

SPECIAL = 2
"""Special tokens around a sentence: [CLS] and [SEP]."""

MOST = 512
"""Most sentences in a group."""

Item = TypeVar("Item")


def room(length: int, window: int, batch_tokens: int) -> int:
    """Return how many sentences of a length make a group.

    Args:
        length: Word pieces of each, special tokens not counted.
        window: Most word pieces that the network takes at once.
        batch_tokens: Tokens in one forward pass, special tokens counted.  A sentence of n word
            pieces takes n copies of n + 2 tokens; one that exceeds the budget is a group alone.
    """
    cost = length * (min(length, window) + SPECIAL)
    return min(MOST, max(1, batch_tokens // cost))


def groups_of(
    items: Iterable[Item], length: Callable[[Item], int], window: int, batch_tokens: int
) -> Iterator[list[Item]]:
    """Divide sentences in order of length into groups of one length each.

    The groups depend on the sentences and their order alone, so that a run that was killed and
    starts again makes the same groups and gets the same numbers.

    Args:
        items: The sentences, shortest first.
        length: Word pieces of one; positive.
        window: Most word pieces that the network takes at once.
        batch_tokens: Tokens in one forward pass.

    Yields:
        The sentences of each group.
    """
    group: list[Item] = []
    for item in items:
        size = length(item)
        if group and (length(group[0]) != size or len(group) >= room(size, window, batch_tokens)):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def plan_groups(lengths: Sequence[int], window: int, batch_tokens: int) -> list[list[int]]:
    """Divide sentences into groups of one length each; indices of each group, shortest first."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return list(groups_of(order, lengths.__getitem__, window, batch_tokens))


def ranges(total: int, size: int) -> Iterator[slice]:
    """Cut ``range(total)`` into slices of at most ``size``."""
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))
