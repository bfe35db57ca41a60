"""Labels read off reports: which findings each affirms, denies or hedges, on which side, and where.

In the manner of CheXpert's labeler: phrases name findings, and what governs a phrase decides.  A
doubt governs what follows it in its clause, or where no finding does, what stands before it.
Statements that name no finding may rule some out ("The heart is normal in size.").

Source: Irvin et al. 2019 (CheXpert), section 3.2.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cxrtext.text.rules import rules, rules_of
from cxrtext.text.sides import side_of, sided_parts
from cxrtext.text.wording import Parts, Span, parts_of

NO_FINDING, DEVICES = "No Finding", "Support Devices"
FINDINGS = tuple(rules("en").prompts)
"""What is looked for; ``No Finding`` comes last, and is of no single sentence."""
OPACITIES = ("Consolidation", "Pneumonia")
"""Each is a ``Lung Opacity`` too, where it is affirmed or hedged."""
_STRENGTH = (None, 0, -1, 1)


class Label(NamedTuple):
    """What a report says of a finding: 1 affirmed, 0 denied or ruled out, -1 hedged only."""

    value: int | None = None  # None where it says nothing
    side: str = ""  # left, right or both, where it says so
    sentence: str = ""  # the first that says it


def label_report(sentences: Iterable[str]) -> dict[str, Label]:
    """The label of each of :data:`FINDINGS`; what is affirmed anywhere is affirmed.

    ``No Finding`` is 1 where no finding is affirmed or hedged, devices apart, and None without a
    sentence.
    """
    labels = dict.fromkeys(FINDINGS, Label())
    read = False
    for sentence in sentences:
        read = True
        for finding, new in sentence_labels(sentence).items():
            old = labels[finding]
            if new.value == old.value:
                sides = {old.side, new.side} - {""}
                # "No effusion." holds of both sides, whatever another sentence adds of one.
                side = "both" if len(sides) > 1 else "".join(sides)
                everywhere = new.value == 0 and not (old.side and new.side)
                labels[finding] = old._replace(side="" if everywhere else side)
            elif _STRENGTH.index(new.value) > _STRENGTH.index(old.value):
                labels[finding] = new
    if read:
        found = [one for name, one in labels.items() if one.value and name != DEVICES]
        labels[NO_FINDING] = Label(int(not found), "", found[0].sentence if found else "")
    return labels


def covered(sentences: Sequence[str]) -> float:
    """The share of sentences that say something of a finding, or that something is normal."""
    said = [bool(sentence_labels(one)) or _is_normal(one) for one in sentences]
    return sum(said) / max(len(said), 1)


def _is_normal(sentence: str) -> bool:
    return rules_of(sentence).patterns["normal"].search(sentence) is not None


@lru_cache(maxsize=50_000)
def sentence_labels(sentence: str) -> dict[str, Label]:
    """What one sentence says of findings; without those of which it says nothing."""
    parts = parts_of(sentence)
    aside = [
        (match.start(), _clause(parts, *match.span())[1])
        for match in parts.rules.patterns["aside"].finditer(parts.text)
    ]
    spans = {
        finding: [
            span
            for span in (match.span() for match in pattern.finditer(parts.text))
            if not _meets(span, aside)
        ]
        for finding, pattern in parts.rules.findings.items()
    }
    named = [span for some in spans.values() for span in some]
    labels: dict[str, Label] = {}
    for finding, some in spans.items():
        values = {_value(parts, span, named): span for span in reversed(some)}
        if values:
            value = max(values, key=_STRENGTH.index)
            begin, end = _clause(parts, *values[value])
            side = _side(sentence, finding) if value else side_of(parts.text[begin:end])
            labels[finding] = Label(value, side, sentence)
    opacities = [labels[name] for name in ("Lung Opacity", *OPACITIES) if name in labels]
    if any(one.value for one in opacities):
        labels["Lung Opacity"] = max(opacities, key=lambda one: _STRENGTH.index(one.value))
    if parts.hedges or side_of(sentence):  # "The left lung is clear."
        return labels
    for pattern, findings in parts.rules.ruled_out:
        if pattern.search(parts.text):
            labels |= {name: Label(0, "", sentence) for name in findings if name not in labels}
    return labels


def _value(parts: Parts, span: Span, named: Sequence[Span]) -> int:
    first, last = (span[0], span[0] + 1), (span[1] - 1, span[1])
    if _meets(first, parts.denied) or _meets(last, parts.denied):
        return 0
    for start, end in parts.hedges:
        begin, stop = _clause(parts, start, end + 2)  # none ends just after it: "may be | due to"
        if begin <= span[0] < stop:
            forward = parts.rules.patterns["forward"].match(parts.text, start)
            follows = any(end <= a < stop for a, _ in named)
            if span[1] > start or not (forward or follows):
                return -1
    return 1


def _clause(parts: Parts, start: int, end: int) -> Span:
    """The clause around a part of a sentence."""
    bounds = [m.start() for m in parts.rules.patterns["clause_end"].finditer(parts.text)]
    begin = max((bound for bound in bounds if bound <= start), default=0)
    return begin, min((bound for bound in bounds if bound >= end), default=len(parts.text))


def _meets(span: Span, others: Iterable[Span]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)


def _side(sentence: str, finding: str) -> str:
    pattern = rules_of(sentence).findings[finding]
    sides = {side for part, some in sided_parts(sentence) if pattern.search(part) for side in some}
    return "both" if len(sides) > 1 else "".join(sides)
