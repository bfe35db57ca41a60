"""Training over a backbone's features: no image is decoded, and the model works on images after."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cxrtext.config import load_config
from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.evaluation import evaluate
from cxrtext.files import write_sums
from cxrtext.jobs import EncodeOptions, encode_images
from cxrtext.models import load_model
from cxrtext.models.features import open_features
from cxrtext.training import train
from tests import small_backbones
from tests.jobs.here import work_here
from tests.training.conftest import metrics
from tests.training.test_training_run import check_stopped_run, weights


def encode(data: Path, backbone: Path, folder: Path, **changes: Any) -> Path:
    options = EncodeOptions(**{**{"grid": 3, "reduce": 10, "shard": 32}, **changes})
    with work_here():
        encode_images(data / "manifest.csv", backbone, folder, options)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


@pytest.fixture(scope="module")
def backbone(place: Path) -> Path:
    return small_backbones.write(place / "tiny-vit", "dinov2")


@pytest.fixture(scope="module")
def features(data_folder: Path, backbone: Path, place: Path) -> Path:
    """Features of the data folder; read-only by convention."""
    return encode(data_folder, backbone, place / "features")


@pytest.fixture(scope="module")
def given(options_into: Callable[[Path], list[str]], features: Path, place: Path) -> list[str]:
    of_images = ("data.resize", "data.crop", "model.image")
    return [
        *(one for one in options_into(place / "run") if not one.startswith(of_images)),
        *(f"data.features={features}", "training.steps=40"),
        *("training.lr=3e-3", "training.validate_every=20"),
    ]


@pytest.fixture(scope="module")
def run(given: list[str], place: Path) -> Path:
    train(load_config(None, given))
    return place / "run"


def test_a_run_learns_and_its_checkpoint_names_the_backbone(run: Path) -> None:
    losses = [line["loss"] for line in metrics(run, "train")]
    assert losses[-1] < losses[0]
    checkpoint = run / "checkpoint"
    noted = json.loads((checkpoint / "config.json").read_text())["backbone"]
    assert noted["name"] == "tiny-vit"
    assert "folder" not in noted
    assert not any(name.startswith("image_encoder.backbone") for name in weights(run))
    for name in ("golden", "familiar", "reference"):
        assert (checkpoint / f"{name}.safetensors").is_file()
    assert not (run / "cache").exists()  # no image was decoded


def test_a_stopped_run_ends_in_the_same_weights(given: list[str], tmp_path: Path) -> None:
    more = "training.lock=[text]", "training.steps=6", f"data.cache={tmp_path / 'cache'}"
    chosen = [*given, *more]
    check_stopped_run(chosen, tmp_path, [4])


def test_a_wrong_backbone_is_refused_by_name(
    run: Path, backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = shutil.copytree(run / "checkpoint", tmp_path / "checkpoint")
    other = small_backbones.write(tmp_path / "other" / "tiny-vit", "dinov2", seed=4)
    away = tmp_path / "away"
    backbone.rename(away)
    try:
        with pytest.raises(CheckpointError, match="backbone 'tiny-vit' .* is not here; looked in"):
            load_model(checkpoint)
        monkeypatch.setenv("CXRTEXT_BACKBONES", str(other.parent))
        with pytest.raises(CheckpointError, match="tiny-vit is another: its digest is"):
            load_model(checkpoint)
        monkeypatch.setenv("CXRTEXT_BACKBONES", f"{other.parent}{os.pathsep}{tmp_path}")
        assert load_model(checkpoint).fingerprint
        monkeypatch.delenv("CXRTEXT_BACKBONES")
        shutil.copytree(away, checkpoint / "backbone")
        assert load_model(checkpoint).fingerprint
    finally:
        away.rename(backbone)


def test_a_golden_image_that_comes_out_otherwise_is_refused(run: Path, tmp_path: Path) -> None:
    checkpoint = shutil.copytree(run / "checkpoint", tmp_path / "checkpoint")
    golden = load_file(checkpoint / "golden.safetensors")
    golden["regions"] = np.roll(golden["regions"], 1, axis=1)
    save_file(golden, checkpoint / "golden.safetensors")
    write_sums(checkpoint)
    with pytest.raises(CheckpointError, match="'tiny-vit': its regions of the golden example"):
        load_model(checkpoint)


def test_features_that_a_model_was_not_trained_on_are_refused(
    run: Path, checkpoint: Path, features: Path, data_folder: Path, backbone: Path, tmp_path: Path
) -> None:
    other = small_backbones.write(tmp_path / "other-vit", "dinov2", seed=4)
    of_other = encode(data_folder, other, tmp_path / "of-other")
    coarser = encode(data_folder, backbone, tmp_path / "coarser", grid=2)
    for model, folder, says in (
        (run / "checkpoint", of_other, "features of other-vit .*trained on those of tiny-vit"),
        (run / "checkpoint", coarser, "reduced otherwise"),
        (checkpoint, features, "has its own image encoder"),
    ):
        with pytest.raises(CheckpointError, match=says):
            evaluate(model, data_folder, features=open_features(folder))


def test_images_that_were_not_encoded_are_rejected_by_name(
    given: list[str], data_copy: Path, backbone: Path, tmp_path: Path
) -> None:
    lines = (data_copy / "manifest.csv").read_text().splitlines(keepends=True)
    (data_copy / "manifest.csv").write_text("".join(lines[:31]))
    folder = encode(data_copy, backbone, tmp_path / "features")
    chosen = [*given, f"data.features={folder}", "training.steps=3", f"out={tmp_path / 'run'}"]
    rejected = train(load_config(None, chosen)).rejected
    assert rejected is not None
    assert "encode the manifest that names it" in rejected.read_text()
    with pytest.raises(DataError, match="data.max_rejected"):
        train(load_config(None, [*chosen, "data.max_rejected=2", f"out={tmp_path / 'no'}"]))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("data.features=null model.image=backbone", "name their folder in data.features"),
        ("data.crop=64", "data.crop: does not go with data.features"),
    ],
)
def test_keys_that_do_not_go_with_features_are_refused(
    given: list[str], keys: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(None, [*given, *keys.split()])
