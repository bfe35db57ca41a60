from dataclasses import replace

import numpy as np
import pytest

from cxrtext.phantom import draw_phantom
from cxrtext.phantom.findings import Effect
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.state import AXES, State
from tests.phantom.conftest import patient

SIZE = 160
SHOWN = [
    State(cardiomegaly=3),
    State(edema=2),
    State(effusion_right=2),
    State(effusion_left=2),
    State(pneumonia=(2, "right middle lobe")),
    State(pneumonia=(3, "left upper lobe")),
    State(pneumothorax=(2, "right")),
    State(pneumothorax=(3, "left")),
    State(tube="good"),
    State(tube="low"),
    State(line="right ij"),
    State(line="left picc"),
]
LOCAL = [state for state in SHOWN if not state.cardiomegaly]
"""An enlarged heart changes the body itself."""
SIDED = {
    state: state.places(axis)[0][1]
    for state in LOCAL
    for axis in ("effusion_right", "effusion_left", "pneumonia", "pneumothorax")
    if state.present(axis)
}


def change(state: State) -> tuple[Map, list[Effect]]:
    """How much each pixel differs from the same patient's without findings."""
    picture, effects = draw_phantom(patient(state), SIZE)
    without, _ = draw_phantom(patient(State()), SIZE)
    return np.abs(picture - without), effects


def test_a_picture_is_in_range_and_repeats() -> None:
    who = patient(State(edema=1, effusion_left=2))
    picture, effects = draw_phantom(who, SIZE)
    again, _ = draw_phantom(who, SIZE)
    assert picture.shape == (SIZE, SIZE)
    assert picture.dtype == np.float32
    assert 0.0 <= picture.min() < 0.2 < 0.8 < picture.max() <= 1.0
    assert np.array_equal(picture, again)
    other, _ = draw_phantom(replace(who, study_key=(0, 2, 9)), SIZE)
    assert not np.array_equal(picture, other)
    assert {effect.finding for effect in effects} == {"Edema", "Pleural Effusion"}


@pytest.mark.parametrize("state", LOCAL, ids=str)
def test_a_finding_changes_its_boxes_and_little_else(state: State) -> None:
    difference, effects = change(state)
    places = [(effect.finding, effect.part) for effect in effects]
    assert places == [place for axis in AXES for place in state.places(axis)]
    boxed = np.zeros((SIZE, SIZE), bool)
    for x, y, w, h in (map(int, effect.box()) for effect in effects):
        assert 0 <= x < x + w <= SIZE
        assert 0 <= y < y + h <= SIZE
        boxed[y : y + h, x : x + w] = True
    assert boxed.mean() < 0.55
    assert difference[boxed].max() > 0.03
    # Scattered light and the edge filter reach a little further than the finding.
    assert difference[~boxed].max() < (0.16 if state.edema else 0.09)
    assert difference[boxed].sum() > 0.7 * difference.sum()


@pytest.mark.parametrize(("state", "place"), SIDED.items(), ids=str)
def test_the_patients_right_is_at_the_images_left(state: State, place: str) -> None:
    difference, effects = change(state)
    half = SIZE // 2
    in_left_half = difference[:, :half].sum() > difference[:, half:].sum()
    assert in_left_half == place.startswith("right")
    [(x, _, w, _)] = [effect.box() for effect in effects]
    assert (x + w / 2 < half) == place.startswith("right")


@pytest.mark.parametrize("axis", ["edema", "effusion_left", "pneumonia", "pneumothorax"])
def test_higher_grades_change_more(axis: str) -> None:
    place = {"pneumonia": "left upper lobe", "pneumothorax": "right"}.get(axis)
    amounts = []
    for grade in (1, 2, 3):
        state = State(**{axis: (grade, place) if place else grade})  # type: ignore[arg-type]
        drawn = (draw_phantom(patient(state, number), 96)[1] for number in range(4))
        amounts.append(sum(float(np.abs(one.delta).sum()) for some in drawn for one in some))
    assert amounts[0] < amounts[1] < amounts[2]


def test_the_heart_grows_with_its_grade_and_boxes_are_the_same_at_another_size() -> None:
    widths = []
    for grade in (1, 2, 3):
        who = [patient(State(cardiomegaly=grade), number) for number in range(6)]
        boxes = [draw_phantom(one, 96)[1][0].box() for one in who]
        widths.append(sum(w for _, _, w, _ in boxes))
    assert widths == sorted(widths)
    [large] = draw_phantom(who[-1], 288)[1]
    assert np.array(large.box()) / 3.0 == pytest.approx(np.array(boxes[-1]), abs=2.5)


def test_findings_do_not_depend_on_each_other() -> None:
    lone = State(pneumonia=(3, "left upper lobe"))
    [alone] = draw_phantom(patient(lone), 96)[1]
    more = draw_phantom(patient(replace(lone, edema=2, line="right ij")), 96)[1]
    [among] = [effect for effect in more if effect.finding == "Pneumonia"]
    assert np.array_equal(alone.delta, among.delta)


def test_the_tube_ends_where_the_state_says() -> None:
    good, low = (
        draw_phantom(patient(State(tube=tip)), SIZE)[1][0].box() for tip in ("good", "low")
    )
    assert good[1] + good[3] < low[1] + low[3] - 5
