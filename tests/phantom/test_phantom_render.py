from dataclasses import replace

import numpy as np
import pytest

from cxrtext.phantom import Patient, draw_phantom
from cxrtext.phantom.anatomy import lay_out
from cxrtext.phantom.findings import DRAWN
from cxrtext.phantom.render import STREAMS, attenuation
from cxrtext.phantom.shapes import Map, blur
from cxrtext.phantom.state import State
from tests.phantom.conftest import inside, patient

SIZE = 160


def mean_at(picture: Map, who: Patient, u: float, v: float) -> float:
    """Mean gray value round a point of the body."""
    size = picture.shape[0]
    anatomy = lay_out(who.body(), size)
    column, row = (int(c[0]) for c in anatomy.to_pixels(np.array([u]), np.array([v])))
    return float(picture[row - 2 : row + 3, column - 2 : column + 3].mean())


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


@pytest.mark.parametrize("number", range(6))
def test_lungs_are_dark_and_the_rest_is_bright(number: int) -> None:
    who = replace(patient(State(), number), sex="F" if number > 2 else "M")
    picture, boxes = draw_phantom(who, SIZE)
    assert boxes == []
    lungs = [mean_at(picture, who, u, v) for u in (-0.2, 0.22) for v in (0.3, 0.45, 0.55)]
    bright = [mean_at(picture, who, u, v) for u, v in ((0.0, 0.5), (0.1, 0.68), (-0.17, 0.93))]
    assert max(lungs) < 0.45
    assert min(bright) > max(lungs) + 0.15
    trachea = mean_at(picture, who, who.body().turn * 0.5, 0.24)
    assert trachea < mean_at(picture, who, 0.0, 0.5)
    assert picture[:3, :3].mean() < 0.05


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


def test_heart_lies_to_the_left_and_the_right_dome_is_higher() -> None:
    anatomy = lay_out(patient(State()).body(), SIZE)
    heart = anatomy.heart > 0.5
    assert heart[anatomy.u > 0].sum() > 1.5 * heart[anatomy.u < 0].sum()
    assert anatomy.right.floor.min() < anatomy.left.floor.min()


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


@pytest.mark.parametrize("place", ["apical", "lateral", "basilar"])
def test_small_pneumothorax_is_several_pixels_wide(place: str) -> None:
    for number in range(4):
        _, [box] = draw_phantom(patient(State(pneumothorax=(1, "left", place)), number), 128)
        assert min(box.bbox[2:]) >= 4


def test_no_vessels_are_seen_beyond_the_pleural_line(monkeypatch: pytest.MonkeyPatch) -> None:
    who = patient(State(pneumothorax=(3, "right", "apicolateral")))
    layers = attenuation(who, 256)
    total, [effect] = layers.total, layers.effects
    monkeypatch.setattr(
        "cxrtext.phantom.render.vessels", lambda anatomy, *_: np.ones_like(anatomy.u)
    )
    bright = attenuation(who, 256).total
    gap = effect.extent > 0.999
    assert gap.sum() > 500
    assert bright[gap] == pytest.approx(total[gap], abs=0.002)
    kept = lay_out(who.body(), 256).left.chest > 0.999
    assert float((bright - total)[kept].mean()) > 0.5


def test_effusion_blunts_the_angle() -> None:
    who = patient(State(effusion=(1, 0)), difficulty=0.0)
    body = who.body()
    picture, _ = draw_phantom(who, 256)
    plain, _ = draw_phantom(replace(who, state=State()), 256)
    corner = (-(body.chest - 0.02), body.domes[0] + 0.5 * body.angle)
    assert mean_at(picture, who, *corner) > mean_at(plain, who, *corner) + 0.2
    away = (0.2, 0.4)
    assert mean_at(picture, who, *away) == pytest.approx(mean_at(plain, who, *away), abs=0.03)


def test_what_stays_with_a_patient_stays() -> None:
    who = patient(State(), 4)
    first, second = who.body(), replace(who, study_key=(0, 2, 5)).body()
    other = replace(who, patient_key=(0, 1, 5)).body()
    assert (first.chest, first.fat, first.knob) == (second.chest, second.fat, second.knob)
    assert first.chest != other.chest
    assert first.shift != second.shift


def test_blur_keeps_the_sum_and_spreads() -> None:
    spot = np.zeros((41, 41), np.float32)
    spot[20, 20] = 1.0
    soft = blur(spot, 3.0)
    assert soft.sum() == pytest.approx(1.0, abs=1e-5)
    rows = np.arange(41) - 20
    spread = float((soft.sum(axis=1) * rows**2).sum()) ** 0.5
    assert spread == pytest.approx(3.0, rel=0.25)
    assert np.array_equal(blur(spot, 0.3), spot)


def test_every_part_of_a_picture_has_a_random_stream_of_its_own() -> None:
    names = [*STREAMS, *DRAWN, "a finding of tomorrow"]
    numbers = {name: patient(State()).stream(name).integers(2**62) for name in names}
    assert len(set(numbers.values())) == len(numbers)
    assert set(DRAWN) <= set(STREAMS)
