import itertools
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.images import Preprocessing
from cxrtext.images.augment import centre_crop, jitter, random_crop
from cxrtext.records import Rejects, read_manifest
from cxrtext.training.cache import decode_images
from cxrtext.training.data import batch_rows
from cxrtext.training.schedule import learning_rate


def test_the_rate_rises_then_falls() -> None:
    rates = [learning_rate(s, total=100, warmup=10, peak=1.0) for s in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == 1.0
    assert all(a > b for a, b in itertools.pairwise(rates))
    assert 0 < rates[-1] < 0.001
    assert learning_rate(0, total=3, warmup=1000, peak=1.0) == 1.0


def test_an_epoch_shows_every_example_once() -> None:
    steps = [batch_rows(20, 6, seed=1, step=s) for s in range(6)]
    for epoch in (steps[:3], steps[3:]):
        assert len(set(np.concatenate(epoch).tolist())) == 18
    assert not np.array_equal(steps[0], steps[3])
    assert np.array_equal(steps[4], batch_rows(20, 6, seed=1, step=4))
    assert not np.array_equal(steps[0], batch_rows(20, 6, seed=2, step=0))


def test_crops_and_jitter() -> None:
    images = torch.arange(2 * 10 * 10, dtype=torch.uint8).reshape(2, 1, 10, 10)
    generator = torch.Generator().manual_seed(0)
    cropped = random_crop(images, 8, generator)
    assert cropped.shape == (2, 1, 8, 8)
    row, column = divmod(int(cropped[0, 0, 0, 0]), 10)
    assert torch.equal(cropped[0, 0], images[0, 0, row : row + 8, column : column + 8])
    assert torch.equal(centre_crop(images, 6), images[..., 2:8, 2:8])
    grey = torch.full((4, 1, 3, 3), 0.5)
    changed = jitter(grey, 0.1, 0.0, generator)
    assert (changed - 0.5).abs().max() <= 0.1
    assert changed[:, 0, 0, 0].unique().numel() == 4
    assert torch.equal(jitter(grey, 0.0, 0.0, generator), grey)
    assert jitter(torch.ones(3, 1, 2, 2), 0.5, 0.5, generator).max() <= 1.0


def test_decoding_goes_on_where_it_was_stopped(data_folder: Path, tmp_path: Path) -> None:
    records = read_manifest(data_folder / "manifest.csv")
    sizes = Preprocessing(resize=40, crop=32)

    def stop(done: int, _total: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode_images(records, tmp_path, sizes, Rejects(), progress=stop)
    seen: list[int] = []
    decoded = decode_images(
        records, tmp_path, sizes, Rejects(), progress=lambda d, _: seen.append(d)
    )
    assert seen == list(range(21, 49))
    whole = decode_images(records, tmp_path / "whole", sizes, Rejects())
    assert decoded.usable.all()
    assert np.array_equal(decoded.pixels, whole.pixels)


def test_a_changed_image_is_decoded_again(data_folder: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(data_folder, tmp_path / "set"))
    records = read_manifest(folder / "manifest.csv")[:2]
    sizes = Preprocessing(resize=40, crop=32)
    first = np.array(decode_images(records, tmp_path / "cache", sizes, Rejects()).pixels)
    time.sleep(0.01)
    shutil.copy(records[1].path, records[0].path)
    second = decode_images(records, tmp_path / "cache", sizes, Rejects()).pixels
    assert np.array_equal(second[0], first[1])
