from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from cxrtext.errors import CheckpointError
from cxrtext.experiments.small_sets import Images, ImageSet
from cxrtext.experiments.view_encoder import ViewEncoder, channel_statistics, encode
from cxrtext.experiments.view_losses import ViewSettings
from cxrtext.experiments.view_training import train_views
from cxrtext.training import Listener
from tests.training.conftest import metrics as all_metrics
from tests.training.test_training_run import stop_at

SETTINGS = ViewSettings(
    {"name": "info-nce"}, "resnet18", width=16, head=(16, 8),
    steps=6, batch=16, lr=3e-3, seed=1, save_every=4, log_every=1,
)  # fmt: skip


def images(count: int = 48, size: int = 8) -> ImageSet:
    """Two classes: bright at the left, or at the top."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 90, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    labels = torch.arange(count) % 2
    pixels[labels == 0, :, :, : size // 2] += 120
    pixels[labels == 1, :, : size // 2] += 120
    part = Images(pixels.numpy(), labels.numpy())
    metadata = torch.randn(count, 2, generator=generator).numpy()
    return ImageSet(part, part, metadata, False, torch.full((count,), 0.3).numpy())


def metrics(out: Path) -> list[dict[str, Any]]:
    timed = ("images_per_second", "waiting")
    return [{k: v for k, v in line.items() if k not in timed} for line in all_metrics(out)]


def equal(one: ViewEncoder, other: ViewEncoder) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return all(torch.equal(a[name], b[name]) for name in a) and a.keys() == b.keys()


@pytest.mark.parametrize("optimizer", ["adam", "lars"])
def test_a_stopped_run_goes_on_and_ends_in_the_same_weights(
    tmp_path: Path, optimizer: Literal["adam", "lars"]
) -> None:
    settings = replace(SETTINGS, optimizer=optimizer, schedule="cosine", weight_decay=1e-4)
    data = images()
    whole = train_views(data, settings, tmp_path / "whole", device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train_views(data, settings, tmp_path / "broken", device="cpu", listener=stop_at(3))
    seen: list[int] = []
    heard = Listener(step=lambda report, _total: seen.append(report.step))
    again = replace(settings, save_every=100)  # how often it saves decides nothing
    broken = train_views(data, again, tmp_path / "broken", device="cpu", listener=heard)
    assert seen == [4, 5, 6]
    assert equal(whole, broken)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "broken")


def test_it_learns_to_tell_images_and_the_seed_decides(tmp_path: Path) -> None:
    data = images()
    gentle = {"scale": [0.6, 1.0], "gray": 0.0, "hue": 0.0}
    settings = replace(SETTINGS, steps=40, lr=1e-2, gamma_sq=10.0, augmentation=gentle, log_every=1)
    start = train_views(data, replace(settings, steps=1), tmp_path / "one", device="cpu")
    end = train_views(data, settings, tmp_path / "many", device="cpu")
    losses = [line["loss"] for line in metrics(tmp_path / "many")]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    other = train_views(data, replace(settings, steps=1, seed=2), tmp_path / "seed", device="cpu")
    assert not equal(start, end)
    assert not equal(start, other)


def test_several_positives_and_half_precision(tmp_path: Path) -> None:
    objective = {"name": "positive-debiased", "tau_plus": 0.1}
    settings = replace(
        SETTINGS, objective=objective, positives=2, aggregate="group", steps=2, head_norm=True
    )
    train_views(images(), settings, tmp_path / "two", device="cpu")
    settings = replace(settings, precision="bfloat16")
    half = train_views(images(), settings, tmp_path / "half", device="cpu")
    one, other = (metrics(tmp_path / name)[0]["loss"] for name in ("two", "half"))
    assert one != other
    assert one == pytest.approx(other, rel=0.05)
    assert next(half.parameters()).dtype == torch.float32


def test_features_are_of_frozen_norms_and_of_the_training_images_statistics(tmp_path: Path) -> None:
    data = images()
    encoder = train_views(data, replace(SETTINGS, steps=2), tmp_path, device="cpu")
    pixels = torch.from_numpy(data.train.pixels).float() / 255
    mean, deviation = channel_statistics(data.train.pixels)
    assert torch.allclose(mean.flatten(), pixels.mean(dim=(0, 2, 3)), atol=1e-6)
    assert torch.allclose(deviation.flatten(), pixels.std(dim=(0, 2, 3), correction=0), atol=1e-6)
    assert torch.equal(encoder.mean, mean)
    features = encode(encoder, data.train.pixels, batch=7)
    assert features.shape == (48, encoder.features)
    assert torch.allclose(features, encode(encoder, data.train.pixels), atol=1e-5)


def test_other_settings_or_data_cannot_go_on(tmp_path: Path) -> None:
    data, settings = images(), replace(SETTINGS, steps=2)
    train_views(data, settings, tmp_path, device="cpu")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"steps": 3}, "steps was 2 and is now 3"),
        ({"augmentation": {"gray": 0.0}}, "augmentation.gray was None and is now 0.0"),
    ]
    for change, says in changes:
        with pytest.raises(CheckpointError, match=f"another configuration: {says}; resume with"):
            train_views(data, replace(settings, **change), tmp_path, device="cpu")
    pixels = data.train.pixels.copy()
    pixels[0, 0, 0, 0] += 1
    changed = replace(data, train=replace(data.train, pixels=pixels))
    with pytest.raises(CheckpointError, match="the images, or what is known of them"):
        train_views(changed, settings, tmp_path, device="cpu")
