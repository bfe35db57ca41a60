"""What sentences say of findings: there or not there, and on which side.

A sentence affirms or denies words of findings (:mod:`cxrtext.text.finding_words`), or it denies
them without a word of them: "The heart is normal in size." rules out cardiomegaly, "No acute
process." an effusion.  Which findings such a sentence rules out is learned from a corpus
(:func:`learn_exclusions`): reports that hold the sentence hardly ever affirm them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cxrtext.text.finding_words import (
    SELDOM_DENIED,
    StudyWords,
    find_words,
    sentence_words,
    singular,
    together,
)
from cxrtext.text.labelling import sentence_labels
from cxrtext.text.rules import WORD, rules_of
from cxrtext.text.sides import SIDES, Side, side_of, sides_of

LEAST_EXPECTED = 10.0
"""Reports that would affirm a finding beside a statement if the two had nothing to do with each
other: with fewer, that none does proves little."""
RULED_OUT = 0.1
"""A statement rules a finding out where reports affirm both at most this share as often as that."""
MOST_RULED_OUT = 6
"""Findings that a statement without a word of one is judged by, the most affirmed first."""


@dataclass(frozen=True, slots=True, order=True)
class Assertion:
    finding: str  # the name of a word of findings
    present: bool
    side: Side = ""  # the one side that it is said of
    limited: bool = False  # a denial of a large one alone: "no large effusion"
    implied: bool = False  # a denial by a sentence without a word of the finding

    def __str__(self) -> str:
        said = " ".join(word for word in (self.side, self.finding) if word)
        return said if self.present else f"no {'large ' if self.limited else ''}{said}"


@dataclass(frozen=True, slots=True)
class StudySays:
    """What a report says of findings."""

    # those that it affirms, with the sides that it names (both where it names none)
    present: Mapping[str, frozenset[Side]]
    absent: frozenset[str]  # those that it rules out and nowhere affirms or hedges
    named: frozenset[str]  # all that it names, in whatever way

    def contradicts(self, said: Iterable[Assertion]) -> bool:
        """Whether it says the opposite of any of some assertions."""
        return any(map(self._contradicts, said))

    def _contradicts(self, one: Assertion) -> bool:
        sides = self.present.get(one.finding)
        if one.present:
            other_side = bool(one.side) and sides is not None and one.side not in sides
            return one.finding in self.absent or other_side
        if sides is None or one.limited:
            return False
        return not one.side or sides == {one.side}


@dataclass(frozen=True)
class Vocabulary:
    """The findings of a corpus, and what its statements rule out."""

    forms: Mapping[str, str]  # the finding of each form of its word
    # findings that rarely stand alone in a sentence ("interstitial edema"): beside another they say
    # nothing of their own.
    modifiers: frozenset[str] = frozenset()
    # the other findings that a statement rules out, by a word that it denies, or that it holds
    # while it affirms nothing.
    excludes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def assertions(self, sentence: str) -> tuple[Assertion, ...]:
        """What a sentence says of findings; nothing where it hedges, or is about none."""
        words = words_of(sentence)
        present = self._findings(words.affirmed)
        absent = self._findings(words.denied) - present
        if len(present) > 1:
            present = (present - self.modifiers) or present
        found = [Assertion(one, True, self._side(one, words)) for one in present]
        limited = bool(rules_of(sentence).patterns["limited"].search(sentence))
        side = side_of(sentence) if absent and not present else ""
        found += [Assertion(one, False, side, limited) for one in absent]
        found = found or self._by_rules(sentence)
        if not found:
            implied = self.ruled_out(sentence)[:MOST_RULED_OUT]
            found = [Assertion(one, False, implied=True) for one in implied]
        return tuple(sorted(found))

    def _by_rules(self, sentence: str) -> list[Assertion]:
        """What the labeler affirms of findings whose word is known: "The heart is enlarged."."""
        found = []
        for name, label in sentence_labels(sentence).items():
            side: Side = label.side if label.side in SIDES else ""
            known = self._findings(WORD.findall(name.lower())) if label.value == 1 else ()
            found += [Assertion(one, True, side) for one in known]
        return found

    def ruled_out(self, sentence: str) -> list[str]:
        """The findings that a sentence rules out, whether it names them or not."""
        found = self._findings(words_of(sentence).denied)
        for statement in statements_of(sentence):
            found |= set(self.excludes.get(statement, ()))
        order = {name: place for place, name in enumerate(dict.fromkeys(self.forms.values()))}
        return sorted(found - self._findings(words_of(sentence).affirmed), key=order.__getitem__)

    def says(self, sentences: Iterable[str]) -> StudySays:
        """What the sentences of one report say together."""
        present: dict[str, set[Side]] = defaultdict(set)
        absent: set[str] = set()
        hedged: dict[str, set[Side]] = defaultdict(set)
        for sentence in sentences:
            words, sides = words_of(sentence), sides_of(sentence)
            sided = self._findings(words.left | words.right)
            for one in self._findings(words.affirmed):
                present[one] |= sides if one in sided or len(sides) > 1 else set()
            for one in self._findings(words.hedged):
                hedged[one] |= sides
            if statements_of(sentence):
                absent |= set(self.ruled_out(sentence))
        for one in present:
            present[one] |= hedged.get(one, set())
        return StudySays(
            {one: frozenset(sides or SIDES) for one, sides in present.items()},
            frozenset(absent - set(present) - set(hedged)),
            frozenset({*present, *hedged, *absent}),
        )

    def _findings(self, words: Iterable[str]) -> set[str]:
        return {self.forms[word] for word in words if word in self.forms}

    def _side(self, finding: str, words: StudyWords) -> Side:
        forms = {form for form, one in self.forms.items() if one == finding}
        left, right = (bool(forms & sided) for sided in (words.left, words.right))
        return "" if left == right else "left" if left else "right"


words_of = lru_cache(maxsize=50_000)(sentence_words)


def affirmed_findings(sentences: Iterable[str]) -> set[str]:
    """The findings of :data:`~cxrtext.text.finding_words.SELDOM_DENIED` that sentences affirm."""
    affirmed = {word for sentence in sentences for word in words_of(sentence).affirmed}
    return {singular(word, SELDOM_DENIED) for word in affirmed} & SELDOM_DENIED


def statements_of(sentence: str) -> set[str]:
    """The words of a sentence that may rule findings out.

    They are those that it denies; of one that affirms nothing and does not hedge, all but articles
    and the like.  None where it speaks of one side or of large ones alone.
    """
    if side_of(sentence) or rules_of(sentence).patterns["limited"].search(sentence):
        return set()
    words = words_of(sentence)
    if words.affirmed or words.hedged:
        return set(words.denied - words.affirmed)
    return set(WORD.findall(sentence.lower())) - rules_of(sentence).words["function_words"]


def learn_vocabulary(studies: Sequence[Sequence[str]]) -> Vocabulary:
    """Learn the words of findings from the sentences of reports, and what rules findings out.

    Words that mean one finding become one: reports that deny "enlarged" hardly ever affirm
    "cardiomegaly".  Studies that are measured later should not be among these.
    """
    findings = find_words([together(map(words_of, sentences)) for sentences in studies])
    forms = {form: one.name for one in findings for form in one.forms}
    forms = _joined(studies, Vocabulary(forms))
    plain = Vocabulary(forms)
    return Vocabulary(forms, _modifiers(studies, plain), learn_exclusions(studies, plain))


def _joined(studies: Sequence[Sequence[str]], vocabulary: Vocabulary) -> dict[str, str]:
    """Forms and their findings, where those that a denial of the other rules out are one.

    Unless another pair among them is affirmed and denied together: "no opacity" rules a nodule
    out, but where there is no nodule there may well be an opacity.
    """

    def denied(sentence: str) -> set[str]:
        return vocabulary._findings(statements_of(sentence) & words_of(sentence).denied)

    tested = _tested(studies, vocabulary, denied, LEAST_EXPECTED / 2)
    names = list(dict.fromkeys(vocabulary.forms.values()))
    groups = {name: [name] for name in names}
    for one in names:
        for other in names:
            both = [(a, b) for a in groups[one] for b in groups[other]]
            if groups[one] is groups[other] or not (
                tested.get(one, {}).get(other) or tested.get(other, {}).get(one)
            ):
                continue
            pairs = both + [(b, a) for a, b in both]
            if all(tested.get(a, {}).get(b, True) for a, b in pairs):
                groups[one] += groups[other]
                groups |= dict.fromkeys(groups[other], groups[one])
    return {form: min(groups[of], key=names.index) for form, of in vocabulary.forms.items()}


def learn_exclusions(
    studies: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> dict[str, tuple[str, ...]]:
    """The findings that the statements of a corpus rule out; see :class:`Vocabulary`.

    A statement rules a finding out where at least :data:`LEAST_EXPECTED` reports would affirm it
    beside the statement by chance, and at most :data:`RULED_OUT` as many do.
    """
    tested = _tested(studies, vocabulary, statements_of, LEAST_EXPECTED)
    found = {one: tuple(of for of, out in some.items() if out) for one, some in tested.items()}
    return {one: some for one, some in found.items() if some}


def _tested(
    studies: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    statements: Callable[[str], set[str]],
    least: float,
) -> dict[str, dict[str, bool]]:
    """Whether statements rule findings out, by reports that do not deny the finding by its word.

    Only where enough reports would affirm both by chance.  The most affirmed findings come first.
    Many reports deny an effusion wherever they deny a pneumothorax; the one says nothing of the
    other.
    """
    affirmed: Counter[str] = Counter()
    denied: Counter[str] = Counter()
    stated: Counter[str] = Counter()
    with_affirmed: Counter[tuple[str, str]] = Counter()
    with_denied: Counter[tuple[str, str]] = Counter()
    for sentences in studies:
        words = [words_of(sentence) for sentence in sentences]
        absent = {one for word in words for one in vocabulary._findings(word.denied)}
        there = {one for word in words for one in vocabulary._findings(word.affirmed)} - absent
        said = {one for sentence in sentences for one in statements(sentence)}
        affirmed.update(there)
        denied.update(absent)
        stated.update(said)
        with_affirmed.update((statement, one) for statement in said for one in there)
        with_denied.update((statement, one) for statement in said for one in absent)
    order = sorted(affirmed, key=lambda one: (-affirmed[one], one))
    found: dict[str, dict[str, bool]] = {}
    for statement, times in sorted(stated.items()):
        for one in order:
            share = affirmed[one] / (len(studies) - denied[one])
            expected = (times - with_denied[statement, one]) * share
            if expected >= least:
                out = with_affirmed[statement, one] <= RULED_OUT * expected
                found.setdefault(statement, {})[one] = out
    return found


def _modifiers(studies: Iterable[Sequence[str]], vocabulary: Vocabulary) -> frozenset[str]:
    """Findings that stand without another in fewer than half of the sentences that affirm them."""
    alone: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for sentences in studies:
        for sentence in sentences:
            there = vocabulary._findings(words_of(sentence).affirmed)
            seen.update(there)
            alone.update(there if len(there) == 1 else ())
    return frozenset(one for one, count in seen.items() if alone[one] < count / 2)
