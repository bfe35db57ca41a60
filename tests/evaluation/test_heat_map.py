import numpy as np
import pytest
import torch

from cxrtext.evaluation import heat_map, smooth_grid
from cxrtext.images import Preprocessing


def test_smoothing_by_hand() -> None:
    # At sigma 0.3 the kernel reaches one cell: e, 1, e over their sum.
    e = np.exp(-0.5 / 0.3**2)
    total = 1 + 2 * e
    found = smooth_grid([[0.0, 1.0, 0.0]], 0.3)
    np.testing.assert_allclose(found, [[e / total, 1 / total, e / total]])
    # The edge is mirrored: the outer cell sees itself twice.
    np.testing.assert_allclose(smooth_grid([[1.0, 0.0]], 0.3), [[(1 + e) / total, e / total]])


@pytest.mark.parametrize("sigma", [0.5, 1.5, 6.0])
def test_smoothing_agrees_with_scipy(sigma: float) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    grid = np.random.default_rng(0).normal(size=(15, 11))
    np.testing.assert_allclose(
        smooth_grid(grid, sigma), ndimage.gaussian_filter(grid, sigma), atol=1e-12
    )


def test_a_map_is_bilinear_between_the_centres_of_regions() -> None:
    grid = np.random.default_rng(1).normal(size=(15, 15))
    geometry = Preprocessing(resize=512, crop=480).geometry(512, 600)
    full = heat_map(grid, geometry)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(grid)[None, None], size=(480, 480), mode="bilinear", align_corners=False
    )
    assert full.shape == (512, 600)
    np.testing.assert_allclose(full[16:496, 60:540], expected[0, 0].numpy(), atol=1e-5)
    assert np.isnan(full).sum() == 512 * 600 - 480 * 480
    smooth = heat_map(grid, geometry, sigma=1.5)
    np.testing.assert_array_equal(smooth, geometry.map_to_original(smooth_grid(grid, 1.5)))
    assert np.nanstd(smooth) < np.nanstd(full)


def test_wrong_grids() -> None:
    with pytest.raises(ValueError, match="grid is"):
        smooth_grid([1.0], 1)
    with pytest.raises(ValueError, match="sigma"):
        smooth_grid([[1.0]], -1)
