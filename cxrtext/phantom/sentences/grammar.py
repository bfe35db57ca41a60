"""How phrasings become sentences: choices in brackets, slots in braces, and slips of the pen.

``[is|appears]`` is replaced by one of its options, the first most often; brackets may stand within
brackets.  ``{seen}`` is replaced by what the caller gives under that name, or else by one of the
section ``words`` of the language's file in ``phrases``.
"""

import re
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np
import yaml

Phrases = dict[str, dict[str, list[str]]]
"""Phrasings by section and kind, the commonest first."""

Language = Literal["en", "de", "es"]

MISSPELT = 0.006
"""Probability that a sentence with a word of the section ``misspellings`` has it misspelt."""


@cache
def phrases_of(language: str) -> Phrases:
    """What the reports in a language are written with."""
    path = Path(__file__).parent.parent / "phrases" / f"{language}.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster
    phrases: Phrases = yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506 - safe
    return phrases


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

    def __init__(
        self, generator: np.random.Generator, phrases: Phrases, given: dict[str, str]
    ) -> None:
        super().__init__(given)
        self._generator, self._words = generator, phrases["words"]

    def __missing__(self, slot: str) -> str:
        return choose(self._generator, self._words[slot])


def expand(generator: np.random.Generator, template: str, phrases: Phrases, /, **slots: str) -> str:
    """Settle a template's slots and choices, leave the rest (KeyError for an unknown slot)."""
    text = template.format_map(_Slots(generator, phrases, slots)) if "{" in template else template
    while "[" in text:
        text = _INNERMOST.sub(lambda match: choose(generator, match[1].split("|")), text)
    return text


def polish(text: str, phrases: Phrases) -> str:
    """Close gaps left by empty choices, mend what those bring about, begin with a capital."""
    text = re.sub(r"\s+([,.;])", r"\1", " ".join(text.split()))
    for pattern, (written,) in phrases["agreement"].items():
        text = re.sub(pattern, written, text)
    return text[0].upper() + text[1:]


def fill(generator: np.random.Generator, template: str, phrases: Phrases, /, **slots: str) -> str:
    return polish(expand(generator, template, phrases, **slots), phrases)


def misspell(generator: np.random.Generator, text: str, phrases: Phrases) -> str:
    """Now and then put a slip into a sentence."""
    if generator.random() >= MISSPELT:
        return text
    slips = phrases["misspellings"]
    if not (known := [word for word in slips if word in text]):
        return text
    word = known[int(generator.integers(len(known)))]
    return text.replace(word, choose(generator, slips[word]), 1)


def matches(phrases: Phrases, form: str, text: str) -> bool:
    """Whether a text holds one of the patterns of a form."""
    return any(re.search(pattern, text) for pattern in phrases["forms"][form])


def uncapitalized(text: str, phrases: Phrases) -> str:
    """The text with a small first letter, unless that is always a capital, as in abbreviations."""
    return text if matches(phrases, "capital", text) else text[0].lower() + text[1:]


def listed(generator: np.random.Generator, items: Sequence[str], word: str) -> str:
    """Items joined as in prose: "a", "a or b", "a, b[,] or c"."""
    if len(items) == 1:
        return items[0]
    comma = "," if len(items) > 2 and generator.random() < 0.55 else ""
    return f"{', '.join(items[:-1])}{comma} {word} {items[-1]}"
