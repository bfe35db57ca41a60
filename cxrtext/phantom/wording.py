"""How phrasings become sentences: choices in brackets and slots in braces.

``[is|appears]`` becomes one of its options, the first most often; brackets may be nested.
``{seen}`` becomes what the caller passes under that name, or else one of the section ``words`` of
``phrases.yaml``.
"""

import re
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from cxrtext.files.yaml_text import read_own


@cache
def phrases() -> dict[str, dict[str, list[str]]]:
    """Phrasings by section and kind, the most common first."""
    sections: dict[str, dict[str, list[str]]] = read_own(Path(__file__).with_name("phrases.yaml"))
    return sections


_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


@cache
def _steps(count: int) -> list[float]:
    """Cumulative probabilities of ``count`` ranks, each with weight 1 / (rank + 1.1)."""
    weights = [1.0 / (rank + 1.1) for rank in range(count)]
    return [total / sum(weights) for total in accumulate(weights)]


class Voice:
    """Puts things into words, with its own random generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def chance(self, probability: float) -> bool:
        return float(self.generator.random()) < probability

    def number(self, low: float, high: float, digits: int = 0) -> str:
        return f"{low + (high - low) * float(self.generator.random()):.{digits}f}"

    def choose(self, options: Sequence[str]) -> str:
        """Pick one, the first most often."""
        place = bisect(_steps(len(options)), self.generator.random())
        return options[min(place, len(options) - 1)]

    def pick(self, section: str, kind: str, **slots: str) -> str:
        """One phrasing of a kind with its slots filled (KeyError for an unknown slot)."""
        return self.expand(self.choose(phrases()[section][kind]), **slots)

    def word(self, kind: str) -> str:
        """A word for a grade, a size or a place."""
        return self.pick("synonyms", kind)

    def say(self, section: str, kind: str, **slots: str) -> str:
        """One phrasing of a kind as a sentence."""
        return polish(self.pick(section, kind, **slots))

    def expand(self, template: str, **slots: str) -> str:
        """Fill a template's slots and make its choices."""
        words = phrases()["words"]
        for slot in re.findall(r"\{(\w+)\}", template):
            word = slots[slot] if slot in slots else self.choose(words[slot])
            template = template.replace("{" + slot + "}", word, 1)
        while "[" in template:
            template = _INNERMOST.sub(lambda match: self.choose(match[1].split("|")), template)
        return template


def polish(text: str) -> str:
    """Close gaps left by empty choices, fix the agreement, begin with a capital."""
    text = re.sub(r"\s+([,.;])", r"\1", " ".join(text.split()))
    for pattern, (written,) in phrases()["agreement"].items():
        text = re.sub(pattern, written, text)
    return text[0].upper() + text[1:]
