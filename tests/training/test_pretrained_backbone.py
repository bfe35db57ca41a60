"""The folder that ``pretrain-image`` writes of a network, as transformers reads it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoConfig, AutoModel
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil

from cxrtext.files import file_problems
from cxrtext.images import Preprocessing
from cxrtext.training.image_pretraining import ImagePretrainSettings, pretrain_image
from cxrtext.training.image_pretraining.networks import (
    build_network,
    processor_of,
    write_backbone,
)

SMALL = ImagePretrainSettings(
    image="resnet18", resize=40, crop=32, epochs=1, batch=8, warmup=4, lr=2e-3, save_every=5
)


def test_the_folder_holds_the_network_and_its_preprocessing(
    data_folder: Path, tmp_path: Path
) -> None:
    whole = pretrain_image(data_folder / "manifest.csv", tmp_path, settings=SMALL)
    assert whole.backbone == tmp_path / "resnet18"
    assert {path.name for path in whole.backbone.iterdir()} == {
        *("SHA256SUMS", "config.json", "model.safetensors", "preprocessor_config.json")
    }
    assert not file_problems(whole.backbone)


def test_transformers_reads_the_same_network(tmp_path: Path) -> None:
    network = build_network("resnet18").eval()
    network.to(memory_format=torch.channels_last)
    write_backbone(tmp_path, network, Preprocessing(resize=72, crop=64))
    assert AutoConfig.from_pretrained(tmp_path).num_channels == 1
    read, faults = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(faults.values())
    images = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        grid = network(images).last_hidden_state
        theirs = read.eval()(images).last_hidden_state
    torch.testing.assert_close(theirs, grid, rtol=0, atol=1e-5)
    assert grid.shape == (2, 512, 2, 2)


@pytest.mark.parametrize("size", [(300, 300), (144, 144), (97, 211), (60, 47)])
def test_transformers_prepares_an_image_as_we_do(size: tuple[int, int], tmp_path: Path) -> None:
    ours = Preprocessing(resize=144, crop=128)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor_of(ours)))
    theirs = BitImageProcessorPil.from_pretrained(tmp_path)
    gray = np.random.default_rng(sum(size)).integers(0, 256, size, dtype=np.uint8)
    found = theirs(Image.fromarray(gray), return_tensors="np")["pixel_values"][0]
    prepared = ours.prepare(gray[np.newaxis])
    assert found.shape == prepared.shape == (1, 128, 128)
    levels = np.abs((found - prepared) * ours.std * 255)
    apart = levels > 1e-3
    assert levels.max() < 1.001
    # Pillow keeps the place of our center square in 32 bits: a few sums fall on the other side
    assert apart.mean() < 0.02
    assert not apart.any() or size[0] != size[1]
