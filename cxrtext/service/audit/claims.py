"""What reports say of findings that are judged, as arrays: the rule of ``verify`` on all at once.

A film stands against a claim where its evidence lies in the far tail of validation images of which
the claim is true, as :mod:`cxrtext.evaluation.verdicts.judge` has it for a sentence that says one
thing.  What a sentence says beside it makes no difference: many tests are what q-values are for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.verdicts.evidence import Floats
from cxrtext.evaluation.verdicts.kept import FindingVerdicts, KeptVerdicts, Tails
from cxrtext.service.audit.films import Rows
from cxrtext.text.assertions import Assertion
from cxrtext.text.wording import wording

Kind = Literal["missed finding", "not in the film", "wrong side", "exchanged report", "stale text"]
MISSED, NOT_THERE, WRONG_SIDE, EXCHANGED, STALE = range(5)
KINDS: tuple[Kind, ...] = (
    "missed finding", "not in the film", "wrong side", "exchanged report", "stale text",
)  # fmt: skip
UNSAID = -1
"""In place of a sentence: the report does not name the finding, or is meant as a whole."""
Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Report:
    """What a report says: findings that it affirms, rules out and hedges, and its claims.

    A claim is the first of its finding and kind: finding, kind, side (1 left, −1 right, 0) and the
    place of its sentence from 0.
    """

    affirmed: Names
    absent: Names
    hedged: Names
    claims: tuple[tuple[str, int, int, int], ...]
    judged: int  # sentences that say something of a finding that is judged


class Reader:
    """Reads reports; what a sentence says is worked out once."""

    def __init__(self, kept: KeptVerdicts) -> None:
        self._vocabulary = kept.vocabulary()
        self.judged = {name: one for name, one in kept.findings.items() if one.there}
        self._known: dict[str, tuple[tuple[Assertion, ...], Names, Names, Names]] = {}

    def _read(self, text: str) -> tuple[tuple[Assertion, ...], Names, Names, Names]:
        """Assertions of a sentence; findings that it affirms, denies, and hedges."""
        if text not in self._known:
            says = self._vocabulary.says([text])
            doubtful = wording(text) == "uncertain"
            said = () if doubtful else self._vocabulary.assertions(text)
            affirmed = frozenset(says.present)
            self._known[text] = said, affirmed, says.absent, says.named - affirmed - says.absent
        return self._known[text]

    def report(self, sentences: Sequence[str]) -> Report:
        read = [self._read(one) for one in sentences]
        affirmed = Names().union(*(one[1] for one in read))
        hedged = Names().union(*(one[3] for one in read))
        absent = Names().union(*(one[2] for one in read)) - affirmed - hedged
        claims: dict[tuple[str, int], tuple[int, int]] = {}
        for place, (said, *_) in enumerate(read):
            for one in said:
                for kind, side in self._kinds(one, affirmed | hedged):
                    claims.setdefault((one.finding, kind), (side, place))
        named = {one.finding for said, *_ in read for one in said}
        for name in sorted(self.judged.keys() - affirmed - hedged - absent - named):
            claims.setdefault((name, MISSED), (0, UNSAID))
        judged = sum(any(one.finding in self.judged for one in said) for said, *_ in read)
        return Report(affirmed, absent, hedged, tuple((*k, *v) for k, v in claims.items()), judged)

    def _kinds(self, one: Assertion, said: Names) -> Iterator[tuple[int, int]]:
        """The ways in which a film can stand against an assertion, and the side that is named."""
        known = self.judged.get(one.finding)
        if known is None:
            return
        side = {"left": 1, "right": -1, "": 0}[one.side]
        sided = side and known.side is not None and known.side.reason is None
        if one.present:
            yield NOT_THERE, 0
            if sided:
                yield WRONG_SIDE, side
        elif not one.limited and one.finding not in said and (sided or not side):
            yield MISSED, side


def claims_of(reports: Sequence[Report], findings: Sequence[str]) -> Rows:
    """The claims of the report of each film, [n, 5]: the film, the finding's place, the rest."""
    place = {name: at for at, name in enumerate(findings)}
    rows = [
        (film, place[name], *rest)
        for film, report in enumerate(reports)
        for name, *rest in report.claims
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 5)


def against(
    claims: Rows, presence: Floats, left: Floats, kept: Sequence[FindingVerdicts]
) -> NDArray[np.bool_]:
    """Which of n claims films stand against, by evidence [n] for their finding and for its left."""
    _, finding, kind, side, _ = claims.T
    (missing, there), (wrong, there_too) = (
        ((value < below) & ~(value > above), (value > above) & ~(value < below))
        for value, (below, above) in (
            (presence, _ends([one.presence for one in kept])[:, finding]),
            (side * left, _ends([one.side for one in kept])[:, finding]),
        )
    )
    denied = there & ((side == 0) | there_too)
    found: NDArray[np.bool_] = np.select(
        [kind == MISSED, kind == NOT_THERE], [denied, missing], wrong
    )
    return found


def _ends(tails: Sequence[Tails | None]) -> Floats:
    """Where the tails of findings begin, [2, F]: below the first, above the second."""
    found = np.tile([[-np.inf], [np.inf]], len(tails))
    for at, one in enumerate(tails):
        for row, end in enumerate((one.below, one.above) if one else ()):
            if end and end[0] is not None:
                found[row, at] = end[0]
    return found
