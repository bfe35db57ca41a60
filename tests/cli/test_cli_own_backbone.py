"""A Vision Transformer of one's own: learned, frozen, encoded, aligned with text, and measured."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.images import read_image
from cxrtext.models.backbones import load_backbone
from cxrtext.models.features import open_features
from tests.cli.conftest import cxrtext


@pytest.mark.slow
def test_a_network_of_ones_own_is_a_locked_backbone(
    data_folder: Path, sentences_table: Path, language_model: Path, tmp_path: Path
) -> None:
    def run(*arguments: object) -> str:
        return cxrtext(*arguments).stdout

    manifest, encoder, features = data_folder / "manifest.csv", tmp_path / "encoder", tmp_path / "f"
    said = run(
        "pretrain-image", manifest, "--out", encoder, "--image", "vit-narrow", "--resize", "72",
        "--crop", "64", "--epochs", "30", "--batch", "8", "--device", "cpu",
    )  # fmt: skip
    folder = encoder / "vit-narrow"
    assert f"cxrtext encode --backbone {folder}" in said

    given = ("--backbone", folder, "--grid", "4", "--out", features, "--device", "cpu")
    run("encode", manifest, *given)
    backbone, kept = load_backbone(folder), open_features(features, check=True)
    assert kept.backbone["digest"] == backbone.digest
    assert kept.shape == (4, 4, 128)
    square = backbone.preprocessing.prepare(read_image(data_folder / "images/s01.png"))
    with torch.no_grad():
        regions = kept.map(backbone(torch.from_numpy(square)[None]))[0].numpy()
    own = kept.of(kept.places(["images/s01.png"]))[0]
    np.testing.assert_allclose(own, regions, rtol=0, atol=0.02)  # kept in float16

    values = [
        f"data.manifest={manifest}", f"data.sentences={sentences_table}", "model.dimension=16",
        f"model.text={language_model}", "training.steps=120", "training.batch=8",
        "training.lr=3e-3", "training.warmup=4", "training.device=cpu", f"out={tmp_path / 'run'}",
    ]  # fmt: skip
    run("train", "--features", features, *(part for value in values for part in ("--set", value)))
    measured = json.loads(
        run(
            "evaluate", tmp_path / "run/checkpoint", "--data", data_folder, "--split", "all",
            "--resamples", "0", "--json", "--out", tmp_path / "evaluation", "--device", "cpu",
        )
    )  # fmt: skip
    found = measured["classification"]["Pleural Effusion"]
    assert (found["positives"], found["negatives"]) == (16, 32)
    # Bright corners and stripes are seen through the frozen network.  How well three sentences fit
    # them after 120 steps of a language model that has read nothing is a matter of luck.
    probed = json.loads(run("probe", features, "--data", data_folder, "--json"))
    assert probed["neighbors"]["Pleural Effusion"]["auc"] > 0.9
    assert probed["neighbors"]["Pneumothorax"]["auc"] > 0.9
