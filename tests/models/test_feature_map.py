"""Regions of an image: pooling by area, components and scale."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cxrtext.errors import ConfigError, DataError
from cxrtext.images import Preprocessing, ReaderPool
from cxrtext.images.cache import DecodedCache
from cxrtext.images.reader_pool import ReadImage
from cxrtext.models import ImageTextModel
from cxrtext.models.features import FeatureMap, fit_feature_map
from cxrtext.models.features.feature_map import pool_regions
from cxrtext.models.regions import embed_files, normalized


def features(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize(("cells", "fewer"), [(37, 15), (14, 7), (16, 15), (3, 1), (5, 4)])
def test_pooling_is_the_mean_over_the_area_of_each_cell(cells: int, fewer: int) -> None:
    regions = features(2, cells, cells, 3)
    # Of a fine grid on which both grids' edges lie.
    fine = F.interpolate(regions.double().permute(0, 3, 1, 2), scale_factor=fewer)
    wanted = F.avg_pool2d(fine, cells).permute(0, 2, 3, 1).float()
    torch.testing.assert_close(pool_regions(regions, (fewer, fewer)), wanted, rtol=0, atol=1e-5)


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


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="--reduce 6: the backbone has 6 channels"):
        FeatureMap(6, None, 6)
    with pytest.raises(ConfigError, match="--grid 0"):
        FeatureMap(6, 0)
    with pytest.raises(DataError, match="too few to find 4 components"):
        fit_feature_map([torch.randn(1, 2, 2, 6)], 6, None, 4)
    flat = fit_feature_map([torch.ones(9, 2, 2, 3)], 3, None, None)
    assert torch.isfinite(flat(torch.ones(1, 2, 2, 3))).all()


@pytest.mark.parametrize(
    "sizes",
    [
        Preprocessing(resize=40, crop=32),
        Preprocessing(resize=41, crop=32, mean=0.0, std=1.0),
        Preprocessing(resize=40, crop=33, mean=0.4722, std=0.3024),
    ],
)
def test_normalising_on_the_device_equals_preparing(sizes: Preprocessing) -> None:
    generator = np.random.default_rng(0)
    images = [generator.random((1, 50 + i, 60), dtype=np.float32) for i in range(5)]
    squares = np.stack([sizes.square(image) for image in images])
    squares[0, 0, 4:20, 4:20] = np.arange(256).reshape(16, 16)  # inside every crop
    given = torch.from_numpy(squares.copy())
    found = normalized(given, sizes).numpy()
    assert np.array_equal(given, squares)  # not changed in place
    assert np.array_equal(found, sizes.normalize(squares))
    assert np.array_equal(found[1:], np.stack([sizes.prepare(image) for image in images[1:]]))


@pytest.fixture
def paths(data_folder: Path, tmp_path: Path) -> list[Path]:
    folder = Path(shutil.copytree(data_folder / "images", tmp_path / "images"))
    paths = sorted(folder.iterdir())[:11]
    paths[3].write_bytes(b"no image")
    return paths


def test_a_cache_changes_no_bit_and_a_full_one_needs_no_decoder(
    model: ImageTextModel, paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = list(embed_files(model, paths, batch=4, processes=1))
    assert [len(part.rows) for part in plain] == [3, 4, 3]
    cache = DecodedCache(tmp_path / "cache")
    honest, asked = ReaderPool.prepare, list[Path]()

    def counted(pool: ReaderPool, path: Path, square: Preprocessing) -> ReadImage:
        asked.append(path)
        return honest(pool, path, square)

    monkeypatch.setattr(ReaderPool, "prepare", counted)
    for times in (1, 2):
        kept = list(embed_files(model, paths, batch=4, processes=1, cache=cache))
        for one, other in zip(plain, kept, strict=True):
            assert (one.rows, one.sizes, one.failed) == (other.rows, other.sizes, other.failed)
            assert torch.equal(one.regions, other.regions)
        # The one that cannot be read is tried each time.
        assert asked.count(paths[3]) == times
        assert len(asked) == len(paths) - 1 + times
