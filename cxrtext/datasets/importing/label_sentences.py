"""Reports made of labels, for sets that have no reports: sentences that say what the labels say.

The sentences are those of reports of another set, or plain ones.  One that affirms has one finding
in it and no side; one that denies names only findings that the study has not.  All other words of
it are on short lists (``label_sentences.yaml``): labels say neither where, how much nor since when.

Source: You et al. 2023 (CXR-CLIP), which trains on prompts made of labels.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.datasets.admission.ids import digest
from cxrtext.datasets.importing.formats.generic import as_reports
from cxrtext.datasets.importing.reading import PLAIN
from cxrtext.errors import DataError
from cxrtext.files.yaml_text import parse_yaml
from cxrtext.records import LeftOut, Study
from cxrtext.text import study_sentences
from cxrtext.text.assertions import Assertion
from cxrtext.text.rules import rules_of
from cxrtext.text.sides import side_of
from cxrtext.text.wording import mentions, wording

NO_FINDING, DEVICES = "No Finding", "Support Devices"
FEW = 5  # with fewer sentences of the corpus a finding gets the plain ones too
DENIALS = 2  # at most so many findings of a study are denied, by a sentence each

_TOKEN = re.compile(r"[\w'/-]+")


@cache
def _lists() -> dict[str, Any]:
    lists: dict[str, Any] = parse_yaml(Path(__file__).with_suffix(".yaml").read_bytes())
    return lists


def corpus_sentences(corpus: str) -> Iterator[str]:
    """The distinct sentences of a table or folder of reports; none of :data:`PLAIN`."""
    if corpus == PLAIN:
        return
    if not Path(corpus).exists():
        raise DataError(f"{corpus}: no such table or folder of reports; or give '{PLAIN}'")
    seen: set[str] = set()
    for one in as_reports(Path(corpus)):
        if not isinstance(one, LeftOut):
            for said in study_sentences(Study("", one.report, one.sections)):
                text = said.sentence.strip().rstrip(" .") + "."
                if ":" not in text and text.lower() not in seen:  # what follows a heading
                    seen.add(text.lower())
                    yield text


class LabelSentences:
    """The sentences that may be said of the findings of a set; ``without``: those without any."""

    def __init__(self, findings: Sequence[str], corpus: Iterable[str] = ()) -> None:
        lists = _lists()
        self._entries: dict[str, dict[str, Any]] = {
            name: one
            for key, one in lists["findings"].items()
            for name in findings
            if name.lower().replace("_", " ") in (key.lower(), *one.get("also", ()))
        }
        self.without = tuple(n for n in findings if n not in self._entries and n != NO_FINDING)
        own = {name: _words(one, "words", "with") for name, one in self._entries.items()}
        forms = {word: n for n, one in self._entries.items() for word in one["words"].split()}
        self._forms, self._own = forms, own
        self._present: dict[str, list[str]] = {name: [] for name in self._entries}
        self._absent: list[tuple[str, frozenset[str]]] = []
        self._normal: list[str] = []
        self._fitting: dict[frozenset[str], dict[str, list[str]]] = {}
        for text in corpus:
            self._take(text)
        alone = Counter(name for _, names in self._absent if len(names) == 1 for name in names)
        for name, one in self._entries.items():
            if len(self._present[name]) < FEW:
                self._take_plain("present", one["say"])
            if alone[name] < FEW:
                self._take_plain("absent", [re.sub("^an? ", "", phrase) for phrase in one["say"]])
        self._normal = self._normal or lists["no finding"]

    def said(self, text: str) -> tuple[Assertion, ...]:
        """What a sentence says of the findings of the set."""
        affirmed, denied = (
            {self._forms[w] for w in words & self._forms.keys()} for words in mentions(text)
        )
        limited = rules_of(text).patterns["limited"].search(text) is not None
        return tuple(
            [Assertion(name, True, side_of(text)) for name in sorted(affirmed)]
            + [Assertion(name, False, limited=limited) for name in sorted(denied - affirmed)]
        )

    def _take_plain(self, kind: str, phrases: Iterable[str]) -> None:
        for phrase in dict.fromkeys(phrases):
            for template in _lists()[kind]:
                text = template.format(phrase)
                self._take(text[0].upper() + text[1:])

    def _take(self, text: str) -> None:
        """Keep a sentence that says nothing but what labels say."""
        lists, tokens, said = _lists(), set(_TOKEN.findall(text.lower())), self.said(text)
        names = frozenset(one.finding for one in said)
        beside = _words(lists, "beside").union(*(self._own[name] for name in names))
        if said and not any(one.present or one.limited for one in said):
            if tokens <= beside | _words(lists, "denying"):
                self._absent.append((text, names))
        elif len(said) == 1 and tokens <= beside:
            self._present[said[0].finding].append(text)
        elif not said and tokens <= _words(lists, "normal"):
            core = tokens & _words(lists, "core") or wording(text) == "negated"
            if core and not mentions(text)[0]:
                self._normal.append(text)

    def report(self, labels: Mapping[str, int | None], key: str) -> str:
        """The sentences of a study with these labels, drawn by a key; "" where none can be said."""
        draw = np.random.default_rng(digest(key))
        present = [name for name, value in labels.items() if value == 1 and name != NO_FINDING]
        said = [_one(self._present[name], draw) for name in present if name in self._present]
        if labels.get(NO_FINDING) == 1 and set(present) <= {DEVICES}:
            said.append(_one(self._normal, draw))
        # A label such as "multiple nodules" has words of another finding in its name.
        told = {self._forms.get(w) for n in present for w in _TOKEN.findall(n.lower())}
        absent = frozenset(
            name
            for name, one in self._entries.items()
            if labels.get(name) == 0 and not ({*present} & {*one.get("over", ())} or name in told)
        )
        left, fitting = set(absent), self._denials(absent)
        for _ in range(DENIALS):
            if left:
                said.append(_one(fitting[_one(sorted(left), draw)], draw))
                left -= {one.finding for one in self.said(said[-1])}
        return " ".join(said)

    def _denials(self, absent: frozenset[str]) -> dict[str, list[str]]:
        """By finding the sentences that deny it, and no finding but these."""
        if absent not in self._fitting:
            found: dict[str, list[str]] = {name: [] for name in absent}
            for text, names in self._absent:
                for name in names if names <= absent else ():
                    found[name].append(text)
            self._fitting[absent] = found
        return self._fitting[absent]


def _words(lists: Mapping[str, Any], *names: str) -> set[str]:
    return {word for name in names for word in lists.get(name, "").split()}


def _one(texts: Sequence[str], draw: np.random.Generator) -> str:
    return texts[int(draw.integers(len(texts)))]
