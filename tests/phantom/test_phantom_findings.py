from dataclasses import replace

import numpy as np
import pytest

from cxrtext.phantom import Patient
from cxrtext.phantom.findings import FADING
from cxrtext.phantom.findings.effect import Effect
from cxrtext.phantom.render import attenuation, paint
from cxrtext.phantom.scanners import SCANNERS, site
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.state import AXES, State
from tests.phantom.conftest import Mask, inside, patient

SIZE = 160
SHOWN = {
    axis.finding: [State(**{name: value}) for value in axis.examples]
    for name, axis in AXES.items()
    if axis.examples
}
"""States with one finding each."""
BODILY = ("Cardiomegaly", "Emphysema", "Elevated Hemidiaphragm")
"""Findings that change the body itself, and so more than their box."""

LOCAL = [
    pytest.param(name, state, id=f"{name} {number}")
    for name, states in SHOWN.items()
    if name not in BODILY
    for number, state in enumerate(states)
    # Much fluid and a tension pneumothorax push the mediastinum aside.
    if max(state.effusion) < 3 and state.pneumothorax[0] < 4
] + [
    pytest.param("Pneumonia", State(pneumonia=(2, ("right upper lobe",))), id="above a fissure"),
    pytest.param("Pneumothorax", State(pneumothorax=(1, "left", "basilar")), id="basilar"),
]


def boxes_of(effects: list[Effect]) -> Mask:
    """The pixels in boxes, none of which leaves the picture."""
    boxes = [effect.box() for effect in effects]
    assert all(0 <= x < x + w <= SIZE and 0 <= y < y + h <= SIZE for x, y, w, h in boxes)
    return inside(boxes, SIZE)


def change(who: Patient) -> tuple[Map, list[Effect]]:
    """How much each pixel differs from the same patient's without findings."""
    picture, effects = paint(who, SIZE)
    without, _ = paint(replace(who, state=State()), SIZE)
    return np.abs(picture - without), effects


@pytest.mark.parametrize(("name", "state"), SHOWN.items(), ids=SHOWN)
def test_every_state_shows_its_finding(name: str, state: list[State]) -> None:
    for one in state:
        effects = attenuation(patient(one), 128).effects
        places = [(effect.finding, effect.part) for effect in effects]
        assert sorted(places) == sorted(one.places(*AXES))
        assert {finding for finding, _ in places} == {name}


@pytest.mark.parametrize(("name", "state"), LOCAL)
@pytest.mark.parametrize("number", [0, 1])
def test_little_changes_outside_the_boxes(name: str, state: State, number: int) -> None:
    difference, effects = change(patient(state, number, difficulty=0.4))
    boxed = boxes_of(effects)
    assert boxed.mean() < 0.55
    assert difference[boxed].max() > 0.03
    # Scattered light and the edge filter reach a little further than the finding.
    soft = name == "Edema" or "basilar" in state.pneumothorax
    assert difference[~boxed].max() < (0.16 if soft else 0.09)
    assert difference[boxed].sum() > 0.7 * difference.sum()
    assert difference[boxed].mean() > 4.0 * difference[~boxed].mean()


@pytest.mark.parametrize(("name", "state"), LOCAL)
def test_boxes_fit_the_pixels_that_change(name: str, state: State) -> None:
    difference, effects = change(patient(state, difficulty=0.0))
    if len(effects) > 1:
        pytest.skip("two boxes share the changed pixels")
    x, y, w, h = effects[0].box()
    changed = difference > 0.04
    columns, rows = np.flatnonzero(changed.any(axis=0)), np.flatnonzero(changed.any(axis=1))
    wide = min(x + w, columns[-1] + 1) - max(x, columns[0])
    tall = min(y + h, rows[-1] + 1) - max(y, rows[0])
    both = wide * tall
    area = (columns[-1] + 1 - columns[0]) * (rows[-1] + 1 - rows[0])
    assert both / (area + w * h - both) > 0.4


@pytest.mark.parametrize("name", ["Emphysema", "Elevated Hemidiaphragm"])
def test_findings_of_the_body_change_most_inside_their_boxes(name: str) -> None:
    state = SHOWN[name][1]
    difference, effects = change(patient(state))
    boxed = boxes_of(effects)
    assert difference[boxed].mean() > 1.5 * difference[~boxed].mean()


@pytest.mark.parametrize("name", [name for name in FADING if name != "Emphysema"])
def test_difficulty_makes_findings_fainter(name: str) -> None:
    state = SHOWN[name][0]

    def strength(difficulty: float) -> float:
        drawn = [attenuation(patient(state, number, difficulty), 96) for number in range(8)]
        return float(sum(np.abs(effect.delta).sum() for one in drawn for effect in one.effects)) / 8

    easy, usual, hard = strength(0.0), strength(1.0), strength(2.0)
    assert easy > usual > hard
    assert usual > 0.25 * easy


def test_findings_do_not_depend_on_each_other() -> None:
    nodule = State(nodule=(3, "left upper lobe"))
    more = replace(nodule, fibrosis=2, drain="right", wires=True)
    [first] = attenuation(patient(nodule), 128).effects
    both = attenuation(patient(more), 128).effects
    [second] = [effect for effect in both if effect.finding == "Lung Lesion"]
    assert np.array_equal(first.delta, second.delta)


def test_endotracheal_tube_ends_where_the_state_says() -> None:
    tips = {}
    for place in ("high", "good", "low"):
        [effect] = attenuation(patient(State(tube=place)), SIZE).effects
        _, y, _, h = effect.box()
        tips[place] = y + h
    assert tips["high"] < tips["good"] - 5
    assert tips["good"] < tips["low"] - 5


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_raised_dome_lies_higher_than_the_other(side: str) -> None:
    body = patient(State(diaphragm=side)).body()
    right, left = body.domes
    assert (right < left - 0.04) if side == "right" else (left < right - 0.02)
    plain = patient(State()).body()
    assert plain.domes == body.rest
    assert plain.heart == body.heart


def test_sites_differ_and_stay_with_the_patient() -> None:
    sites = [site((0, 3, number)) for number in range(200)]
    assert set(sites) == set(range(len(SCANNERS)))
    assert sites == [site((0, 3, number)) for number in range(200)]
    assert max(np.bincount(sites)) < 100
