"""Line breaks that wrap a sentence, and those that end one."""

import re
from itertools import pairwise

# Words that a line wrapped in the middle of a sentence may end in.
_GOES_ON = re.compile(
    r"(?:[,/(&-]|\b(?:a|an|and|are|as|at|by|for|from|has|in|is|of|on|or|than|the|to|was|were|with"
    r"|without|versus|(?:Dr|Drs|Mr|Mrs|Ms|vs|e\.g|i\.e|no|No|approx)\.))$"
)
_OPENS = re.compile(r"[A-Z][a-z]+")
# De-identification shortens lines after they were wrapped.
_MARGIN = 15


def deliberate_breaks(block: str) -> list[str]:
    """Divide lines where one was ended although the next word had room on it.

    Args:
        block: Lines without a blank one between them.

    Returns:
        The parts in order.  A new part begins with a capitalised word, and the line before ends in
        no word that asks for more, with room to spare for that word in the width of the block.
    """
    if "\n" not in block:
        return [block]
    lines = [line.strip() for line in block.split("\n")]
    width = max(map(len, lines))
    parts = [lines[0]]
    for before, line in pairwise(lines):
        opening = _OPENS.match(line)
        room = width - len(before) - 1 - _MARGIN
        if opening and before and len(opening[0]) <= room and not _GOES_ON.search(before):
            parts.append(line)
        else:
            parts[-1] += "\n" + line
    return parts
