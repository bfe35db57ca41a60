"""Verdicts on sentences: thresholds, what they make of evidence, and the file that keeps them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.models import load_model
from cxrtext.text.assertions import Assertion, assertions_of, says_of
from cxrtext.verdicts.fit import (
    Values,
    _Images,
    lower_quantiles,
    tails_of,
    upper_quantiles,
)
from cxrtext.verdicts.judge import UNLIKE, Evidence, Judge, judge_assertions
from cxrtext.verdicts.kept import (
    VERDICTS,
    FindingVerdicts,
    KeptVerdicts,
    Tails,
)


def values(*numbers: float) -> Values:
    folds = np.arange(len(numbers), dtype=np.float64) % 5
    return Values(np.asarray(numbers, dtype=np.float64), folds)


def test_quantiles_by_hand() -> None:
    nineteen, thirty_nine = np.arange(19.0), np.arange(39.0)
    assert lower_quantiles(nineteen[:18], 1) == (None,)
    assert lower_quantiles(nineteen, 2) == (0.0, None)
    assert lower_quantiles(thirty_nine, 3) == (1.0, 0.0, None)
    assert upper_quantiles(thirty_nine, 3) == (37.0, 38.0, None)
    assert lower_quantiles(np.empty(0), 1) == (None,)


def test_the_tails_of_a_good_finding() -> None:
    rng = np.random.default_rng(1)
    there, absent = rng.normal(2, 1, 200), rng.normal(-2, 1, 200)
    found = tails_of(values(*there), values(*absent))
    assert found.reason is None
    assert (found.with_images, found.without_images) == (200, 200)
    assert found.below[0] == pytest.approx(np.quantile(there, 0.05), abs=0.1)
    assert found.above[0] == pytest.approx(np.quantile(absent, 0.95), abs=0.1)
    for rate in (found.with_below, found.without_above):
        assert rate == pytest.approx(0.05, abs=0.03)
    at = tails_of(values(*[1.0] * 40), values(*[0.0] * 40))  # at a threshold is not beyond it
    assert (at.with_below, at.without_above) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("there", "absent", "why"),
    [
        (np.arange(18) + 9.0, np.arange(40), "18 validation images with it and 40 without it"),
        (np.arange(40) + 5.0, np.arange(40), "AUC on validation images is 0.62; at least 0.75"),
        (np.arange(40) - 30.0, np.arange(40), "inverted: its AUC on validation images is 0.03"),
        (np.arange(19.0) + 19, np.arange(19.0), ""),  # as many are enough
    ],
)
def test_what_may_not_be_judged(there: Any, absent: Any, why: str) -> None:
    reason = tails_of(values(*there), values(*absent)).reason or ""
    assert why in reason
    assert bool(why) == bool(reason)


GOOD = Tails(
    with_images=40, without_images=60, auc=0.9, below=(-1.0, -2.0), above=(1.0, 2.0),
    with_below=0.05, without_above=0.03,
)  # fmt: skip
CLEAR = GOOD.model_copy(update={"below": (1.0, 1.0), "above": (-1.0, -1.0)})
INVERTED = GOOD.model_copy(update={"auc": 0.2, "reason": "inverted: its AUC is 0.20"})
FINDINGS = {
    "pleural effusion": FindingVerdicts(presence=GOOD, side=GOOD),
    "edema": FindingVerdicts(presence=GOOD),
    "mass": FindingVerdicts(presence=CLEAR),
    "nodule": FindingVerdicts(presence=INVERTED),
    "support devices": FindingVerdicts(presence=GOOD, side=INVERTED),
}


def judged(sentence: str, presence: float, left: float = 0.0) -> str:
    evidence = Evidence(dict.fromkeys(FINDINGS, presence), dict.fromkeys(FINDINGS, left))
    return judge_assertions(assertions_of(sentence), evidence, FINDINGS).verdict


@pytest.mark.parametrize(
    ("sentence", "presence", "left", "verdict"),
    [
        ("Edema.", 1.1, 0, "supported"),
        ("Edema.", 0, 0, "weak"),
        ("Edema.", -1.1, 0, "unsupported"),
        ("No edema.", 1.1, 0, "unsupported"),
        ("Pulmonary vasculature is normal.", 1.1, 0, "unsupported"),
        ("Mass.", 0, 0, "weak"),  # in both tails: unlike either
        # Two chances of an error: the far tail begins at half of the rate.
        ("No edema or effusion.", 1.1, 0, "weak"),
        ("No edema or effusion.", 2.1, 0, "unsupported"),
        ("No edema, effusion or mass.", 9, 0, "weak"),  # too few images for three
        ("Left effusion.", 1.1, 1.1, "supported"),
        ("Left effusion.", 1.1, 0, "weak"),
        ("Left effusion.", 1.1, -2.1, "unsupported"),
        ("Right effusion.", 1.1, -1.1, "supported"),
        ("Left catheter.", 1.1, 5, "not judged"),  # its side cannot be told
        ("No left effusion.", 2.1, -2, "weak"),  # there, but on the right
        ("No left effusion.", 2.1, 2, "unsupported"),
        ("No large effusion.", 9, 0, "weak"),  # there may be a small one
        ("Edema and nodule.", 1.1, 0, "not judged"),
    ],
)
def test_verdicts(sentence: str, presence: float, left: float, verdict: str) -> None:
    assert judged(sentence, presence, left) == verdict


def test_what_cannot_be_unsupported_makes_the_rest_no_harder_to_doubt() -> None:
    assert judged("Edema without large effusion.", -1.1) == judged("Edema.", -1.1) == "unsupported"


def test_of_a_report_of_both_sides_the_side_that_its_image_shows_less_counts() -> None:
    said, left = ["Left effusion.", "Right effusion."], np.arange(39.0)
    says, own = says_of(said), [assertions_of(one) for one in said]
    images = _Images(
        [says] * 39, [own] * 39, {"pleural effusion": left}, {"pleural effusion": left}, left % 5
    )
    side = images.findings()["pleural effusion"].side
    assert side is not None
    assert side.below[0] == -37.0  # the second of those that speak most against a named side


@pytest.mark.parametrize("evidence", [-100.0, 100.0])
@pytest.mark.parametrize("sentence", ["Nodule.", "No nodule.", "Left nodule."])
def test_an_inverted_finding_never_marks(sentence: str, evidence: float) -> None:
    assert judged(sentence, evidence, evidence) == "not judged"


def test_what_is_only_implied_need_not_be_judged_but_is_not_supported_either() -> None:
    said = [Assertion("edema", False, implied=True), Assertion("nodule", False, implied=True)]
    for evidence, verdict in ((1.1, "unsupported"), (0.0, "weak"), (-1.1, "weak")):
        names = dict.fromkeys(FINDINGS, evidence)
        assert judge_assertions(said, Evidence(names, {}), FINDINGS).verdict == verdict


def test_what_a_verdict_rests_on() -> None:
    said = assertions_of("No edema.")
    found = judge_assertions(said, Evidence({"edema": 1.5}, {}), FINDINGS)
    basis = found.basis
    assert basis is not None
    assert (basis.finding, basis.test, basis.auc) == ("no edema", "presence", 0.9)
    assert (basis.evidence, basis.unsupported_below, basis.supported_above) == (-1.5, -1.0, 1.0)
    # Of images without edema, of which it is true, 3 % have as much evidence of it.
    assert (basis.true_unsupported, basis.true_images) == (0.03, 60)
    assert (basis.false_supported, basis.false_images) == (0.05, 40)
    assert "unsupported below -1.00" in str(basis)


KEPT = KeptVerdicts(
    fingerprint="f" * 64, data="data", images=100, patients=90, names="0" * 64, regions=16,
    findings=FINDINGS,
)  # fmt: skip


def test_reasons_why_a_sentence_is_not_judged() -> None:
    nothing = Evidence({}, {})
    assert "cxrtext calibrate" in (Judge(None).judge("Edema.", None).reason or "")
    judge = Judge(KEPT)
    for sentence, why in (
        ("Possible edema.", "wording is uncertain"),
        ("Old scars.", "names no finding"),
        ("Nodule.", "nodule: inverted"),
    ):
        found = judge.judge(sentence, nothing)
        assert found.verdict == "not judged"
        assert why in (found.reason or "")
        assert judge.doubt(sentence) == found.reason  # of whatever image
    assert judge.judge("Edema.", None).reason == UNLIKE
    assert (judge.doubt("Edema and nodule."), Judge(None).doubt("Edema.")) == (None, None)


def test_calibrated_on_images(checkpoint: Path, judged_checkpoint: Path) -> None:
    assert not (checkpoint / VERDICTS).exists()
    assert KeptVerdicts.beside(load_model(checkpoint)) is None
    model = load_model(judged_checkpoint)
    kept = KeptVerdicts.beside(model)
    assert kept is not None
    assert (kept.images, kept.patients, kept.regions, kept.data) == (120, 120, 16, "set")
    assert set(kept.findings) == {"pleural effusion", "pneumothorax"}
    effusion = kept.findings["pleural effusion"]
    assert effusion.without == "not named"  # no report denies one
    assert (effusion.presence.with_images, effusion.presence.without_images) == (40, 80)
    assert effusion.presence.reason is None
    assert len(effusion.there) == len(effusion.left or effusion.there) == model.spec.dimension
    assert effusion.side is None  # nothing but left ones
    measured = kept.measured["affirmed"]
    assert measured.true_sentences == 80
    assert measured.true_unsupported <= 0.1 * measured.true_sentences
    assert measured.false_supported <= 0.1 * measured.false_sentences
