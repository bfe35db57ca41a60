from dataclasses import replace

import numpy as np
import pytest

from cxrtext.phantom import Patient, draw_phantom
from cxrtext.phantom.anatomy import lay_out
from cxrtext.phantom.render import attenuation
from cxrtext.phantom.state import State
from tests.phantom.conftest import inside, patient

SIZE = 160


def test_picture_is_in_range_and_repeats() -> None:
    who = patient(State(edema=(1, ""), effusion=(1, 2)))
    picture, boxes = draw_phantom(who, SIZE)
    again, boxes_again = draw_phantom(who, SIZE)
    assert picture.shape == (SIZE, SIZE)
    assert picture.dtype == np.float32
    assert picture.min() >= 0.0
    assert picture.max() <= 1.0
    assert np.array_equal(picture, again)
    assert boxes == boxes_again
    other, _ = draw_phantom(replace(who, study_key=(0, 2, 9)), SIZE)
    assert not np.array_equal(picture, other)


def test_boxes_are_the_same_at_another_size() -> None:
    who = patient(State(cardiomegaly=2, effusion=(2, 0), pneumonia=(2, ("left upper lobe",))))
    _, small = draw_phantom(who, 128)
    _, large = draw_phantom(who, 384)
    assert [(box.finding, box.part) for box in small] == [(box.finding, box.part) for box in large]
    for one, other in zip(small, large, strict=True):
        assert np.array(other.bbox) / 3.0 == pytest.approx(np.array(one.bbox), abs=2.5)


@pytest.mark.parametrize(
    ("state", "right"),
    [
        (State(effusion=(2, 0)), True),
        (State(effusion=(0, 2)), False),
        (State(pneumonia=(2, ("right middle lobe",))), True),
        (State(pneumonia=(2, ("lingula",))), False),
        (State(pneumothorax=(2, "right", "apical")), True),
        (State(pneumothorax=(3, "left", "apicolateral")), False),
    ],
)
def test_the_patients_right_is_at_the_images_left(state: State, right: bool) -> None:
    picture, boxes = draw_phantom(patient(state), SIZE)
    without, _ = draw_phantom(patient(State()), SIZE)
    change = np.abs(picture - without)
    in_left_half = change[:, : SIZE // 2].sum() > change[:, SIZE // 2 :].sum()
    assert in_left_half == right
    assert all((box.bbox[0] + box.bbox[2] / 2 < SIZE / 2) == right for box in boxes)


def cardiothoracic_ratio(who: Patient) -> float:
    """Widest heart over widest chest, measured on the masks as a reader does."""
    anatomy = lay_out(replace(who.body(), tilt=0.0), 256)
    chest = np.maximum(anatomy.right.chest, anatomy.left.chest)
    heart = np.flatnonzero((anatomy.heart > 0.5).any(axis=0))
    lungs = np.flatnonzero((chest > 0.5).any(axis=0))
    return float((heart[-1] - heart[0] + 1) / (lungs[-1] - lungs[0] + 1))


@pytest.mark.parametrize("view", ["AP", "PA"])
def test_cardiothoracic_ratio(view: str) -> None:
    def ratios(grade: int, difficulty: float) -> list[float]:
        people = [patient(State(cardiomegaly=grade), n, difficulty) for n in range(8)]
        return [cardiothoracic_ratio(replace(who, view=view)) for who in people]

    assert max(ratios(0, 0.0)) < 0.5 < 0.515 < min(ratios(1, 0.0))
    # At the usual difficulty a large normal heart and a slightly enlarged one look alike.
    assert max(ratios(0, 1.0)) < 0.56
    assert min(ratios(1, 1.0)) > 0.47
    means = [float(np.mean(ratios(grade, 1.0))) for grade in range(4)]
    assert means == sorted(means)


def test_cardiomegaly_box_surrounds_the_heart() -> None:
    who = patient(State(cardiomegaly=3))
    picture, [box] = draw_phantom(who, SIZE)
    assert (box.finding, box.part) == ("Cardiomegaly", "heart")
    anatomy = lay_out(who.body(), SIZE)
    heart = anatomy.heart > 0.5
    boxed = inside([box.bbox], SIZE)
    assert heart[boxed].sum() == heart.sum() > 0.5 * boxed.sum()
    assert picture[heart].mean() > 0.5


@pytest.mark.parametrize(
    "states",
    [
        [State(edema=(grade, "")) for grade in (1, 2, 3)],
        [State(effusion=(grade, 0)) for grade in (1, 2, 3)],
        [State(pneumonia=(grade, ("left upper lobe",))) for grade in (1, 2, 3)],
        [State(pneumothorax=(grade, "right", "apical")) for grade in (1, 2)]
        + [State(pneumothorax=(3, "right", "apicolateral"))],
    ],
)
def test_higher_grades_change_more(states: list[State]) -> None:
    def change(state: State) -> float:
        drawn = [attenuation(patient(state, number), 128) for number in range(3)]
        return sum(float(np.abs(effect.delta).sum()) for one in drawn for effect in one.effects)

    amounts = [change(state) for state in states]
    assert amounts[1] > 1.25 * amounts[0]
    assert amounts[2] > 1.25 * amounts[1]


def test_what_stays_with_a_patient_stays() -> None:
    who = patient(State(), 4)
    first, second = who.body(), replace(who, study_key=(0, 2, 5)).body()
    other = replace(who, patient_key=(0, 1, 5)).body()
    assert (first.chest, first.fat, first.knob) == (second.chest, second.fat, second.knob)
    assert first.chest != other.chest
    assert first.shift != second.shift
