"""Which sentences are scored together: equal lengths, under a budget of tokens."""

from collections.abc import Iterator, Sequence

SPECIAL = 2
"""Special tokens around a sentence: [CLS] and [SEP]."""


def plan_groups(
    lengths: Sequence[int], window: int, batch_tokens: int, most: int = 512
) -> list[list[int]]:
    """Divide sentences into groups of one length each.

    The plan depends on the lengths and their order alone, so that a run that was killed and
    starts again makes the same groups and gets the same numbers.

    Args:
        lengths: Word pieces of each sentence, special tokens not counted; all positive.
        window: Most word pieces that the network takes at once.
        batch_tokens: Tokens in one forward pass, special tokens counted.  A sentence of n word
            pieces takes n copies of n + 2 tokens; one that exceeds the budget is a group alone.
        most: Most sentences in a group.

    Returns:
        Indices of the sentences of each group; shortest first.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups: list[list[int]] = []
    for index in order:
        length = lengths[index]
        cost = length * (min(length, window) + SPECIAL)
        room = min(most, max(1, batch_tokens // cost))
        if groups and lengths[groups[-1][0]] == length and len(groups[-1]) < room:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def ranges(total: int, size: int) -> Iterator[slice]:
    """Cut ``range(total)`` into slices of at most ``size``."""
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))
