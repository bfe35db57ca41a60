"""From the evidence of an image to a verdict on a sentence.

The weakest part decides: a sentence is unsupported where any of what it says is, and supported
where all of it is.  To be unsupported, the evidence must lie in the far tail of images of which the
part is true; where a sentence says k things, in a tail k times as far, so that true sentences of
any length are seldom marked (Bonferroni 1936).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from torch import Tensor

from cxrtext.models import ImageTextModel
from cxrtext.text.assertions import Assertion, assertions_of
from cxrtext.text.wording import wording
from cxrtext.verdicts.evidence import evidence_of
from cxrtext.verdicts.kept import MISSING, FindingVerdicts, KeptVerdicts, Tails

Verdict = Literal["supported", "weak", "unsupported", "not judged"]
ORDER: tuple[Verdict, ...] = ("unsupported", "weak", "supported", "not judged")
"""The least supported first."""

_STRONGEST: tuple[Verdict, ...] = ("unsupported", "not judged", "weak", "supported")

NO_FINDING = "it names no finding that the verdicts were calibrated for"
HEDGED = "its wording is uncertain"
UNLIKE = "the image is unlike those that the model was trained on"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an image shows: evidence of findings, and of their left side rather than the right."""

    presence: Mapping[str, float]
    left: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Test:
    """Evidence beside its thresholds, turned so that much of it speaks for what is said.

    ``test`` is "presence" or "side".  ``true_unsupported`` and ``false_supported`` are the measured
    shares of validation images that were marked wrongly at these thresholds; ``true_images`` and
    ``false_images`` count those that the thresholds were made from.
    """

    test: Literal["presence", "side"]
    auc: float
    evidence: float
    unsupported_below: float | None
    supported_above: float | None
    true_unsupported: float | None
    false_supported: float | None
    true_images: int
    false_images: int

    @property
    def verdict(self) -> Verdict:
        """In neither tail, or in both where they overlap: weak."""
        low = self.unsupported_below is not None and self.evidence < self.unsupported_below
        high = self.supported_above is not None and self.evidence > self.supported_above
        return "weak" if low == high else "unsupported" if low else "supported"

    @property
    def margin(self) -> float:
        """How far the evidence is above the threshold of the unsupported; below 0 it is."""
        return self.evidence - (self.unsupported_below or 0.0)


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """One thing that a sentence says, and its verdict.

    ``auc`` is that of the finding on validation images, None where it was not measured; ``reason``
    says why it is not judged.
    """

    assertion: Assertion
    verdict: Verdict
    auc: float | None = None
    tests: tuple[Test, ...] = ()
    reason: str | None = None

    @property
    def deciding(self) -> Test | None:
        """The test that speaks most against it, where there is one."""
        return min(self.tests, key=lambda t: (ORDER.index(t.verdict), t.margin), default=None)


@dataclass(frozen=True, slots=True)
class Basis:
    """What a verdict rests on; None where there is no such number.

    ``finding`` is what decided, as in "left effusion" or "no pneumothorax"; ``test`` whether the
    finding's presence was asked for or its side.  The other fields are those of :class:`Test`.
    """

    finding: str
    test: Literal["presence", "side"] | None = None
    auc: float | None = None
    evidence: float | None = None
    unsupported_below: float | None = None
    supported_above: float | None = None
    true_unsupported: float | None = None
    false_supported: float | None = None
    true_images: int | None = None
    false_images: int | None = None

    def __str__(self) -> str:
        said = f"{self.finding}: " + ("" if self.test is None else f"evidence {self.evidence:.2f}")
        for name, value in (
            ("unsupported below", self.unsupported_below),
            ("supported above", self.supported_above),
        ):
            said += "" if value is None else f", {name} {value:.2f}"
        for share, of, marked in (
            (self.true_unsupported, self.true_images, "true ones are marked unsupported"),
            (self.false_supported, self.false_images, "false ones supported"),
        ):
            said += "" if share is None else f"; {100 * share:.0f} % of {of} {marked}"
        return said + ("" if self.auc is None else f"; AUC {self.auc:.2f}")


@dataclass(frozen=True, slots=True)
class Judgment:
    """A verdict on a sentence; ``reason`` says why it is not judged.

    ``parts`` are what the sentence says; the one that decided is first.
    """

    verdict: Verdict
    reason: str | None = None
    parts: tuple[JudgedPart, ...] = ()

    @property
    def basis(self) -> Basis | None:
        """What it rests on; None where the sentence says nothing of a known finding."""
        if not self.parts:
            return None
        part = self.parts[0]
        test = part.deciding
        if test is None:
            return Basis(str(part.assertion), auc=part.auc)
        return Basis(str(part.assertion), **asdict(test))


class Judge:
    """Judges sentences by what was kept with a checkpoint; None where nothing was."""

    def __init__(self, kept: KeptVerdicts | None) -> None:
        self.kept = kept
        self._contrasts = {} if kept is None else kept.contrasts()

    def evidence(self, model: ImageTextModel, regions: Tensor) -> Evidence | None:
        """The evidence of an image, regions [1, N, D].

        None where there is nothing to judge by.
        """
        if self.kept is None:
            return None
        found = evidence_of(model, regions, self._contrasts)
        presence, left = ({name: float(one[0]) for name, one in some.items()} for some in found)
        return Evidence(presence, left)

    def doubt(self, sentence: str) -> str | None:
        """Why a sentence is not judged, whatever the image; None where it may be."""
        if wording(sentence) == "uncertain":
            return HEDGED
        if self.kept is None:
            return None
        said = assertions_of(sentence)
        reasons = [_reason(one, self.kept.findings.get(one.finding)) for one in said]
        return NO_FINDING if not reasons else reasons[0] if all(reasons) else None

    def judge(self, sentence: str, evidence: Evidence | None) -> Judgment:
        """The verdict on a sentence; no evidence where the image is unlike those trained on."""
        if self.kept is None:
            return Judgment("not judged", MISSING)
        if wording(sentence) == "uncertain":
            return Judgment("not judged", HEDGED)
        said = assertions_of(sentence)
        if not said:
            return Judgment("not judged", NO_FINDING)
        if evidence is None:
            return Judgment("not judged", UNLIKE)
        return judge_assertions(said, evidence, self.kept.findings)


def judge_assertions(
    said: Sequence[Assertion], evidence: Evidence, findings: Mapping[str, FindingVerdicts]
) -> Judgment:
    """The verdict on what a sentence says, at least one assertion.

    Where one that it only implies is not judged, the rest can be unsupported or weak, but not
    supported.
    """
    k = sum(_tests_of(one, findings.get(one.finding)) for one in said)
    every = [_part(one, evidence, findings.get(one.finding), k) for one in said]
    parts = [p for p in every if p.verdict != "not judged" or not p.assertion.implied] or every
    verdicts = {part.verdict for part in parts}
    # Where a part is not judged the rest can only speak against the sentence.
    verdict = next(one for one in _STRONGEST if one in verdicts)
    parts.sort(key=lambda part: part.verdict != verdict)
    if verdict == "supported" and len(parts) < len(every):
        verdict = "weak"
    return Judgment(verdict, parts[0].reason if verdict == "not judged" else None, tuple(parts))


def _tests_of(one: Assertion, kept: FindingVerdicts | None) -> int:
    """How many chances there are to call an assertion unsupported."""
    if kept is None or kept.presence.reason is not None or one.limited:
        return 0
    sided = one.present and one.side and kept.side is not None and kept.side.reason is None
    return 2 if sided else 1


def _reason(one: Assertion, kept: FindingVerdicts | None) -> str | None:
    """Why a finding is not judged in any image; None where it is."""
    reason = "was not calibrated" if kept is None else kept.presence.reason
    return None if reason is None else f"{one.finding}: {reason}"


def _part(one: Assertion, evidence: Evidence, kept: FindingVerdicts | None, k: int) -> JudgedPart:
    reason, auc = _reason(one, kept), None if kept is None else kept.presence.auc
    if kept is None or reason is not None:
        return JudgedPart(one, "not judged", auc, reason=reason)
    value = evidence.presence[one.finding]
    tests = [_test("presence", kept.presence, value, k, there=one.present)]
    if one.side and kept.side is not None and kept.side.reason is None:
        left = evidence.left[one.finding]
        value = left if one.side == "left" else -left
        tests.append(_test("side", kept.side, value, k, there=one.present))
    verdict = (_said_there if one.present else _said_absent)(one, tests)
    if verdict != "not judged":
        return JudgedPart(one, verdict, auc, tuple(tests))
    why = "no sentences to tell it by" if kept.side is None else kept.side.reason
    return JudgedPart(one, verdict, auc, tuple(tests), f"the side of {one.finding}: {why}")


def _said_there(one: Assertion, tests: Sequence[Test]) -> Verdict:
    verdicts = [test.verdict for test in tests]
    if "unsupported" in verdicts:
        return "unsupported"
    if one.side and len(tests) == 1:
        return "not judged"
    return "supported" if set(verdicts) == {"supported"} else "weak"


def _said_absent(one: Assertion, tests: Sequence[Test]) -> Verdict:
    """Of a denial.  That of one side, or of a large one, is true wherever there is none at all."""
    if tests[0].verdict == "supported" or not (one.side or one.limited):
        return tests[0].verdict
    if one.limited:
        return "weak"
    if len(tests) == 1:
        return "not judged"
    # It is there, and on the side where it is denied.
    wrong = all(test.verdict == "unsupported" for test in tests)
    return "unsupported" if wrong else "weak"


def _test(
    what: Literal["presence", "side"], tails: Tails, value: float, k: int, *, there: bool
) -> Test:
    """A test of what is said: that something is there, or that it is not."""
    assert tails.auc is not None  # noqa: S101 - it is judged
    low, high = _at(tails.below, k if there else 1), _at(tails.above, 1 if there else k)
    counts = (tails.with_images, tails.without_images)
    rates = (tails.with_below, tails.without_above)
    if there:
        return Test(what, tails.auc, value, low, high, *rates, *counts)
    low, high = (None if one is None else -one for one in (high, low))
    return Test(what, tails.auc, -value, low, high, *rates[::-1], *counts[::-1])


def _at(thresholds: Sequence[float | None], k: int) -> float | None:
    return thresholds[k - 1] if 1 <= k <= len(thresholds) else None
