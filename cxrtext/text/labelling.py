"""Labels from reports: which findings each affirms, denies or hedges, on which side, and where.

As in CheXpert's labeler, phrases name findings, and what governs a phrase decides.  A hedge governs
the findings after it in its clause, or, if there are none, those before it.  Statements that name
no finding may rule some out ("The heart is normal in size.").

Source: Irvin et al. 2019 (CheXpert), section 3.2.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cxrtext.text.fields import as_prose
from cxrtext.text.rules import Rules, rules, rules_of
from cxrtext.text.sides import side_of, sided_parts
from cxrtext.text.wording import Parts, Span, meets, merged, parts_of

NO_FINDING, DEVICES = "No Finding", "Support Devices"
FINDINGS = tuple(rules("en").prompts)
"""The findings; the last, ``No Finding``, is a label of reports, not of sentences."""
OPACITIES = ("Consolidation", "Pneumonia")
"""If affirmed or hedged, each is also a ``Lung Opacity``."""
MIDLINE = ("Cardiomegaly",)  # has no side
_STRENGTH = (None, 0, -1, 1)


class Label(NamedTuple):
    """What a report says about a finding: 1 affirmed, 0 denied or ruled out, -1 only hedged."""

    value: int | None = None  # None if it says nothing
    side: str = ""  # left, right or both, if it says so
    sentence: str = ""  # the first sentence that says it


def label_report(sentences: Iterable[str]) -> dict[str, Label]:
    """The label of each of :data:`FINDINGS`; what is affirmed anywhere is affirmed.

    ``No Finding`` is 0 if a finding other than devices is affirmed or hedged.  It is 1 if none is,
    every sentence is understood, and one denies a finding or says that something is normal.  Else
    it is None.
    """
    labels = dict.fromkeys(FINDINGS, Label())
    normal, understood = False, True
    for sentence in sentences:
        new_labels = sentence_labels(sentence)
        understood = understood and as_prose(sentence).understood
        normal = (
            normal or says_normal(sentence) or any(one.value == 0 for one in new_labels.values())
        )
        for finding, new in new_labels.items():
            old = labels[finding]
            if new.value == old.value:
                sides = {old.side, new.side} - {""}
                # "No effusion." holds for both sides, whatever another sentence adds about one.
                side = "both" if len(sides) > 1 else "".join(sides)
                everywhere = new.value == 0 and not (old.side and new.side)
                labels[finding] = old._replace(side="" if everywhere else side)
            elif _STRENGTH.index(new.value) > _STRENGTH.index(old.value):
                labels[finding] = new
    present = [one for name, one in labels.items() if one.value and name != DEVICES]
    if present or (normal and understood):
        labels[NO_FINDING] = Label(int(not present), "", present[0].sentence if present else "")
    return labels


def says_normal(sentence: str) -> bool:
    """Whether a sentence says that something is normal."""
    return rules_of(sentence).patterns["normal"].search(as_prose(sentence).text) is not None


def understands(sentence: str) -> bool:
    """Whether a sentence says something about a finding, or that something is normal."""
    return as_prose(sentence).understood and bool(
        sentence_labels(sentence) or says_normal(sentence)
    )


def covered(sentences: Sequence[str]) -> float:
    """The share of sentences that :func:`understands`."""
    return sum(map(understands, sentences)) / max(len(sentences), 1)


@lru_cache(maxsize=50_000)
def sentence_labels(sentence: str) -> dict[str, Label]:
    """The labels of one sentence, only for findings that it says something about."""
    parts, prose = parts_of(sentence), as_prose(sentence).text
    bounds = [m.start() for m in parts.rules.patterns["clause_end"].finditer(parts.text)]
    aside = merged(
        (match.start(), _clause(parts, bounds, *match.span())[1])
        for match in parts.rules.patterns["aside"].finditer(parts.text)
    )
    spans = {
        finding: [
            span
            for span in (match.span() for match in pattern.finditer(parts.text))
            if not meets(span, aside)
        ]
        for finding, pattern in parts.rules.findings.items()
    }
    doubts = _doubts(parts, bounds, sorted(span[0] for some in spans.values() for span in some))
    labels: dict[str, Label] = {}
    for finding, some in spans.items():
        values = {_value(parts, span, doubts): span for span in reversed(some)}
        if values:
            value = max(values, key=_STRENGTH.index)
            begin, end = _clause(parts, bounds, *values[value])
            side = _side(prose, parts.rules, finding) if value else side_of(parts.text[begin:end])
            side = "" if finding in MIDLINE else side
            labels[finding] = Label(value, side, sentence)
    opacities = [labels[name] for name in ("Lung Opacity", *OPACITIES) if name in labels]
    if any(one.value for one in opacities):
        labels["Lung Opacity"] = max(opacities, key=lambda one: _STRENGTH.index(one.value))
    for pattern, findings in () if parts.hedges else parts.rules.ruled_out:
        match = pattern.search(parts.text)
        # "The left lung is clear."
        if match and not side_of(parts.text[slice(*_clause(parts, bounds, *match.span()))]):
            labels |= {name: Label(0, "", sentence) for name in findings if name not in labels}
    return labels


class _Doubts(NamedTuple):
    """The hedges of a sentence in order."""

    starts: list[int]  # of each hedge
    begins: list[int]  # of its clause
    stops: list[int]  # the end of its clause
    backward: list[Span]  # the clauses of hedges that also govern what comes before them


def _doubts(parts: Parts, bounds: list[int], named: list[int]) -> _Doubts:
    """The hedges of a sentence; ``named`` are the places that name findings, in order."""
    # No clause ends just after a hedge: "may be | due to".
    clauses = [_clause(parts, bounds, start, end + 2) for start, end in parts.hedges]
    backward = []
    for (start, end), clause in zip(parts.hedges, clauses, strict=True):
        follows = bisect_left(named, end) < bisect_left(named, clause[1])
        if not follows and not parts.rules.patterns["forward"].match(parts.text, start):
            backward.append(clause)
    begins, stops = [a for a, _ in clauses], [b for _, b in clauses]
    return _Doubts([start for start, _ in parts.hedges], begins, stops, merged(backward))


def _value(parts: Parts, span: Span, doubts: _Doubts) -> int:
    first, last = (span[0], span[0] + 1), (span[1] - 1, span[1])
    if meets(first, parts.denied) or meets(last, parts.denied):
        return 0
    if meets(first, doubts.backward):
        return -1
    # Clauses begin and end in the order of their hedges, so the last possible hedge governs.
    one = min(bisect_left(doubts.starts, span[1]), bisect_right(doubts.begins, span[0])) - 1
    return -1 if one >= 0 and span[0] < doubts.stops[one] else 1


def _clause(parts: Parts, bounds: list[int], start: int, end: int) -> Span:
    """The clause around a part of a sentence; ``bounds`` are the ends of clauses, in order."""
    before, after = bisect_right(bounds, start), bisect_left(bounds, end)
    begin = bounds[before - 1] if before else 0
    return begin, bounds[after] if after < len(bounds) else len(parts.text)


def _side(prose: str, own: Rules, finding: str) -> str:
    pattern = own.findings[finding]
    sides = {
        side
        for part, some in sided_parts(prose)
        if pattern.search(part) and (part == prose or _not_denied(part, finding))
        for side in some
    }
    return "both" if len(sides) > 1 else "".join(sides)


def _not_denied(part: str, finding: str) -> bool:
    """Of "right effusion; no effusion on the left" the second part gives no side."""
    label = sentence_labels(part).get(finding)
    return label is None or label.value != 0
