from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from cxrtext.config import read_objective
from cxrtext.errors import CheckpointError, WorkError
from cxrtext.experiments.simclr.encoders import ViewEncoder, channel_statistics, encode
from cxrtext.experiments.simclr.losses import ViewSet, ViewSettings
from cxrtext.experiments.simclr.train import train_views
from cxrtext.images.simclr import SimclrSpec
from cxrtext.training import Listener
from cxrtext.training.objectives.shared.objective import as_objective
from tests.training.conftest import metrics as all_metrics
from tests.training.test_training_run import stop_at

SETTINGS = ViewSettings(
    as_objective(read_objective({"name": "info-nce"})), "resnet18", width=2, head=(16, 8),
    steps=6, batch=16, lr=3e-3, seed=1, save_every=4, log_every=1,
)  # fmt: skip


def images(count: int = 48, size: int = 8) -> ViewSet:
    """Two classes: bright at the left, or at the top."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 90, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    labels = torch.arange(count) % 2
    pixels[labels == 0, :, :, : size // 2] += 120
    pixels[labels == 1, :, : size // 2] += 120
    return ViewSet(
        pixels,
        labels=labels,
        eta=torch.full((count,), 0.3),
        metadata=torch.stack([torch.randn(count, generator=generator), labels.float()], dim=1),
        kinds=("number", "category"),
    )


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
    assert not (tmp_path / "broken/encoder.safetensors").exists()
    seen: list[int] = []
    heard = Listener(step=lambda report, _total: seen.append(report.step))
    again = replace(settings, save_every=100)  # how often it saves decides nothing
    broken = train_views(data, again, tmp_path / "broken", device="cpu", listener=heard)
    assert seen == [4, 5, 6]
    assert equal(whole, broken)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "broken")
    files = [tmp_path / name / "encoder.safetensors" for name in ("whole", "broken")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_finished_run_takes_no_step_and_writes_its_encoder_again(tmp_path: Path) -> None:
    data, settings = images(), replace(SETTINGS, steps=2)
    first = train_views(data, settings, tmp_path, device="cpu")
    (tmp_path / "encoder.safetensors").unlink()
    seen: list[int] = []
    heard = Listener(step=lambda report, _total: seen.append(report.step))
    assert equal(first, train_views(data, settings, tmp_path, device="cpu", listener=heard))
    assert not seen
    assert (tmp_path / "encoder.safetensors").is_file()


def test_it_learns_to_tell_images_and_the_seed_decides(tmp_path: Path) -> None:
    data = images()
    gentle = SimclrSpec(scale=(0.6, 1.0), gray=0.0, hue=0.0)
    settings = replace(SETTINGS, steps=40, lr=1e-2, gamma_sq=10.0, augmentation=gentle, log_every=1)
    start = train_views(data, replace(settings, steps=1), tmp_path / "one", device="cpu")
    end = train_views(data, settings, tmp_path / "many", device="cpu")
    losses = [line["loss"] for line in metrics(tmp_path / "many")]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    other = train_views(data, replace(settings, steps=1, seed=2), tmp_path / "seed", device="cpu")
    assert not equal(start, end)
    assert not equal(start, other)


def test_several_positives_and_half_precision(tmp_path: Path) -> None:
    objective = as_objective(read_objective({"name": "positive-debiased"}))
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
    pixels = data.images.float() / 255
    mean, deviation = channel_statistics(data.images)
    assert torch.allclose(mean.flatten(), pixels.mean(dim=(0, 2, 3)), atol=1e-6)
    assert torch.allclose(deviation.flatten(), pixels.std(dim=(0, 2, 3), correction=0), atol=1e-6)
    assert torch.equal(encoder.mean, mean)
    features = encode(encoder, data.images, batch=7)
    assert features.shape == (48, encoder.features)
    assert torch.allclose(features, encode(encoder, data.images), atol=1e-5)


def test_other_settings_or_data_cannot_go_on(tmp_path: Path) -> None:
    data, settings = images(), replace(SETTINGS, steps=2)
    train_views(data, settings, tmp_path, device="cpu")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"steps": 3}, "steps was 2 and is now 3"),
        ({"augmentation": SimclrSpec(gray=0.0)}, "augmentation.gray was 0.2 and is now 0.0"),
    ]
    for change, says in changes:
        with pytest.raises(CheckpointError, match=f"another configuration: {says}; resume with"):
            train_views(data, replace(settings, **change), tmp_path, device="cpu")
    changed = data.images.clone()
    changed[0, 0, 0, 0] += 1
    with pytest.raises(CheckpointError, match="the images, or what is known of them"):
        train_views(replace(data, images=changed), settings, tmp_path, device="cpu")


def test_a_diverging_run_says_so_and_keeps_its_last_state(tmp_path: Path) -> None:
    settings = replace(SETTINGS, lr=1e30, save_every=1)
    with pytest.raises(WorkError, match=r"is not a number at step.*lower lr.*last good state"):
        train_views(images(), settings, tmp_path, device="cpu")


def test_a_batch_without_any_negative_is_said(tmp_path: Path) -> None:
    data = replace(images(), labels=torch.zeros(48).long())
    with pytest.raises(WorkError, match="info-nce leaves no anchor of step 1 a negative"):
        train_views(data, replace(SETTINGS, without_same_class=True), tmp_path, device="cpu")
