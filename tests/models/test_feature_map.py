"""What is kept of a backbone's regions: pooling by area, components, scale."""

import numpy as np
import pytest
import torch

from cxrtext.errors import ConfigError, DataError
from cxrtext.models.features import FeatureMap, fit_feature_map
from cxrtext.models.features.feature_map import pool_regions


def by_hand(regions: np.ndarray, fewer: int) -> np.ndarray:
    """The mean over each cell of a fine grid on which both grids' edges lie."""
    fine = np.repeat(np.repeat(regions, fewer, axis=1), fewer, axis=2)
    b, side, _, channels = fine.shape
    cell = side // fewer
    means: np.ndarray = fine.reshape(b, fewer, cell, fewer, cell, channels).mean(axis=(2, 4))
    return means


@pytest.mark.parametrize(("cells", "fewer"), [(37, 15), (14, 7), (16, 15), (3, 1), (5, 4)])
def test_pooling_is_the_mean_over_the_area_of_each_cell(cells: int, fewer: int) -> None:
    regions = np.random.default_rng(0).normal(size=(2, cells, cells, 3)).astype(np.float32)
    pooled = pool_regions(torch.from_numpy(regions), (fewer, fewer))
    assert pooled.dtype == torch.float32
    assert np.allclose(pooled.numpy(), by_hand(regions, fewer), atol=1e-5)
    assert np.allclose(pooled.numpy().mean((1, 2)), regions.mean((1, 2)), atol=1e-6)


@pytest.mark.parametrize("place", [(0, 0), (36, 36), (18, 18), (5, 30), (36, 0)])
def test_a_lit_region_stays_in_its_place(place: tuple[int, int]) -> None:
    regions = torch.zeros(1, 37, 37, 1)
    regions[0, place[0], place[1]] = 1
    pooled = pool_regions(regions, (15, 15))[0, ..., 0].double()
    assert pooled.sum() * (37 / 15) ** 2 == pytest.approx(1, abs=1e-6)
    centers = (torch.arange(15) + 0.5) / 15
    down, right = (pooled.sum(dim).mul(centers).sum() / pooled.sum() for dim in (1, 0))
    for found, cell in ((down, place[0]), (right, place[1])):
        assert abs(float(found) - (cell + 0.5) / 37) < 0.5 / 15  # never another cell


def test_a_grid_of_no_more_cells_is_left_as_it_is() -> None:
    regions = torch.randn(2, 7, 7, 4)
    for grid in (None, 7, 15):
        assert FeatureMap(4, grid).grid_of((7, 7)) == (7, 7)
        assert torch.equal(FeatureMap(4, grid)(regions), regions)


def example(count: int = 40) -> list[torch.Tensor]:
    """Regions of 6 channels of which 2 directions hold nearly everything; far from the origin."""
    generator = torch.Generator().manual_seed(1)
    low = torch.randn(count, 4, 4, 2, generator=generator) * torch.tensor([30.0, 10.0])
    turn = torch.linalg.qr(torch.randn(6, 6, generator=generator))[0]
    noise = 0.1 * torch.randn(count, 4, 4, 6, generator=generator)
    return list((low @ turn[:2] + noise + 50).split(8))


def test_components_are_those_of_a_singular_value_decomposition() -> None:
    regions = torch.cat(example())
    made = fit_feature_map(example(), 6, None, 2)
    flat = regions.flatten(0, 2).double()
    centered = flat - flat.mean(0)
    _, values, right = torch.linalg.svd(centered, full_matrices=False)
    assert torch.allclose((right[:2] @ made.basis.double()).abs(), torch.eye(2).double(), atol=1e-4)
    share = float(values[:2].square().sum() / values.square().sum())
    assert made.variance_kept == pytest.approx(share, abs=1e-6)
    assert share > 0.99
    kept = made(regions)
    assert kept.shape == (40, 4, 4, 2)
    assert float(kept.square().mean().sqrt()) == pytest.approx(1, abs=1e-4)
    assert torch.allclose(kept.flatten(0, 2).mean(0), torch.zeros(2), atol=1e-4)
    back = kept * made.scale @ made.basis.T + made.mean
    assert float((back - regions).square().mean().sqrt()) < 0.15


def test_the_same_regions_give_the_same_map_and_its_sign_is_fixed() -> None:
    one, other = (fit_feature_map(example(), 6, 2, 3) for _ in range(2))
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
    assert torch.all(one.basis.gather(0, one.basis.abs().argmax(0)[None]) > 0)
    assert one.grid_of((4, 4)) == (2, 2)


def test_without_components_regions_are_centered_and_scaled() -> None:
    made = fit_feature_map(example(), 6, None, None)
    kept = made(torch.cat(example()))
    assert kept.shape[-1] == made.width == 6
    assert float(kept.square().mean().sqrt()) == pytest.approx(1, abs=1e-4)
    assert made.variance_kept == 1


def test_a_map_is_made_of_its_note_again() -> None:
    made = fit_feature_map(example(), 6, 3, 2)
    again = FeatureMap.from_note(made.note(), made.state_dict())
    regions = torch.cat(example())
    assert torch.equal(again(regions), made(regions))
    assert again.note() == made.note()


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="--reduce 6: the backbone has 6 channels"):
        FeatureMap(6, None, 6)
    with pytest.raises(ConfigError, match="--grid 0"):
        FeatureMap(6, 0)
    with pytest.raises(DataError, match="too few to find 4 components"):
        fit_feature_map([torch.randn(1, 2, 2, 6)], 6, None, 4)
    flat = fit_feature_map([torch.ones(9, 2, 2, 3)], 3, None, None)
    assert torch.isfinite(flat(torch.ones(1, 2, 2, 3))).all()
