"""Words for findings in a corpus of reports, and which report affirms each of them.

A word that some reports affirm and others deny names a finding: articles, anatomy, quantities and
times are seldom denied.  :func:`find_words` finds these words in a corpus, and adds a list of
findings that are rarely denied, such as devices.  A study's words are the targets of a classifier
(:func:`word_targets`), without any labels.  People may edit the words (:func:`write_words`,
:func:`read_words`).

Like labels made from reports by rules (Irvin et al. 2019, CheXpert; Peng et al. 2018, NegBio), but
with the vocabulary found instead of given.
"""

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cxrtext.errors import DataError
from cxrtext.files import write_text
from cxrtext.text.rules import WORD, words_in_any
from cxrtext.text.sides import SIDES, Side, sided_parts
from cxrtext.text.wording import mentions, wording

AFFIRMED, ENOUGH, FEWEST = 0.02, 10, 5
"""A word needs to be affirmed by this share of the reports, or by this number if that is fewer (so
that rare findings of a large archive are kept), but always by at least the last number."""
DENIED, FEWEST_DENIED = 0.005, 3
"""A word needs to be denied by this share of the reports, and by at least this number."""
MOST = 0.5
"""A word may be affirmed by at most this share of the reports."""

Targets = np.ndarray[tuple[int, int], np.dtype[np.int8]]

_MARKS = re.compile(r"\[\*\*.{0,200}?\*\*\]|_{2,}|(?<![\w-])(-*)\b[\w-]*X{2,}[\w-]*\b")
"""Marks of de-identification: [** **] and ___ in MIMIC, XXXX in Open-i; found in linear time."""

STOP = words_in_any("stop")
"""Words that are never chosen automatically; a file of words may have them."""
SELDOM_DENIED = words_in_any("seldom_denied")
"""Findings and devices that need not be denied to be chosen."""

_ABOUT = """\
# Words of findings: the image encoder learns which reports affirm each of them.
# One a line; further forms of a word follow it after commas, and "left" or "right" before it asks
# for that side. Lines that begin with # are not read. Edit the list and give it back with --words.
"""


class StudyWords(NamedTuple):
    """The words of a report or a sentence, in lower case."""

    affirmed: frozenset[str] = frozenset()  # by `mentions`, in any of its sentences
    denied: frozenset[str] = frozenset()
    hedged: frozenset[str] = frozenset()  # all words of sentences that hedge
    left: frozenset[str] = frozenset()  # affirmed in a part about this side (`sided_parts`)
    right: frozenset[str] = frozenset()

    def affirms(self, finding: "FindingWord") -> bool:
        """Whether any form of a finding's word is affirmed, on the finding's side if it has one."""
        of = {"": self.affirmed, "left": self.left, "right": self.right}[finding.side]
        return not of.isdisjoint(finding.forms)

    def denies(self, finding: "FindingWord") -> bool:
        """Whether a form of a finding's word is denied and none is affirmed or hedged."""
        others = self.affirmed | self.hedged
        return not self.denied.isdisjoint(finding.forms) and others.isdisjoint(finding.forms)

    def unknown(self, finding: "FindingWord") -> bool:
        """Whether the report leaves a finding open.

        It hedges the word without affirming it, or affirms it without naming a side.
        """
        if self.affirms(finding):
            return False
        if not self.hedged.isdisjoint(finding.forms):
            return True
        if not finding.side or self.affirmed.isdisjoint(finding.forms):
            return False
        return (self.right if finding.side == "left" else self.left).isdisjoint(finding.forms)


@dataclass(frozen=True, slots=True)
class FindingWord:
    forms: tuple[str, ...]  # the forms of the word, in lower case; the first names the finding
    side: Side = ""  # if given, only this side counts
    affirmed: int = field(default=0, compare=False)  # reports of the corpus that affirm it
    denied: int = field(default=0, compare=False)  # reports that deny it and do not affirm it

    @property
    def name(self) -> str:
        """Such as "effusion" or "left effusion"."""
        return f"{self.side} {self.forms[0]}".strip()


def corpus_words(studies: Iterable[Iterable[str]]) -> list[StudyWords]:
    """The words of each report of a corpus, given as its sentences."""
    remembered = cache(sentence_words)  # sentences repeat; the cache ends with this call
    return [together(map(remembered, sentences)) for sentences in studies]


def together(parts: Iterable[StudyWords]) -> StudyWords:
    """The words of a report, from those of its sentences."""
    return StudyWords(*(frozenset[str]().union(*same) for same in zip(*parts, strict=True)))


def sentence_words(sentence: str) -> StudyWords:
    """The words of a sentence, without marks of de-identification."""
    text = _MARKS.sub(r"\1 ", sentence)
    affirmed, denied = mentions(text)
    hedged = set(map(str.lower, WORD.findall(text))) if wording(text) == "uncertain" else set()
    sided: dict[Side, set[str]] = {"left": set(), "right": set()}
    for part, sides in sided_parts(text) if affirmed else ():
        for side in sides:
            sided[side] |= mentions(part)[0] & affirmed
    # interned: one string per word, however many sentences have it
    kinds = (affirmed, denied, hedged, sided["left"], sided["right"])
    return StudyWords(*(frozenset(map(sys.intern, words)) for words in kinds))


def affirmed_findings(sentences: Iterable[str]) -> set[str]:
    """The findings of :data:`SELDOM_DENIED` that sentences affirm."""
    affirmed = {word for sentence in sentences for word in mentions(sentence)[0]}
    return {singular(word, SELDOM_DENIED) for word in affirmed} & SELDOM_DENIED


def find_words(studies: Sequence[StudyWords], *, sides: bool = False) -> list[FindingWord]:
    """The words for findings in the reports of a corpus.

    Plurals are forms of their singular if the corpus has both.  A word is chosen if enough reports
    affirm it (:data:`AFFIRMED`, :data:`ENOUGH`), at most :data:`MOST` do, and :data:`DENIED` deny
    it, unless it is in :data:`SELDOM_DENIED`.

    The most affirmed come first, then by name.  With ``sides``, a word that enough reports affirm
    on the left and on the right is also added once per side, after all others.
    """
    total = len(studies)
    forms = _forms({word for study in studies for word in study.affirmed | study.denied})
    affirmed, denied = _counts(studies, forms)
    least = max(FEWEST, min(math.ceil(AFFIRMED * total), ENOUGH))
    least_denied = max(FEWEST_DENIED, math.ceil(DENIED * total))
    chosen = [
        FindingWord(tuple(sorted({*same}, key=lambda w: (w != word, w))), "", count, denied[word])
        for word, same in forms.items()
        if least <= (count := affirmed[word]) <= MOST * total
        and word not in STOP
        and len(word) > 2
        and (denied[word] >= least_denied or word in SELDOM_DENIED)
    ]
    chosen.sort(key=lambda one: (-one.affirmed, one.name))
    return chosen + (_by_side(studies, chosen, least) if sides else [])


def _by_side(
    studies: Sequence[StudyWords], found: Sequence[FindingWord], least: int
) -> list[FindingWord]:
    sided = []
    for word in found:
        pair = counted([FindingWord(word.forms, side) for side in SIDES], studies)
        if all(one.affirmed >= least for one in pair):
            sided += pair
    return sided


def counted(words: Iterable[FindingWord], studies: Sequence[StudyWords]) -> list[FindingWord]:
    """The words with the number of reports that affirm and deny each."""
    return [
        FindingWord(
            word.forms,
            word.side,
            sum(study.affirms(word) for study in studies),
            sum(
                not study.affirms(word) and not study.denied.isdisjoint(word.forms)
                for study in studies
            ),
        )
        for word in words
    ]


def _forms(vocabulary: set[str]) -> dict[str, list[str]]:
    """Words of a vocabulary and their plurals in it, by the singular."""
    forms: dict[str, list[str]] = defaultdict(list)
    for word in sorted(vocabulary):
        forms[singular(word, vocabulary)].append(word)
    return dict(forms)


def singular(word: str, vocabulary: Set[str]) -> str:
    for ending, instead in (("aces", "ax"), ("ies", "y"), ("ses", "sis"), ("es", ""), ("s", "")):
        if word.endswith(ending) and not word.endswith(("ss", "is", "us")):
            shorter = word.removesuffix(ending) + instead
            if len(shorter) > 2 and shorter in vocabulary:
                return shorter
    return word


def _counts(
    studies: Sequence[StudyWords], forms: dict[str, list[str]]
) -> tuple[Counter[str], Counter[str]]:
    """By word, how many reports affirm it in any form, and how many deny and do not affirm it."""
    base = {form: word for word, same in forms.items() for form in same}
    affirmed: Counter[str] = Counter()
    denied: Counter[str] = Counter()
    for study in studies:
        there = {base[form] for form in study.affirmed}
        affirmed.update(there)
        denied.update({base[form] for form in study.denied} - there)
    return affirmed, denied


def word_targets(words: Sequence[FindingWord], studies: Sequence[StudyWords]) -> Targets:
    """Which report affirms which word, [studies, words].

    1 affirmed; 0 denied or not mentioned; -1 unknown: hedged, or without the side.
    """
    values = [
        [1 if study.affirms(word) else -1 if study.unknown(word) else 0 for word in words]
        for study in studies
    ]
    return np.asarray(values, dtype=np.int8).reshape(len(studies), len(words))


def write_words(path: Path, words: Iterable[FindingWord]) -> None:
    """Write words to a file that people can edit and :func:`read_words` reads."""
    lines = (f"{word.side} {', '.join(word.forms)}".strip() + "\n" for word in words)
    write_text(path, _ABOUT + "".join(lines))


def read_words(path: Path, studies: Sequence[StudyWords]) -> list[FindingWord]:
    """Read a file of words, and count them in a corpus (DataError)."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # editors add a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DataError(f"{path}: cannot be read ({reason}); give a text file of words") from None
    words: list[FindingWord] = []
    first: dict[tuple[Side, str], int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        word = _word_of_line(path, number, line)
        for form in word.forms:
            before = first.setdefault((word.side, form), number)
            if before != number:
                raise DataError(
                    f"{path}: line {number}: '{form}' is in line {before} already; keep one of them"
                )
        words.append(word)
    if not words:
        raise DataError(f"{path}: has no words; write one per line, such as effusion")
    counts = counted(words, studies)
    for word in counts:
        if not word.affirmed:
            place = first[word.side, word.forms[0]]
            raise DataError(
                f"{path}: line {place}: no training report affirms '{word.name}'; correct its "
                "spelling, or remove the line"
            )
    return counts


def _word_of_line(path: Path, number: int, line: str) -> FindingWord:
    text = line.strip().lower()
    side: Side = "left" if text.startswith("left ") else ""
    side = "right" if text.startswith("right ") else side
    forms = tuple(form.strip() for form in text.removeprefix(side).split(","))
    if not all(map(WORD.fullmatch, forms)) or len(set(forms)) < len(forms):
        raise DataError(
            f"{path}: line {number}: is not a finding word; write a single word, such as "
            "effusion, its other forms after commas (effusion, effusions), or a side before it "
            "(left effusion)"
        )
    return FindingWord(forms, side)
