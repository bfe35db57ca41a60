import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.images import Preprocessing, ReaderPool, read_image
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.models.regions import EmbeddedBatch, embed_files, normalized


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
    squares[0].flat[:256] = np.arange(256)
    squares[0, 0, 4:20, 4:20] = np.arange(256).reshape(16, 16)  # inside every crop
    found = normalized(torch.from_numpy(squares), sizes).numpy()
    assert np.array_equal(found, sizes.normalize(squares))
    assert np.array_equal(found[1:], np.stack([sizes.prepare(image) for image in images[1:]]))


def test_the_squares_stay_as_they_are() -> None:
    squares = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    before = squares.clone()
    normalized(squares, Preprocessing(resize=16, crop=16))
    assert torch.equal(squares, before)


@pytest.fixture
def paths(data_folder: Path, tmp_path: Path) -> list[Path]:
    folder = Path(shutil.copytree(data_folder / "images", tmp_path / "images"))
    paths = sorted(folder.iterdir())[:11]
    paths[3].write_bytes(b"no image")
    return paths


def equal(one: EmbeddedBatch, other: EmbeddedBatch) -> None:
    assert one.rows == other.rows
    assert one.sizes == other.sizes
    assert one.failed == other.failed
    assert torch.equal(one.regions, other.regions)


def test_a_cache_changes_no_bit(checkpoint: Path, paths: list[Path], tmp_path: Path) -> None:
    model = load_model(checkpoint)
    plain = list(embed_files(model, paths, batch=4, processes=1))
    assert [len(part.rows) for part in plain] == [3, 4, 3]
    cache = DecodedCache(tmp_path / "cache")
    for _ in range(2):  # decoded, then found
        kept = list(embed_files(model, paths, batch=4, processes=1, cache=cache))
        for one, other in zip(plain, kept, strict=True):
            equal(one, other)


def test_a_full_cache_needs_no_decoder(
    checkpoint: Path, paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(checkpoint)
    cache = DecodedCache(tmp_path / "cache")
    (first,) = embed_files(model, paths, cache=cache, processes=1)
    monkeypatch.setattr(ReaderPool, "map", None)
    (again,) = embed_files(model, paths, cache=cache)
    equal(first, again)


def test_embedding_equals_preparing_one_image(checkpoint: Path, paths: list[Path]) -> None:
    model = load_model(checkpoint)
    with torch.inference_mode():
        image = model.spec.preprocessing.prepare(read_image(paths[0]))
        expected = model.embed_images(
            torch.from_numpy(image)[None].contiguous(memory_format=torch.channels_last)
        )
    (part,) = embed_files(model, paths[:1], processes=0)
    assert torch.equal(part.regions, expected.flatten(1, 2).float())


def test_no_image_can_be_read(checkpoint: Path, paths: list[Path]) -> None:
    model = load_model(checkpoint)
    (found,) = embed_files(model, [paths[3]], processes=0)
    assert found.rows == []
    assert "is no PNG" in found.failed[0][1]
