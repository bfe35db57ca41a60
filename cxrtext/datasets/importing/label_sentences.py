"""Reports made from labels, for sets without reports.

Labels do not say where, how much or since when, and neither do the sentences.

Source: You et al. 2023 (CXR-CLIP), which trains on prompts made of labels.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.datasets.admission.ids import digest
from cxrtext.files.yaml_text import read_own

NO_FINDING, DEVICES = "No Finding", "Support Devices"
DENIALS = 2  # at most so many absent findings of a study get a sentence

_TOKEN = re.compile(r"[\w'/-]+")


@cache
def _lists() -> dict[str, Any]:
    lists: dict[str, Any] = read_own(Path(__file__).with_suffix(".yaml"))
    return lists


class LabelSentences:
    """Sentences for the findings of a set; ``without`` lists the findings that have none."""

    def __init__(self, findings: Sequence[str]) -> None:
        lists = _lists()
        self._entries: dict[str, dict[str, Any]] = {
            name: one
            for key, one in lists["findings"].items()
            for name in findings
            if name.lower().replace("_", " ") in (key.lower(), *one.get("also", ()))
        }
        self.without = tuple(n for n in findings if n not in self._entries and n != NO_FINDING)
        self._forms = {w: n for n, one in self._entries.items() for w in one["words"].split()}
        self._present = {n: _phrased("present", one["say"]) for n, one in self._entries.items()}
        self._absent = {
            name: _phrased("absent", (re.sub("^an? ", "", phrase) for phrase in one["say"]))
            for name, one in self._entries.items()
        }

    def report(self, labels: Mapping[str, int | None], key: str) -> str:
        """Sentences for a study with these labels, drawn by a key; "" if there are none."""
        draw = np.random.default_rng(digest(f"0 {key}"))
        present = [name for name, value in labels.items() if value == 1 and name != NO_FINDING]
        sentences = [_one(self._present[name], draw) for name in present if name in self._present]
        if labels.get(NO_FINDING) == 1 and set(present) <= {DEVICES}:
            sentences.append(_one(_lists()["no finding"], draw))
        # A label such as "multiple nodules" has the word of another finding in its name.
        told = {self._forms.get(word) for n in present for word in _TOKEN.findall(n.lower())}
        left = sorted(
            name
            for name, one in self._entries.items()
            if labels.get(name) == 0 and not ({*present} & {*one.get("over", ())} or name in told)
        )
        for _ in range(min(DENIALS, len(left))):
            name = _one(left, draw)
            left.remove(name)
            sentences.append(_one(self._absent[name], draw))
        return " ".join(sentences)


def _phrased(kind: str, phrases: Iterable[str]) -> list[str]:
    """The phrases put into the templates of a kind."""
    pairs = ((phrase, template) for phrase in dict.fromkeys(phrases) for template in _lists()[kind])
    texts = (template.format(phrase) for phrase, template in pairs)
    return [text[0].upper() + text[1:] for text in texts]


def _one(texts: Sequence[str], draw: np.random.Generator) -> str:
    return texts[int(draw.integers(len(texts)))]
