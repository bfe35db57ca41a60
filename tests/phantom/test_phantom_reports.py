import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import pysbd
import pytest

from cxrtext.phantom.claims import UNCHANGED, exactly, holding, none, some
from cxrtext.phantom.reports import Statement, change
from cxrtext.phantom.state import AXES, FIVE, State
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.phantom.tables import labels_from_statements
from cxrtext.phantom.truth import known_truth
from cxrtext.records import CHEX5
from cxrtext.text import split_sentences

STUDIES = draw_studies(1500, seed=23)


def statements(study: PhantomStudy) -> tuple[Statement, ...]:
    return (*study.report.findings, *study.report.impression)


def told() -> Iterator[tuple[PhantomStudy, Statement]]:
    for study in STUDIES:
        for statement in statements(study):
            yield study, statement


def test_prevalences_and_edema_goes_with_cardiomegaly_and_effusion() -> None:
    labels = [study.patient.state.labels() for study in STUDIES]
    for name in CHEX5:
        assert 0.12 <= sum(label[name] for label in labels) / len(STUDIES) <= 0.27, name
    assert 0.28 <= sum(label["No Finding"] for label in labels) / len(STUDIES) <= 0.45
    for other in ("Cardiomegaly", "Pleural Effusion"):
        with_it = [label["Edema"] for label in labels if label[other]]
        without = [label["Edema"] for label in labels if not label[other]]
        assert sum(with_it) / len(with_it) > 1.7 * sum(without) / len(without)


def test_every_sentence_is_true_of_its_study() -> None:
    known = known_truth(STUDIES)
    for study in STUDIES:
        said = [one for one in statements(study) if one.claim != UNCHANGED]
        assert said or study.report.impression
        assert known.holds([one.claim for one in said], [study.study_id]).all()
    rho = known.rho([*known.claims.values()])
    assert 0.0 < rho.min() < 0.01
    assert 0.5 < rho.max() < 1.0


def test_rho_is_the_share_of_studies() -> None:
    for claim, state in (
        (none("edema"), State()),
        (exactly("line", "right ij"), State(line="right ij")),
    ):
        axis = claim.allowed[0][0]
        values = [getattr(study.patient.state, axis) for study in STUDIES]
        [share] = known_truth(STUDIES).rho([claim])
        assert share == pytest.approx(values.count(getattr(state, axis)) / 1501)


def test_joined_claims_are_named_once() -> None:
    claim = none("edema", "pneumonia")
    assert claim == none("pneumonia") & none("edema")
    assert claim.name == "edema: none + pneumonia: none"
    states = [State(cardiomegaly=2), State(edema=1)]
    assert holding([claim], states).tolist() == [[True, False]]


def test_a_class_has_one_name_and_a_name_one_class() -> None:
    claims = {statement.claim for _, statement in told()}
    assert len({one.name for one in claims}) == len({one.allowed for one in claims}) == len(claims)
    assert len(claims) > 80


def test_every_finding_is_spoken_of_with_its_side() -> None:
    for study in STUDIES:
        state = study.patient.state
        shown = {place for one in statements(study) for place in one.shows}
        assert shown >= {place for axis in FIVE for place in state.places(axis)}
        assert shown <= {place for axis in AXES for place in state.places(axis)}
    sided = 0
    for _, one in told():
        sides = {part for name, part in one.shows if name in ("Pleural Effusion", "Pneumothorax")}
        words = set(re.findall(r"right|left|bilateral|both", one.text.lower()))
        if len(sides) == 1:
            assert words == sides, one.text
            sided += 1
    assert sided > 300


def test_sentences_are_well_formed() -> None:
    wrong = re.compile(r"  | [,.;]|,,|\b(\w+) \1\b|\b[Aa] [aeiou]|is (may|could)\b")
    for _, statement in told():
        text = statement.text
        assert re.fullmatch(r"[A-Z0-9][^\[\]{}|]*[^ ,;.]\.", text), text
        assert not wrong.search(text), text
    for report in (study.report for study in STUDIES):
        assert not set(f"{report.indication} {report.comparison}") & set("[]{}|")


@pytest.mark.parametrize("by_pysbd", [False, True])
def test_splitters_find_the_sentences(by_pysbd: bool) -> None:
    split: Callable[[str], list[str]] = split_sentences
    if by_pysbd:
        segmenter = pysbd.Segmenter(language="en", clean=False)
        split = lambda text: [part.strip() for part in segmenter.segment(text)]  # noqa: E731
    for study in STUDIES[:150]:
        for _, some_statements in study.report.sections():
            texts = [statement.text for statement in some_statements]
            assert split(" ".join(texts)) == texts


def test_comparisons_are_true_of_the_patients_history() -> None:
    kinds: Counter[str] = Counter()
    words = re.compile(
        r", (unchanged|stable|similar|not s|as before|new|which is new|increased|worse|progressed"
        r"|decreased|improved)"
    )
    for before, study in pairwise(STUDIES):
        then = before.patient.state if study.follow_up else None
        for one in statements(study):
            found = words.search(one.text)
            if one.claim == UNCHANGED:
                assert then == study.patient.state
            elif found and one.shows:
                axes = [a for a in AXES if {*study.patient.state.places(a)} & {*one.shows}]
                said = {change(axis, study.patient.state, then) for axis in axes}
                kinds.update(said)
                assert said != {""}, one.text
            assert then or not found, one.text
    assert min(kinds[kind] for kind in ("same", "new", "more", "less")) > 2


@pytest.mark.parametrize(
    ("axis", "now", "then", "kind"),
    [
        ("effusion_left", 2, 1, "more"),
        ("pneumonia", (1, "lingula"), (2, "lingula"), "less"),
        ("pneumonia", (1, "lingula"), (2, "right lower lobe"), ""),
        ("edema", 1, 0, "new"),
        ("edema", 0, 1, ""),
        ("tube", "low", "good", ""),
        ("tube", "low", "low", "same"),
    ],
)
def test_change(axis: str, now: object, then: object, kind: str) -> None:
    states = [State(**{axis: value}) for value in (now, then)]  # type: ignore[arg-type]
    assert change(axis, *states) == kind
    assert change(axis, states[0], None) == ""


def test_labels_of_a_report() -> None:
    maybe = Statement("Findings concerning for pneumonia.", some("pneumonia"), (("Pneumonia", ""),))
    sure = Statement("Pneumonia.", some("pneumonia"), (("Pneumonia", ""),))
    no_fluid = Statement("No pleural effusion.", none("effusion_right", "effusion_left"))
    one_side = Statement("No left pleural effusion.", none("effusion_left"))
    labels = labels_from_statements([maybe, no_fluid])
    assert labels["Pneumonia"] == labels["Consolidation"] == -1
    assert (labels["Pleural Effusion"], labels["Edema"], labels["No Finding"]) == (0, None, None)
    assert labels_from_statements([maybe, sure])["Pneumonia"] == 1
    assert labels_from_statements([one_side])["Pleural Effusion"] is None
    assert labels_from_statements([no_fluid])["No Finding"] == 1


def test_labels_of_reports_agree_with_the_states() -> None:
    hedged: Counter[str] = Counter()
    for study in STUDIES:
        shown, said = study.patient.state.labels(), labels_from_statements(statements(study))
        assert {*said} == {*shown}
        for name in CHEX5:
            assert said[name] in (shown[name], -1 if shown[name] else None, None)
            assert said[name] or not shown[name]
            hedged[name] += said[name] == -1
    assert min(hedged[name] for name in ("Edema", "Pneumonia")) > 3


@pytest.mark.parametrize("count", [10, 37, 300])
def test_splits_are_disjoint_by_patient(count: int) -> None:
    split_of = defaultdict(set)
    for study in draw_studies(count, seed=5):
        split_of[study.patient_id].add(study.split)
    assert all(len(splits) == 1 for splits in split_of.values())
    assert {*map(min, split_of.values())} == {"train", "val", "test"}


def test_a_study_depends_on_the_seed_and_not_on_the_count() -> None:
    few, many, others = draw_studies(20, seed=4), draw_studies(60, seed=4), draw_studies(20, seed=5)
    for one, other in zip(few, many, strict=False):
        assert (one.patient, one.report, one.age) == (other.patient, other.report, other.age)
    assert [one.patient.state for one in few] != [other.patient.state for other in others]


def test_patients_come_back_on_later_days() -> None:
    assert {study.sex for study in STUDIES} == {"F", "M"}
    assert {study.patient.view for study in STUDIES} == {"AP", "PA"}
    assert all(18 <= study.age <= 92 for study in STUDIES)
    for before, study in pairwise(STUDIES):
        assert (
            (study.follow_up == 0) == (study.days == 0) == (before.patient_id != study.patient_id)
        )
        if study.follow_up:
            assert study.days > before.days
            assert study.follow_up == before.follow_up + 1
            assert study.patient.patient_key == before.patient.patient_key
