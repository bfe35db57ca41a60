import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cxrtext.phantom.claims import (
    NOTHING_ACUTE,
    Claim,
    basal_opacity,
    clear_lung,
    none,
    pneumonia,
    rho,
    some,
    where,
)
from cxrtext.phantom.population import (
    FRAME,
    GROUPS,
    draw_findings,
    draw_frame,
    probability,
)
from cxrtext.phantom.reports import OMITTED
from cxrtext.phantom.sentences.combined import change
from cxrtext.phantom.sentences.grammar import (
    expand,
    phrases_of,
)
from cxrtext.phantom.sentences.present import Statement
from cxrtext.phantom.state import VALUES, State
from cxrtext.phantom.studies import PhantomStudy
from cxrtext.phantom.tables import labels_from_state, labels_from_statements, said, write_tables
from cxrtext.records import CHEX5, read_labels, read_table
from cxrtext.records.labels import CHEXPERT
from tests.phantom.conftest import statements


def test_probability_of_what_goes_together() -> None:
    """Each pair of axes along the tree, against frequencies among independent draws."""
    generator = np.random.default_rng(5)
    count = 8000
    states = []
    for group in generator.choice(len(GROUPS), size=count, p=[0.30, 0.35, 0.35]):
        frame = draw_frame(generator, int(group))
        found = draw_findings(generator, int(group), VALUES["emphysema"].index(frame["emphysema"]))
        states.append({axis: getattr(found, axis) for axis in VALUES} | frame)
    pairs = (
        "drain effusion, drain pneumothorax, tube edema, tube cardiomegaly, line tube, "
        "line effusion, atelectasis effusion, emphysema volume, fibrosis pacemaker, "
        "nodule emphysema, pneumothorax wires"
    )
    for first, second in (pair.split() for pair in pairs.split(", ")):
        masks = {axis: np.arange(len(VALUES[axis])) > 0 for axis in (first, second)}
        both = probability({axis: mask.astype(float) for axis, mask in masks.items()})
        normal = {axis: VALUES[axis][0] for axis in (first, second)}
        seen = sum(all(state[a] != normal[a] for a in normal) for state in states) / count
        assert abs(both - seen) < 4.5 * (both * (1 - both) / count) ** 0.5 + 1e-4, (first, second)


def test_chest_tubes_lie_where_there_is_air_or_fluid_and_emphysema_has_no_low_volumes(
    studies: list[PhantomStudy],
) -> None:
    sides = Counter(study.patient.state.drain for study in studies)
    assert sides["right"] > 20
    assert sides["left"] > 20
    for study in studies:
        state = study.patient.state
        if state.drain:
            fluid = state.effusion[("right", "left").index(state.drain)]
            assert fluid > 1 or state.pneumothorax[1] in (state.drain, "both")
    volumes = {s.patient.state.volume for s in studies if s.patient.state.emphysema}
    assert volumes == {"normal", "high"}


def test_what_stays_with_a_patient(studies: list[PhantomStudy]) -> None:
    for one, next_one in itertools.pairwise(studies):
        if one.patient_id == next_one.patient_id:
            for axis in FRAME:
                assert getattr(one.patient.state, axis) == getattr(next_one.patient.state, axis)


def test_a_claim_on_either_of_two_is_the_union() -> None:
    state = State(pneumonia=(1, ("right lower lobe",)))
    claim = basal_opacity("right")
    assert claim.holds(state)
    assert claim.holds(State(atelectasis=(2, "both bases")))
    assert not claim.holds(State(atelectasis=(1, "right base")))
    assert not basal_opacity("left").holds(state)
    lung = pneumonia(("right lower lobe",), None)
    collapse = where(
        "collapse", "atelectasis", lambda v: v[0] == 2 and v[1] in ("right base", "both bases")
    )
    union = rho(lung) + rho(collapse) - rho(lung & collapse)
    assert rho(claim) == pytest.approx(union)
    with pytest.raises(ValueError, match="negated"):
        claim & lung


def test_joined_claims_are_named_once() -> None:
    claim = none("effusion") & none("edema")
    assert claim.name == "edema: none + effusion: none"
    assert claim == none("edema") & none("effusion")
    assert claim & NOTHING_ACUTE == NOTHING_ACUTE
    twice = where("same again", "edema", lambda value: value[0] == 0)
    assert (none("edema") & twice) == (twice & none("edema"))
    assert len((none("edema") & twice).allowed) == 1


@pytest.mark.parametrize(
    ("state", "right", "left"),
    [
        (State(), True, True),
        (State(nodule=(1, "right upper lobe")), False, True),
        (State(atelectasis=(1, "both bases")), False, False),
        (State(pneumonia=(2, ("lingula",))), True, False),
        (State(hernia=2, emphysema=1), True, True),
    ],
)
def test_which_lung_is_clear(state: State, right: bool, left: bool) -> None:
    assert clear_lung("right").holds(state) == right
    assert clear_lung("left").holds(state) == left


def test_comparisons_are_true_of_the_patients_history(studies: list[PhantomStudy]) -> None:
    kinds: Counter[str] = Counter()
    before: PhantomStudy | None = None
    for study in studies:
        if before and before.patient_id != study.patient_id:
            before = None
        for statement in (part for whole in statements(study) for part in whole.parts or [whole]):
            axis, kind = statement.change
            if kind:
                kinds[kind] += 1
                then = before.patient.state if before else None
                assert change(axis, study.patient.state, then) == kind
            else:
                assert not re.search(
                    r"\b([Ss]table since|worse since|[Ii]ncreased from)", statement.text
                )
        before = study
    assert set(kinds) == {"same", "new", "more", "less", "gone"}
    assert min(kinds.values()) > 20


@pytest.mark.parametrize(
    ("axis", "now", "then", "kind"),
    [
        ("effusion", (2, 1), (1, 2), ""),
        ("effusion", (2, 0), (0, 1), ""),
        ("effusion", (1, 1), (3, 2), "less"),
        ("pneumonia", (1, ("lingula",)), (2, ("lingula",)), "less"),
        ("pneumonia", (1, ("lingula",)), (2, ("right lower lobe",)), ""),
        ("edema", (3, "right"), (1, ""), "more"),
        ("tube", "low", "good", ""),
        ("tube", "", "", ""),
    ],
)
def test_change(axis: str, now: object, then: object, kind: str) -> None:
    states = [State(**{axis: value}) for value in (now, then)]  # type: ignore[arg-type]
    assert change(axis, states[0], states[1]) == kind
    assert change(axis, states[0], None) == ""


def test_findings_are_left_out_as_often_as_documented(studies: list[PhantomStudy]) -> None:
    there: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for study in studies:
        shown = {place for statement in statements(study) for place in statement.shows}
        state = study.patient.state
        axes = {axis: state.places(axis)[-1] for axis in OMITTED if state.present(axis)}
        there.update(list(axes))
        told.update(axis for axis, place in axes.items() if place in shown)
    assert set(there) == set(OMITTED)
    for axis, share in OMITTED.items():
        spread = (share * (1 - share) / there[axis]) ** 0.5
        assert abs(1 - told[axis] / there[axis] - share) < 4.5 * spread, axis


def test_sentences_are_well_formed(studies: list[PhantomStudy]) -> None:
    wrong = re.compile(r"  | [,.;]|,,|\b(\w+) \1\b|\b[Aa] [aeiou]|is (may|could)\b")
    for text in (statement.text for study in studies for statement in statements(study)):
        assert re.fullmatch(r"[A-Z0-9][^\[\]{}|]*[^ ,;.]\.", text), text
        assert not wrong.search(text), text


@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_every_phrasing_can_be_filled(language: str) -> None:
    phrases = phrases_of(language)
    names = (
        "adj adv side other since lobe second place width base mm cm rib line leads degrees first "
        "right left list age person complaint"
    )
    slots = dict.fromkeys(re.findall(r"\w+", names), "x")
    generator = np.random.default_rng(0)
    for section in set(phrases) - {"forms", "agreement", "named"}:  # which are patterns
        for templates in phrases[section].values():
            for template in templates:
                assert template.count("[") == template.count("]"), template
                for _ in range(10):
                    filled = expand(generator, template, phrases, **slots)
                    assert not set(filled) & set("[]{}|"), template


@pytest.mark.parametrize(
    ("text", "claim", "labels"),
    [
        (
            "Opacity in the lingula may represent pneumonia or atelectasis.",
            pneumonia(("lingula",), None),
            {"Lung Opacity": 1, "Pneumonia": -1, "Atelectasis": -1},
        ),
        ("Pneumonia cannot be excluded.", pneumonia((), None), {"Pneumonia": -1}),
        ("No focal consolidation.", none("pneumonia"), {"Consolidation": 0}),
        ("The lungs are clear.", none("pneumonia"), {}),
    ],
)
def test_what_a_sentence_says(text: str, claim: Claim, labels: dict[str, int]) -> None:
    assert said(Statement(text, claim)) == labels


def test_labels_of_a_report() -> None:
    pneumonia_1 = Statement("Pneumonia.", pneumonia((), None))
    maybe = Statement("Opacity suspicious for pneumonia.", pneumonia((), None))
    no_fluid = Statement("No pleural effusion.", none("effusion"))
    tube = Statement("Endotracheal tube in place.", some("tube"))
    labels = labels_from_statements([maybe, no_fluid, tube])
    assert tuple(labels) == CHEXPERT
    assert labels["Pneumonia"] == -1
    assert labels_from_statements([maybe, pneumonia_1])["Pneumonia"] == 1
    assert labels["Pleural Effusion"] == 0
    assert labels["Support Devices"] == 1
    assert labels["Edema"] is None
    assert labels["No Finding"] is None
    assert labels_from_statements([no_fluid, tube])["No Finding"] == 1
    both = Statement("x", none("effusion"), parts=(no_fluid, pneumonia_1))
    assert said(both) == {"Pleural Effusion": 0, "Pneumonia": 1}


def test_labels_of_reports_agree_with_the_states(studies: list[PhantomStudy]) -> None:
    hedged: Counter[str] = Counter()
    for study in studies:
        state = study.patient.state
        shown, told = labels_from_state(state), labels_from_statements(statements(study))
        assert {name: shown[name] for name in CHEX5} == state.labels()
        for name in CHEX5:
            if told[name] in (0, 1):
                assert shown[name] == told[name], name
            hedged[name] += told[name] == -1
            hedged[f"{name} said"] += told[name] == 1
    for name in ("Edema", "Pleural Effusion", "Pneumonia"):
        assert hedged[name] > 10
        assert hedged[f"{name} said"] > 100


def test_tables_of_labels(tmp_path: Path, studies: list[PhantomStudy]) -> None:
    few = studies[:300]
    names = [f"images/{study.study_id}.png" for study in few]
    write_tables(tmp_path, few, names, {study.study_id: [] for study in few}, 64)
    shown = read_labels(tmp_path / "labels.csv", CHEXPERT)
    told = read_labels(tmp_path / "labels_from_reports.csv", CHEXPERT)
    columns = read_table(tmp_path / "labels.csv").columns
    assert columns[2 : 2 + len(CHEX5)] == CHEX5
    assert set(columns[2:]) == set(CHEXPERT)
    assert list(shown) == list(told) == [study.study_id for study in few]
    assert {value for row in shown.values() for value in row.values()} == {0, 1}
    assert {value for row in told.values() for value in row.values()} == {0, 1, -1, None}
    assert read_labels(tmp_path / "labels.csv") == {
        study.study_id: study.patient.state.labels() for study in few
    }
