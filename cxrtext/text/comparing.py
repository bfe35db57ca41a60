"""Sentences that compare: what they say of the time between two films, which one film cannot show.

Words are looked for in the order of the languages' files, and what one entry meets the later ones
do not see: "partly resolved" has improved, and "increased density" compares with nothing.
"""

from functools import lru_cache
from typing import Literal, get_args

from cxrtext.text.rules import rules_of

Change = Literal["improved", "worse", "resolved", "new", "unchanged"]
CHANGES: tuple[Change, ...] = get_args(Change)
_SAYS: dict[str, Change] = {**dict(zip(CHANGES, CHANGES, strict=True)), "denied": "unchanged"}


@lru_cache(maxsize=50_000)
def comparison(sentence: str) -> Change | None:
    """What a sentence says has become of something since an earlier film; None: nothing.

    Of several changes the first; "unchanged" only where nothing else is said.

    >>> comparison("Left effusion has decreased."), comparison("Increased lung volumes.")
    ('improved', None)
    """
    patterns, text = rules_of(sentence).comparing, sentence
    found = list[tuple[int, Change]]()
    skipped = {"since"}
    if "since" in patterns and patterns["since"].search(text):
        skipped.add("none")
    for name, pattern in patterns.items():
        if name in skipped:
            continue
        if name in _SAYS:
            found += [(match.start(), _SAYS[name]) for match in pattern.finditer(text)]
        text = pattern.sub(lambda match: "-" * len(match[0]), text)
    changes = [one for one in found if one[1] != "unchanged"] or found
    return min(changes)[1] if changes else None
