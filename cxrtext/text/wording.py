"""Whether a sentence of a report affirms, denies or hedges what it says.

:func:`wording` decides for the sentence, :func:`mentions` for each of its words.

A short list of rules like NegEx's: a trigger ("no", "is not seen", "cannot be excluded") governs a
part of its clause.  What lies outside the denied parts decides.  The rules only look at words: "The
lungs are clear." is affirmed, because it denies nothing.

The words are those of the sentence's language (``languages/``).

Source: Chapman et al. 2001 (NegEx); Peng et al. 2018 (NegBio), for the triggers of uncertainty.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Literal, NamedTuple

from cxrtext.text.fields import UNREAD, as_prose
from cxrtext.text.rules import WORD, Rules, rules_of

Wording = Literal["affirmed", "negated", "uncertain"]

Span = tuple[int, int]


def wording(sentence: str) -> Wording:
    """Whether a sentence affirms, denies or hedges.

    Returns:
        "uncertain" if any part is not understood or hedged ("possible", "may represent", "cannot be
        excluded"), not counting hedges inside a denial ("no evidence to suggest"); "negated" if
        everything it names is denied, except anatomy and words like "normal"; else "affirmed".
    """
    parts = parts_of(sentence)
    if parts.hedges or UNREAD in parts.text:
        return "uncertain"
    if not parts.denied:
        return "affirmed"
    left = WORD.findall(_blanked(parts.plain, parts.denied))
    asserts = "~" in parts.text or any(_asserts(word, parts.rules) for word in left)
    return "affirmed" if asserts else "negated"


def mentions(sentence: str) -> tuple[set[str], set[str]]:
    """The words that a sentence affirms, and those that it denies, in lower case.

    Neither has words that name no finding (articles, anatomy, "normal"), or any word of a sentence
    that hedges; a word affirmed in one clause and denied in another is in both.
    """
    _, plain, denied, hedges, rules = parts_of(sentence)
    if hedges:
        return set(), set()
    before, after = rules.patterns["before"], rules.patterns["after"]
    left = _blanked(plain, denied)
    inside = " ".join(before.sub(" ", after.sub(" ", plain[a:b])) for a, b in denied)
    affirmed, absent = (
        {word.lower() for word in WORD.findall(part) if _asserts(word, rules)}
        for part in (left, inside)
    )
    return affirmed, absent


class Parts(NamedTuple):
    """A sentence in parts; spans are places in its text as prose (:func:`as_prose`)."""

    text: str  # with false triggers masked
    plain: str  # the same with hedges blanked
    denied: list[Span]  # disjoint, in order
    hedges: list[Span]  # those outside the denied parts
    rules: Rules  # of its language


def parts_of(sentence: str) -> Parts:
    rules = rules_of(sentence)
    masked = rules.patterns["pseudo"].sub(lambda m: "~" * len(m[0]), as_prose(sentence).text)
    hedges = [match.span() for match in rules.patterns["uncertain"].finditer(masked)]
    plain = _blanked(masked, hedges)
    denied = _denied(plain, rules)
    outside = [one for one in hedges if not meets((one[0], one[0] + 1), denied)]
    return Parts(masked, plain, denied, outside, rules)


def _asserts(word: str, rules: Rules) -> bool:
    # De-identification leaves XXXX for a removed word.
    return word.lower() not in rules.words["empty"] and word.strip("X") != ""


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same places as disjoint spans in order."""
    apart: list[Span] = []
    for start, end in sorted(spans):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], end)
        else:
            apart.append((start, end))
    return apart


def meets(span: Span, apart: list[Span]) -> bool:
    """Whether a span overlaps one of the spans from :func:`merged`."""
    last = bisect_left(apart, (span[1],)) - 1
    return last >= 0 and span[0] < apart[last][1]


def _blanked(text: str, spans: list[Span]) -> str:
    """A text of the same length with some parts blanked, given as disjoint spans in order."""
    parts, done = list[str](), 0
    for start, end in spans:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


def _denied(text: str, rules: Rules) -> list[Span]:
    """The parts of a text that a trigger denies, with the triggers."""
    clause_ends = [match.span() for match in rules.patterns["clause_end"].finditer(text)]
    begins, places = [a for a, _ in clause_ends], [0, *(b for _, b in clause_ends)]
    after = [match.span() for match in rules.patterns["after"].finditer(text)]
    spans = [(places[bisect_right(places, begin, 1) - 1], end) for begin, end in after]
    for match in rules.patterns["before"].finditer(text):
        if not meets((match.start(), match.start() + 1), after):
            clause = bisect_left(begins, match.end())
            stop = begins[clause] if clause < len(begins) else len(text)
            spans.append((match.start(), stop))
    return merged(spans)
