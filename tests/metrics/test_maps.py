import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from sklearn.metrics import f1_score, roc_auc_score

from cxrtext.evaluation.grounding.boxes import region_boxes, region_of_interest_align
from cxrtext.images import Preprocessing
from cxrtext.metrics import maps
from cxrtext.metrics.maps import PAPER_THRESHOLDS, box_mask, peaks_left, pixel_auroc

Floats = NDArray[np.float64]


def contrast_to_noise(heat: Any, boxes: Any, *, signed: bool = False) -> float:
    return maps.contrast_to_noise(heat, box_mask(boxes, heat.shape), signed=signed)


def overlap_by_threshold(heat: Any, boxes: Any) -> Floats:
    return maps.overlap_by_threshold(heat, box_mask(boxes, heat.shape))


def pointing_game(heat: Any, boxes: Any) -> float:
    return maps.pointing_game(heat, box_mask(boxes, heat.shape))


HEAT = np.array([[3.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 4.0]])


def drawn(seed: int) -> tuple[NDArray[np.float32], list[list[float]]]:
    """A map that holds every threshold of the paper and NaN at its sides, and two boxes."""
    generator = np.random.default_rng(seed)
    heat = generator.normal(scale=0.5, size=(30, 40)).astype(np.float32)
    heat[:, 10] = generator.choice(np.asarray(PAPER_THRESHOLDS), 30)
    heat[:, :4] = heat[:, 37:] = np.nan
    return heat, [[2.2, 5.7, 11.4, 9.1], [8.0, 10.0, 20.0, 40.0]]


def test_the_pixels_of_boxes() -> None:
    assert np.argwhere(box_mask([1, 0, 2, 1], (2, 4))).tolist() == [[0, 1], [0, 2]]
    # A pixel lies in a box when its center does; boxes are clipped to the image.
    assert box_mask([-3, -3, 3.6, 4.4], (2, 4)).tolist() == [
        [True, False, False, False],
        [False] * 4,
    ]
    _, boxes = drawn(0)
    down, across = np.mgrid[:30, :40] + 0.5
    inside = [
        (x <= across) & (across < x + w) & (y <= down) & (down < y + h) for x, y, w, h in boxes
    ]
    assert (box_mask(boxes, (30, 40)) == np.logical_or(*inside)).all()


def test_contrast_to_noise_by_hand() -> None:
    # Inside 3 and 1: mean 2, variance 1. Outside 0 0 0 0 0 4: mean 2/3, variance 20/9.
    expected = (2 - 2 / 3) / math.sqrt(1 + 20 / 9)
    assert contrast_to_noise(HEAT, [0, 0, 2, 1]) == pytest.approx(expected)
    assert contrast_to_noise(-HEAT, [0, 0, 2, 1]) == pytest.approx(expected)
    assert contrast_to_noise(-HEAT, [0, 0, 2, 1], signed=True) == pytest.approx(-expected)


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


def test_overlap_by_hand_at_the_papers_thresholds() -> None:
    heat = HEAT / 4
    heat[0, 1] = np.nan  # a pixel of the box, which is missed
    found = dict(zip(PAPER_THRESHOLDS, overlap_by_threshold(heat, [0, 0, 2, 1]), strict=True))
    # At 0 everything else is above: 1 of 8. At 0.75: one, a wrong one and the missed one.
    assert (found[0.0], found[0.75], found[1.0]) == (1 / 8, 1 / 3, 0)
    assert len(PAPER_THRESHOLDS) == 41
    np.testing.assert_allclose(PAPER_THRESHOLDS, np.linspace(-1, 1, 41), atol=1e-15)


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
        ([[0, 0, 1, 1], [0, 0, 0, 1]], "box 1 is"),
        ([0, 0, np.nan, 1], "box 0 is"),
        ([0.6, 0, 0.3, 1], "covers no pixel"),
    ],
)
def test_wrong_boxes(boxes: list[float], words: str) -> None:
    for measure in (contrast_to_noise, overlap_by_threshold, pointing_game):
        with pytest.raises(ValueError, match=words):
            measure(HEAT, boxes)


def test_the_side_of_a_peak() -> None:
    grid = np.zeros((3, 3))
    assert peaks_left(grid) == 0.5
    grid[1, 2] = 1
    assert peaks_left(np.stack([grid, grid[:, ::-1]], axis=2)).tolist() == [1, 0]
    grid[0, 0] = 1
    assert peaks_left(grid) == 0.5
    grid[0, 1] = 2
    assert peaks_left(grid) == 0.5


def test_dice_by_hand() -> None:
    heat = np.array([[0.9, 0.6], [0.4, math.nan]])
    mask = np.array([[True, False], [True, True]])
    # At 0.5 two pixels of which one is inside of three; at 0 three, two of them inside.
    found = dict(zip(PAPER_THRESHOLDS, maps.dice_by_threshold(heat, mask), strict=True))
    assert (found[0.0], found[0.5], found[0.95]) == (4 / 6, 2 / 5, 0)
    with pytest.raises(ValueError, match="cover a pixel"):
        maps.dice_by_threshold(heat, np.zeros((2, 2)))


def test_dice_and_auroc_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    heat = rng.normal(size=(40, 50)).round(2)  # with ties
    mask = rng.random((40, 50)) < 0.2
    heat[mask] += 0.5
    for cut, dice in zip(PAPER_THRESHOLDS, maps.dice_by_threshold(heat, mask), strict=True):
        assert dice == pytest.approx(f1_score(mask.ravel(), (heat >= cut).ravel()))
    assert pixel_auroc(heat, mask) == pytest.approx(roc_auc_score(mask.ravel(), heat.ravel()))
    heat[:, :10] = math.nan
    seen = ~np.isnan(heat)
    assert pixel_auroc(heat, mask) == pytest.approx(roc_auc_score(mask[seen], heat[seen]))
    assert math.isnan(pixel_auroc(np.full((2, 2), math.nan), np.ones((2, 2))))


def test_a_map_is_bilinear_between_the_centres_of_regions() -> None:
    grid = np.random.default_rng(1).normal(size=(15, 15))
    geometry = Preprocessing(resize=512, crop=480).geometry(512, 600)
    full = geometry.map_to_original(grid)
    given = torch.from_numpy(grid)[None, None]
    expected = torch.nn.functional.interpolate(given, size=(480, 480), mode="bilinear")
    assert full.shape == (512, 600)
    np.testing.assert_allclose(full[16:496, 60:540], expected[0, 0].numpy(), atol=1e-5)
    assert np.isnan(full).sum() == 512 * 600 - 480 * 480


def aligned(grid: Floats, box: list[float], cells: int) -> Floats:
    """The reference's mean of bilinear samples; beyond a cell outside of the grid they are 0."""
    places, seen, counts = [], [], []
    for start, extent, most in zip(box[1::-1], box[:1:-1], grid.shape, strict=True):
        count = math.ceil(extent / cells)
        at = start - 0.5 + (np.arange(cells * count) + 0.5) * extent / cells / count
        places.append(at)
        seen.append((at >= -1) & (at <= most))
        counts += [cells, count]
    found = map_coordinates(grid, np.meshgrid(*places, indexing="ij"), order=1, mode="nearest")
    means: Floats = (found * np.outer(*seen)).reshape(counts).mean(axis=(1, 3))
    return means


@pytest.mark.parametrize("size", [1, 3, 7])
def test_pooling_is_the_mean_of_bilinear_samples(size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 2, 9, 7, generator=generator, dtype=torch.float64)
    # Some reach far beyond the grid, some are smaller than a cell.
    starts = torch.rand(12, 2, generator=generator, dtype=torch.float64) * 14 - 4
    extents = torch.rand(12, 2, generator=generator, dtype=torch.float64) ** 2 * 9 + 0.05
    boxes = torch.cat([starts, extents], dim=1)
    found = region_of_interest_align(features, boxes, size)
    for number, box in enumerate(boxes.tolist()):
        for channel in range(2):
            expected = aligned(features[number, channel].numpy(), box, size)
            np.testing.assert_allclose(found[number, channel].numpy(), expected, atol=1e-12)


def test_boxes_of_the_original_lie_on_the_grid() -> None:
    geometry = Preprocessing(resize=512, crop=480).geometry(1024, 1024)
    # The crop begins at 32 in the original, and a cell of 15 is 64 wide there.
    boxes = [[32 + 64, 32 + 128, 64, 192], [0, 0, 96, 96], [0, 0, 20, 20]]
    found = region_boxes(boxes, geometry, (15, 15))
    expected = torch.tensor([[1, 2, 1, 3], [0, 0, 1, 1], [0, 0, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected)


def test_maps_boxes_and_pooling_mean_the_same_place() -> None:
    geometry = Preprocessing(resize=512, crop=480).geometry(700, 900)
    grid = np.zeros((15, 15))
    grid[4, 11] = 1.0
    box = geometry.boxes_of_cells([11.0, 4.0, 1.0, 1.0], (15, 15))
    heat = geometry.map_to_original(grid)
    assert pointing_game(heat, box) == 1
    assert contrast_to_noise(heat, box, signed=True) > 3
    place = region_boxes(box[None], geometry, (15, 15))
    pooled = region_of_interest_align(torch.from_numpy(grid)[None, None], place, 1)
    assert pooled.item() == pytest.approx(1.0)  # one sample, at the center of the cell
