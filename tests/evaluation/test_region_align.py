import math

import numpy as np
import pytest
import torch
from torch import Tensor

from cxrtext.evaluation import (
    contrast_to_noise,
    heat_map,
    pointing_game,
    region_boxes,
    region_of_interest_align,
)
from cxrtext.images import Preprocessing


def loop_bilinear(grid: Tensor, y: float, x: float) -> float:
    """The reference's bilinear sample of a [h, w] grid."""
    h, w = grid.shape
    if y < -1 or y > h or x < -1 or x > w:
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), h - 1), min(int(x), w - 1)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    y, x = (float(h - 1) if top == h - 1 else y), (float(w - 1) if left == w - 1 else x)
    down, across = y - top, x - left
    return float(
        grid[top, left] * (1 - down) * (1 - across)
        + grid[top, right] * (1 - down) * across
        + grid[bottom, left] * down * (1 - across)
        + grid[bottom, right] * down * across
    )


def loop_align(grid: Tensor, box: list[float], size: tuple[int, int]) -> list[list[float]]:
    x, y, w, h = box
    x, y = x - 0.5, y - 0.5
    down, across = h / size[0], w / size[1]
    n, m = math.ceil(down), math.ceil(across)
    return [
        [
            sum(
                loop_bilinear(
                    grid, y + (p + (i + 0.5) / n) * down, x + (q + (j + 0.5) / m) * across
                )
                for i in range(n)
                for j in range(m)
            )
            / (n * m)
            for q in range(size[1])
        ]
        for p in range(size[0])
    ]


def test_a_ramp_by_hand() -> None:
    # Values are the column numbers; a cell's center is at column + 0.5.
    ramp = torch.arange(6.0, dtype=torch.float64).expand(1, 1, 4, 6)
    pooled = region_of_interest_align(ramp, torch.tensor([[1.0, 0.0, 4.0, 4.0]]), 2)
    # Bins cover columns 1 to 3 and 3 to 5, whose middles are 2 and 4, or 1.5 and 3.5 as values.
    assert pooled.tolist() == [[[[1.5, 3.5], [1.5, 3.5]]]]


def test_one_cell_by_hand() -> None:
    grid = torch.tensor([[1.0, 3.0], [5.0, 11.0]])[None, None]
    box = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    assert region_of_interest_align(grid, box, 1).item() == 1.0
    middle = torch.tensor([[0.5, 0.5, 1.0, 1.0]])
    assert region_of_interest_align(grid, middle, 1).item() == 5.0  # the mean of the four
    whole = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
    assert region_of_interest_align(grid, whole, 1).item() == 5.0
    assert region_of_interest_align(grid, whole, 2)[0, 0].tolist() == [[1, 3], [5, 11]]


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (7, 7)])
def test_pooling_equals_the_loop(size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3, 2, 9, 7, generator=generator, dtype=torch.float64)
    # Some reach far beyond the grid, some are smaller than a cell.
    starts = torch.rand(12, 2, generator=generator, dtype=torch.float64) * 14 - 4
    extents = torch.rand(12, 2, generator=generator, dtype=torch.float64) ** 2 * 9 + 0.05
    boxes, images = torch.cat([starts, extents], dim=1), torch.arange(12) % 3
    found = region_of_interest_align(features, boxes, size, images)
    for number, box in enumerate(boxes.tolist()):
        for channel in range(2):
            grid = features[images[number], channel]
            expected = loop_align(grid, box, size)
            np.testing.assert_allclose(found[number, channel].numpy(), expected, atol=1e-12)


def test_gradients_reach_the_features() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(2, 2, 4, 5, generator=generator, dtype=torch.float64)
    boxes = torch.tensor([[0.3, 0.2, 3.1, 2.7], [1.0, 1.0, 0.4, 0.4], [-2.0, 0.0, 9.0, 4.0]])
    images = torch.tensor([0, 1, 1])
    assert torch.autograd.gradcheck(
        lambda grid: region_of_interest_align(grid, boxes, (2, 3), images),
        features.requires_grad_(),
    )


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(1, 3, 5, 5, generator=generator)
    boxes = torch.rand(9, 4, generator=generator) * 3 + 0.1
    whole = region_of_interest_align(features, boxes, 2)
    assert (whole.dtype, whole.shape) == (torch.float32, (9, 3, 2, 2))
    monkeypatch.setattr("cxrtext.evaluation.grounding.boxes.BOXES_AT_ONCE", 2)
    torch.testing.assert_close(region_of_interest_align(features, boxes, 2), whole)
    assert region_of_interest_align(features, boxes[:0], (2, 3)).shape == (0, 3, 2, 3)


def test_boxes_of_the_original_lie_on_the_grid() -> None:
    geometry = Preprocessing(resize=512, crop=480).geometry(1024, 1024)
    # The crop begins at 32 in the original, and a cell of 15 is 64 wide there.
    boxes = [[32 + 64, 32 + 128, 64, 192], [0, 0, 96, 96], [0, 0, 20, 20]]
    found = region_boxes(boxes, geometry, (15, 15))
    expected = torch.tensor([[1, 2, 1, 3], [0, 0, 1, 1], [0, 0, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="box 2 is"):
        region_of_interest_align(torch.zeros(1, 1, 15, 15), found, 1)


def test_maps_boxes_and_pooling_mean_the_same_place() -> None:
    geometry = Preprocessing(resize=512, crop=480).geometry(700, 900)
    grid = np.zeros((15, 15))
    grid[4, 11] = 1.0
    box = geometry.boxes_to_original([11 * 32, 4 * 32, 32, 32])
    heat = heat_map(grid, geometry)
    assert pointing_game(heat, box) == 1
    assert contrast_to_noise(heat, box, signed=True) > 3
    place = region_boxes(box[None], geometry, (15, 15))
    pooled = region_of_interest_align(torch.from_numpy(grid)[None, None], place, 1)
    assert pooled.item() == pytest.approx(1.0)  # one sample, at the center of the cell


def test_wrong_arguments() -> None:
    features, boxes = torch.zeros(2, 1, 3, 3), torch.ones(2, 4)
    for wrong, words in [
        ((features[0], boxes, 1), "features must"),
        ((features, boxes[:, :3], 1), "boxes must"),
        ((features, boxes, 0), "size must"),
        ((features, boxes, 1), "which of 2 images"),
        ((features, boxes, 1, torch.tensor([0])), r"images must be \[2\]"),
        ((features, boxes, 1, torch.tensor([0, 2])), "rows 0 to 1"),
        ((features, boxes * torch.nan, 1), "box 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            region_of_interest_align(*wrong)  # type: ignore[arg-type]
