"""How phrasings become sentences: choices in brackets, slots in braces, and slips of the pen.

``[is|appears]`` is replaced by one of its options, the first most often; brackets may stand within
brackets.  ``{seen}`` is replaced by what the caller gives under that name, or else by one of the
section ``words`` of ``phrases.yaml``.
"""

import re
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import yaml

PHRASES: dict[str, dict[str, list[str]]] = yaml.load(
    (Path(__file__).parent.parent / "phrases.yaml").read_text(encoding="utf-8"),
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),  # noqa: S506 - safe, and ten times faster
)
"""Phrasings by section and kind, the commonest first."""

MISSPELT = 0.006
"""Probability that a sentence with a word of the section ``misspellings`` has it misspelt."""

_SEEN = "seen|present|noted|identified|demonstrated|visualized|evident|observed"
_PLURAL = "effusions|pneumothoraces|nodules"
_AGREEMENT = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        (r"\b(\w+) \1\b", r"\1"),
        (rf"^There is no ((?:(?!or )\w+ ){{0,3}}(?:{_PLURAL}))\b", r"There are no \1"),
        (r", (may|could) (represent|reflect|be)\b", r", which \1 \2"),
        (r", which (possibly|concerning|suspicious)\b", r", \1"),
        (r"\bis (represent|reflect)ing\b", r"\1s"),
        (r"\bare (represent|reflect)ing\b", r"\1"),
        (rf"^(There (?:is|are|appears)\b[^,;]*?) (?:is|are) (?:{_SEEN})\b", r"\1"),
        (
            r"^(There [^,;]*?)(?<!that)(?<!which) (may|could) (represent|reflect|be)\b",
            r"\1 that \2 \3",
        ),
    )
)
"""Patterns that free choices bring about and no one would write, and what is written instead."""

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


@cache
def _steps(count: int) -> list[float]:
    """Cumulative probabilities of ``count`` ranks, each with weight 1 / (rank + 1.1)."""
    weights = [1.0 / (rank + 1.1) for rank in range(count)]
    return [total / sum(weights) for total in accumulate(weights)]


def choose(generator: np.random.Generator, options: Sequence[str]) -> str:
    """Pick one, the first most often."""
    return options[min(bisect(_steps(len(options)), generator.random()), len(options) - 1)]


class _Slots(dict[str, str]):
    """The given words, and common words for the slots that are not given."""

    def __init__(self, generator: np.random.Generator, given: dict[str, str]) -> None:
        super().__init__(given)
        self._generator = generator

    def __missing__(self, slot: str) -> str:
        return choose(self._generator, PHRASES["words"][slot])


def expand(generator: np.random.Generator, template: str, **slots: str) -> str:
    """Settle a template's slots and choices, leave the rest (KeyError for an unknown slot)."""
    text = template.format_map(_Slots(generator, slots)) if "{" in template else template
    while "[" in text:
        text = _INNERMOST.sub(lambda match: choose(generator, match[1].split("|")), text)
    return text


def polish(text: str) -> str:
    """Close gaps left by empty choices, put "an" before a vowel, and begin with a capital."""
    text = re.sub(r"\s+([,.;])", r"\1", " ".join(text.split()))
    for pattern, written in _AGREEMENT:
        text = pattern.sub(written, text)
    text = re.sub(r"\b([Aa])(?= [aeiouAEIO])", r"\1n", text)
    return text[0].upper() + text[1:]


def fill(generator: np.random.Generator, template: str, **slots: str) -> str:
    return polish(expand(generator, template, **slots))


def misspell(generator: np.random.Generator, text: str) -> str:
    """Now and then put a slip into a sentence."""
    if generator.random() >= MISSPELT:
        return text
    if not (known := [word for word in PHRASES["misspellings"] if word in text]):
        return text
    word = known[int(generator.integers(len(known)))]
    return text.replace(word, choose(generator, PHRASES["misspellings"][word]), 1)


def uncapitalized(text: str) -> str:
    """The text with a small first letter, unless an abbreviation or a numeral begins it."""
    return text if text[1:2].isupper() or text[1:2] == "-" else text[0].lower() + text[1:]


def listed(generator: np.random.Generator, items: Sequence[str], word: str) -> str:
    """Items joined as in prose: "a", "a or b", "a, b[,] or c"."""
    if len(items) == 1:
        return items[0]
    comma = "," if len(items) > 2 and generator.random() < 0.55 else ""
    return f"{', '.join(items[:-1])}{comma} {word} {items[-1]}"
