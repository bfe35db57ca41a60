import re
from collections import Counter, defaultdict
from collections.abc import Callable

import pysbd
import pytest

from cxrtext.phantom.claims import LUNGS_CLEAR, NORMAL, OTHERWISE_CLEAR, UNCHANGED, Claim, none, rho
from cxrtext.phantom.population import tables
from cxrtext.phantom.state import VALUES, State
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.records import CHEX5
from cxrtext.text import split_sentences
from tests.grids import some
from tests.phantom.conftest import COUNT, told


def test_prevalences_and_edema_goes_with_cardiomegaly_and_effusion(
    studies: list[PhantomStudy],
) -> None:
    labels = [study.patient.state.labels() for study in studies]
    for name in CHEX5:
        assert 0.12 <= sum(label[name] for label in labels) / COUNT <= 0.25, name
    assert {name for label in labels for name in label} == set(CHEX5)
    assert 0.30 <= sum(not any(label.values()) for label in labels) / COUNT <= 0.42
    for other in ("Cardiomegaly", "Pleural Effusion"):
        with_it = [label["Edema"] for label in labels if label[other]]
        without = [label["Edema"] for label in labels if not label[other]]
        assert sum(with_it) / len(with_it) > 1.7 * sum(without) / len(without)


def test_every_sentence_is_true_of_its_study(studies: list[PhantomStudy]) -> None:
    every = list(told(studies))
    for study, statement in every:
        if statement.claim == UNCHANGED:
            assert study.unchanged
        else:
            assert statement.claim.holds(study.patient.state), statement.text
    assert len(every) > 4 * COUNT


@pytest.mark.parametrize("part", some(range(6), 6))
def test_rho_is_the_frequency_with_which_a_claim_is_true(
    studies: list[PhantomStudy], part: int
) -> None:
    made = {statement.claim.name: statement.claim for _, statement in told(studies)}
    claims = dict(sorted(made.items())[part::6])
    assert len(claims) > 100
    # Studies of one patient are alike, so the count of independent draws is smaller.
    independent = COUNT / 2.0
    alike: dict[tuple[str, ...], Counter[State]] = {}  # by the axes that a claim is about
    for name, claim in claims.items():
        expected = rho(claim)
        axes = tuple(axis for axis, _ in claim.allowed)
        if axes not in alike:
            values = ({axis: getattr(s.patient.state, axis) for axis in axes} for s in studies)
            alike[axes] = Counter(State(**one) for one in values)
        if claim == UNCHANGED:
            observed = sum(study.unchanged for study in studies) / COUNT
        else:
            observed = sum(n for state, n in alike[axes].items() if claim.holds(state)) / COUNT
        assert 0.0 < expected < 1.0
        spread = (expected * (1.0 - expected) / independent) ** 0.5
        assert abs(observed - expected) < 4.5 * spread + 1e-3, name


def test_rho_by_hand_and_over_whole_axes() -> None:
    share = tables()["pneumothorax"]
    # The groups' shares are 0.30, 0.35 and 0.35.
    by_hand = 0.30 * share[0, 0] + 0.35 * share[1, 0] + 0.35 * share[2, 0]
    assert rho(none("pneumothorax")) == pytest.approx(by_hand)
    for axis, values in VALUES.items():
        parts = [rho(Claim(f"value {i}", ((axis, frozenset([i])),))) for i in range(len(values))]
        assert sum(parts) == pytest.approx(1.0), axis
    assert rho(NORMAL) < rho(LUNGS_CLEAR) < rho(OTHERWISE_CLEAR) < rho(none("edema"))
    clear = none("edema") & none("pneumonia") & none("atelectasis")
    assert rho(clear) == pytest.approx(rho(OTHERWISE_CLEAR))


def test_a_claim_has_one_name_and_a_name_one_claim(studies: list[PhantomStudy]) -> None:
    claims = {statement.claim for _, statement in told(studies)}
    names = {claim.name for claim in claims}
    meanings = {(claim.allowed, claim.negated) for claim in claims}
    assert len(claims) == len(names) == len(meanings) > 400


def test_every_finding_is_spoken_of_with_its_side(studies: list[PhantomStudy]) -> None:
    sided = 0
    for study in studies:
        for finding, part in study.patient.state.places():
            sentence = study.report.evidence(finding, part)
            words = set(re.findall(r"[a-z]+", sentence.lower()))
            if finding == "Pleural Effusion" and part in ("right", "left"):
                other = "left" if part == "right" else "right"
                named = part in words or bool(words & {"bilateral", "both", "bilaterally"})
                # "to the left" names where a tension pneumothorax pushes.
                assert named or other not in words, sentence
                sided += named
    assert sided > 500


def test_reports_without_findings_deny_them(studies: list[PhantomStudy]) -> None:
    for study in studies:
        shown = {n for _, statement in told([study]) for n, _ in statement.shows if n in CHEX5}
        present = {name for name, value in study.patient.state.labels().items() if value}
        assert shown == present


def by_pysbd(text: str) -> list[str]:
    return [part.strip() for part in pysbd.Segmenter(language="en", clean=False).segment(text)]


@pytest.mark.parametrize("split", [split_sentences, by_pysbd])
def test_splitters_find_the_sentences(
    studies: list[PhantomStudy], split: Callable[[str], list[str]]
) -> None:
    sections = {texts for study in studies[:400] for _, texts in study.report.sections() if texts}
    assert len(sections) > 300
    for statements in sections:
        texts = [statement.text for statement in statements]
        assert split(" ".join(texts)) == texts


def test_every_report_has_sentences(studies: list[PhantomStudy]) -> None:
    for study in studies:
        assert study.report.findings or study.report.impression
    shapes = Counter(
        (bool(study.report.findings), bool(study.report.impression)) for study in studies
    )
    assert set(shapes) == {(True, True), (True, False), (False, True)}


@pytest.mark.parametrize("count", [10, 37, 300])
def test_splits_are_disjoint_by_patient(count: int) -> None:
    studies = draw_studies(count, seed=5)
    split_of = defaultdict(set)
    for study in studies:
        split_of[study.patient_id].add(study.split)
    assert all(len(splits) == 1 for splits in split_of.values())
    shares = Counter(next(iter(splits)) for splits in split_of.values())
    assert set(shares) == {"train", "val", "test"}
    if count >= 300:
        assert 0.78 <= shares["train"] / len(split_of) <= 0.82


def test_a_study_depends_on_the_seed_and_not_on_the_count() -> None:
    few, many, others = draw_studies(20, seed=4), draw_studies(60, seed=4), draw_studies(20, seed=5)
    for one, other in zip(few, many, strict=False):
        assert (one.patient, one.report, one.age) == (other.patient, other.report, other.age)
    assert [one.patient.state for one in few] != [other.patient.state for other in others]


def test_ages_sexes_and_views(studies: list[PhantomStudy]) -> None:
    assert {study.patient.sex for study in studies} == {"F", "M"}
    assert {study.patient.view for study in studies} == {"AP", "PA"}
    assert all(18 <= study.age <= 92 for study in studies)
    several = Counter(study.patient_id for study in studies)
    assert set(several.values()) == {1, 2, 3, 4}
