import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cxrtext.evaluation import (
    COMMON_THRESHOLDS,
    PAPER_THRESHOLDS,
    box_mask,
    contrast_to_noise,
    mean_iou,
    overlap_by_threshold,
    pointing_game,
)

Floats = NDArray[np.float64]
HEAT = np.array([[3.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 4.0]])


def drawn(seed: int) -> tuple[NDArray[np.float32], list[list[float]]]:
    """A map that holds every threshold of the paper and NaN at its sides, and two boxes."""
    generator = np.random.default_rng(seed)
    heat = generator.normal(scale=0.5, size=(30, 40)).astype(np.float32)
    heat[:, 10] = generator.choice(np.asarray(PAPER_THRESHOLDS), 30)
    heat[:, :4] = heat[:, 37:] = np.nan
    return heat, [[2.2, 5.7, 11.4, 9.1], [8.0, 10.0, 20.0, 40.0]]


def loop_inside(boxes: list[list[float]], row: int, column: int) -> bool:
    return any(x <= column + 0.5 < x + w and y <= row + 0.5 < y + h for x, y, w, h in boxes)


def test_the_pixels_of_boxes() -> None:
    assert np.argwhere(box_mask([1, 0, 2, 1], (2, 4))).tolist() == [[0, 1], [0, 2]]
    # A pixel lies in a box when its center does; boxes are clipped to the image.
    assert box_mask([-3, -3, 3.6, 4.4], (2, 4)).tolist() == [
        [True, False, False, False],
        [False] * 4,
    ]
    _, boxes = drawn(0)
    expected = [[loop_inside(boxes, row, column) for column in range(40)] for row in range(30)]
    assert box_mask(boxes, (30, 40)).tolist() == expected


def test_contrast_to_noise_by_hand() -> None:
    # Inside 3 and 1: mean 2, variance 1. Outside 0 0 0 0 0 4: mean 2/3, variance 20/9.
    expected = (2 - 2 / 3) / math.sqrt(1 + 20 / 9)
    assert contrast_to_noise(HEAT, [0, 0, 2, 1]) == pytest.approx(expected)
    assert contrast_to_noise(-HEAT, [0, 0, 2, 1]) == pytest.approx(expected)
    assert contrast_to_noise(-HEAT, [0, 0, 2, 1], signed=True) == pytest.approx(-expected)


def test_contrast_to_noise_of_several_boxes() -> None:
    boxes = [[0, 0, 2, 1], [3, 1, 1, 1]]
    union = (8 / 3 - 0) / math.sqrt(((3 - 8 / 3) ** 2 + (1 - 8 / 3) ** 2 + (4 - 8 / 3) ** 2) / 3)
    assert contrast_to_noise(HEAT, boxes) == pytest.approx(union)
    assert contrast_to_noise(HEAT, boxes[0]) != pytest.approx(union)


def test_contrast_to_noise_equals_the_loop() -> None:
    heat, boxes = drawn(1)
    inside: list[float] = []
    outside: list[float] = []
    for row in range(30):
        for column in range(40):
            value = float(heat[row, column])
            if not math.isnan(value):
                (inside if loop_inside(boxes, row, column) else outside).append(value)
    means = [math.fsum(side) / len(side) for side in (inside, outside)]
    variances = [
        math.fsum((value - mean) ** 2 for value in side) / len(side)
        for side, mean in zip((inside, outside), means, strict=True)
    ]
    expected = (means[0] - means[1]) / math.sqrt(sum(variances))
    assert contrast_to_noise(heat, boxes, signed=True) == pytest.approx(expected, rel=1e-12)


def test_contrast_to_noise_where_there_is_none() -> None:
    constant = np.full((50, 50), 0.1, dtype=np.float32)
    assert math.isnan(contrast_to_noise(constant, [3, 3, 9, 9]))
    two = constant.copy()
    two[3:12, 3:12] = -0.7
    assert contrast_to_noise(two, [3, 3, 9, 9]) == math.inf
    assert contrast_to_noise(two, [3, 3, 9, 9], signed=True) == -math.inf
    beyond = constant.copy()
    beyond[3:12, 3:12] = np.nan
    assert math.isnan(contrast_to_noise(beyond, [3, 3, 9, 9]))
    assert math.isnan(contrast_to_noise(constant, [0, 0, 50, 50]))


def test_overlap_by_hand() -> None:
    # At 0 everything is above: 2 of 8. At 1: two of three. At 3.5 only the wrong pixel is left.
    found = overlap_by_threshold(HEAT, [0, 0, 2, 1], [0.0, 1.0, 2.0, 3.5])
    assert found.tolist() == pytest.approx([2 / 8, 2 / 3, 1 / 3, 0])
    assert mean_iou(HEAT, [0, 0, 2, 1], [0.0, 1.0, 2.0, 3.5]) == pytest.approx(found.mean())


def test_undefined_pixels_of_a_box_are_missed_or_ignored() -> None:
    heat = HEAT.copy()
    heat[0, 1] = np.nan
    box = [0, 0, 2, 1]
    assert overlap_by_threshold(heat, box, [3.0]).tolist() == [1 / 3]
    assert overlap_by_threshold(heat, box, [3.0], undefined="ignored").tolist() == [1 / 2]
    heat[0, 0] = np.nan
    assert overlap_by_threshold(heat, box, [5.0]).tolist() == [0]
    assert np.isnan(overlap_by_threshold(heat, box, [5.0], undefined="ignored")).all()


def test_the_thresholds() -> None:
    assert len(PAPER_THRESHOLDS) == 41
    np.testing.assert_allclose(PAPER_THRESHOLDS, np.linspace(-1, 1, 41), atol=1e-15)
    with pytest.raises(ValueError, match="rise"):
        mean_iou(HEAT, [0, 0, 2, 1], [0.5, 0.5])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("thresholds", [PAPER_THRESHOLDS, COMMON_THRESHOLDS])
def test_the_histogram_equals_a_pass_for_each_threshold(
    seed: int, thresholds: tuple[float, ...]
) -> None:
    heat, boxes = drawn(seed)
    wide = heat.astype(np.float64)
    mask = box_mask(boxes, (30, 40))
    for undefined, region in (("missed", mask), ("ignored", mask & ~np.isnan(wide))):
        expected = [((wide >= t) & region).sum() / ((wide >= t) | region).sum() for t in thresholds]
        found = overlap_by_threshold(heat, boxes, thresholds, undefined=undefined)  # type: ignore[arg-type]
        assert found.tolist() == expected


def test_pointing_game() -> None:
    assert pointing_game(HEAT, [0, 0, 2, 1]) == 0
    assert pointing_game(HEAT, [[0, 0, 2, 1], [3, 1, 1, 1]]) == 1
    assert pointing_game(np.ones((2, 4)), [0, 0, 2, 1]) == 0.25  # a constant map: chance
    partly = np.where(HEAT == 4, np.nan, HEAT)
    assert pointing_game(partly, [0, 0, 1, 1]) == 1
    assert math.isnan(pointing_game(np.full((2, 4), np.nan), [0, 0, 1, 1]))


@pytest.mark.parametrize(
    ("boxes", "words"),
    [
        (np.empty((0, 4)), "at least 1"),
        ([0, 0, 1], r"\[n, 4\]"),
        ([[0, 0, 1, 1], [0, 0, 0, 1]], "box 1 is"),
        ([0, 0, np.nan, 1], "box 0 is"),
        ([4, 0, 1, 1], "covers no pixel"),
        ([0.6, 0, 0.3, 1], "covers no pixel"),
    ],
)
def test_wrong_boxes(boxes: list[float], words: str) -> None:
    for measure in (contrast_to_noise, mean_iou, pointing_game):
        with pytest.raises(ValueError, match=words):
            measure(HEAT, boxes)


def test_wrong_maps() -> None:
    with pytest.raises(ValueError, match="map is"):
        contrast_to_noise(np.zeros(3), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="map is"):
        contrast_to_noise(np.zeros((2, 2), dtype=int), [0, 0, 1, 1])
