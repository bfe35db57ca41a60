"""From the evidence of an image to a verdict on a sentence.

The weakest part decides: a sentence is unsupported if any part of it is, and supported if all parts
are.  A part is unsupported if the evidence lies in the far tail of images for which the part is
true; if a sentence says k things, that tail has 1 / k of the probability, so that true sentences of
any length are rarely marked (Bonferroni 1936).
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
    """What an image shows: evidence for findings, and for their left side rather than the right."""

    presence: Mapping[str, float]
    left: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Test:
    """Evidence and its thresholds, signed so that high evidence supports what is said.

    ``test`` is "presence" or "side".  ``true_unsupported`` and ``false_supported`` are the measured
    shares of validation images that were marked wrongly at these thresholds; ``true_images`` and
    ``false_images`` count the images that gave the thresholds.
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
        """Weak in neither tail, or in both if they overlap."""
        low = self.unsupported_below is not None and self.evidence < self.unsupported_below
        high = self.supported_above is not None and self.evidence > self.supported_above
        return "weak" if low == high else "unsupported" if low else "supported"

    @property
    def margin(self) -> float:
        """How far the evidence is above the threshold for unsupported; below 0 if unsupported."""
        return self.evidence - (self.unsupported_below or 0.0)


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """One thing that a sentence says, and its verdict.

    ``auc`` is the finding's on validation images, None if it was not measured; ``reason`` says why
    it is not judged.
    """

    assertion: Assertion
    verdict: Verdict
    auc: float | None = None
    tests: tuple[Test, ...] = ()
    reason: str | None = None

    @property
    def deciding(self) -> Test | None:
        """The test that speaks most against it, if any."""
        return min(self.tests, key=lambda t: (ORDER.index(t.verdict), t.margin), default=None)


@dataclass(frozen=True, slots=True)
class Basis:
    """What a verdict rests on; missing numbers are None.

    ``finding`` is what decided, as in "left effusion" or "no pneumothorax"; ``test`` says whether
    its presence or its side was tested.  The other fields are those of :class:`Test`.
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
        text = f"{self.finding}: " + ("" if self.test is None else f"evidence {self.evidence:.2f}")
        for name, value in (
            ("unsupported below", self.unsupported_below),
            ("supported above", self.supported_above),
        ):
            text += "" if value is None else f", {name} {value:.2f}"
        for share, of, marked in (
            (self.true_unsupported, self.true_images, "true ones are marked unsupported"),
            (self.false_supported, self.false_images, "false ones supported"),
        ):
            text += "" if share is None else f"; {100 * share:.0f} % of {of} {marked}"
        return text + ("" if self.auc is None else f"; AUC {self.auc:.2f}")


@dataclass(frozen=True, slots=True)
class Judgment:
    """A verdict on a sentence; ``reason`` says why it is not judged.

    ``parts`` are the things that the sentence says; the one that decided is first.
    """

    verdict: Verdict
    reason: str | None = None
    parts: tuple[JudgedPart, ...] = ()

    @property
    def basis(self) -> Basis | None:
        """What it rests on; None if the sentence says nothing about a known finding."""
        if not self.parts:
            return None
        part = self.parts[0]
        test = part.deciding
        if test is None:
            return Basis(str(part.assertion), auc=part.auc)
        return Basis(str(part.assertion), **asdict(test))


class Judge:
    """Judges sentences by the verdicts kept with a checkpoint, or None."""

    def __init__(self, kept: KeptVerdicts | None) -> None:
        self.kept = kept
        self._contrasts = {} if kept is None else kept.contrasts()

    def evidence(self, model: ImageTextModel, regions: Tensor) -> Evidence | None:
        """The evidence of an image, regions [1, N, D]; None without kept verdicts."""
        if self.kept is None:
            return None
        both = evidence_of(model, regions, self._contrasts)
        presence, left = ({name: float(v[0]) for name, v in values.items()} for values in both)
        return Evidence(presence, left)

    def doubt(self, sentence: str) -> str | None:
        """Why a sentence is not judged for any image; None if it may be."""
        if wording(sentence) == "uncertain":
            return HEDGED
        if self.kept is None:
            return None
        said = assertions_of(sentence)
        reasons = [_reason(part, self.kept.findings.get(part.finding)) for part in said]
        return NO_FINDING if not reasons else reasons[0] if all(reasons) else None

    def judge(self, sentence: str, evidence: Evidence | None) -> Judgment:
        """The verdict on a sentence; pass no evidence if the image is unlike those trained on."""
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

    If an implied assertion is not judged, the rest can be unsupported or weak, but not supported.
    """
    k = sum(_tests_of(part, findings.get(part.finding)) for part in said)
    every = [_part(part, evidence, findings.get(part.finding), k) for part in said]
    parts = [p for p in every if p.verdict != "not judged" or not p.assertion.implied] or every
    verdicts = {part.verdict for part in parts}
    # If a part is not judged, the rest can only speak against the sentence.
    verdict = next(verdict for verdict in _STRONGEST if verdict in verdicts)
    parts.sort(key=lambda part: part.verdict != verdict)
    if verdict == "supported" and len(parts) < len(every):
        verdict = "weak"
    return Judgment(verdict, parts[0].reason if verdict == "not judged" else None, tuple(parts))


def _tests_of(said: Assertion, kept: FindingVerdicts | None) -> int:
    """How many chances there are to call an assertion unsupported."""
    if kept is None or kept.presence.reason is not None or said.limited:
        return 0
    sided = said.present and said.side and kept.side is not None and kept.side.reason is None
    return 2 if sided else 1


def _reason(said: Assertion, kept: FindingVerdicts | None) -> str | None:
    """Why a finding is not judged in any image; None if it is."""
    reason = "was not calibrated" if kept is None else kept.presence.reason
    return None if reason is None else f"{said.finding}: {reason}"


def _part(said: Assertion, evidence: Evidence, kept: FindingVerdicts | None, k: int) -> JudgedPart:
    reason, auc = _reason(said, kept), None if kept is None else kept.presence.auc
    if kept is None or reason is not None:
        return JudgedPart(said, "not judged", auc, reason=reason)
    value = evidence.presence[said.finding]
    tests = [_test("presence", kept.presence, value, k, there=said.present)]
    if said.side and kept.side is not None and kept.side.reason is None:
        left = evidence.left[said.finding]
        value = left if said.side == "left" else -left
        tests.append(_test("side", kept.side, value, k, there=said.present))
    verdict = (_affirmed if said.present else _denied)(said, tests)
    if verdict != "not judged":
        return JudgedPart(said, verdict, auc, tuple(tests))
    why = "no sentences to tell it by" if kept.side is None else kept.side.reason
    return JudgedPart(said, verdict, auc, tuple(tests), f"the side of {said.finding}: {why}")


def _affirmed(said: Assertion, tests: Sequence[Test]) -> Verdict:
    verdicts = [test.verdict for test in tests]
    if "unsupported" in verdicts:
        return "unsupported"
    if said.side and len(tests) == 1:
        return "not judged"
    return "supported" if set(verdicts) == {"supported"} else "weak"


def _denied(said: Assertion, tests: Sequence[Test]) -> Verdict:
    """Denying a finding on one side, or a large one, is true if there is none at all."""
    if tests[0].verdict == "supported" or not (said.side or said.limited):
        return tests[0].verdict
    if said.limited:
        return "weak"
    if len(tests) == 1:
        return "not judged"
    # It is there, and on the denied side.
    wrong = all(test.verdict == "unsupported" for test in tests)
    return "unsupported" if wrong else "weak"


def _test(
    what: Literal["presence", "side"], tails: Tails, value: float, k: int, *, there: bool
) -> Test:
    """Test the statement that something is there, or that it is not."""
    assert tails.auc is not None  # noqa: S101 - it is judged
    low, high = _at(tails.below, k if there else 1), _at(tails.above, 1 if there else k)
    counts = (tails.with_images, tails.without_images)
    rates = (tails.with_below, tails.without_above)
    if there:
        return Test(what, tails.auc, value, low, high, *rates, *counts)
    low, high = (None if cut is None else -cut for cut in (high, low))
    return Test(what, tails.auc, -value, low, high, *rates[::-1], *counts[::-1])


def _at(thresholds: Sequence[float | None], k: int) -> float | None:
    return thresholds[k - 1] if 1 <= k <= len(thresholds) else None
