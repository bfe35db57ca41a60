"""The folder that ``pretrain-image`` writes of a network, as transformers reads it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

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
    channels_of,
    grid_of,
    processor_of,
    sines_and_cosines,
    stride_of,
    write_backbone,
)
from cxrtext.training.image_pretraining.settings import VITS
from tests.training.test_training_run import stop_at

SMALL = ImagePretrainSettings(
    image="vit-narrow", resize=40, crop=32, epochs=4, batch=8, warmup=4, lr=2e-3, save_every=5
)
WRITTEN = {"README.md", "SHA256SUMS", "config.json", "model.safetensors"}


@pytest.mark.parametrize("views", [False, True], ids=["words", "views"])
def test_a_stopped_vision_transformer_ends_in_the_same_folder(
    views: bool, data_folder: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"settings": SMALL, "cache": tmp_path / "cache", "views": views}
    manifest = data_folder / "manifest.csv"
    whole = pretrain_image(manifest, tmp_path / "whole", **given)
    assert whole.encoder is None
    assert whole.backbone == tmp_path / "whole/vit-narrow"
    with pytest.raises(KeyboardInterrupt):
        pretrain_image(manifest, tmp_path / "cut", listener=stop_at(7), **given)
    assert not (tmp_path / "cut/vit-narrow").exists()
    pretrain_image(manifest, tmp_path / "cut", resume=True, **given)
    files = {path.name: path.read_bytes() for path in whole.backbone.iterdir()}
    cut = tmp_path / "cut/vit-narrow"
    assert files == {path.name: path.read_bytes() for path in cut.iterdir()}
    assert files.keys() == WRITTEN | {"preprocessor_config.json"}
    assert not file_problems(whole.backbone)
    readme = files["README.md"].decode()
    assert readme.startswith("---\nlicense: other\n")
    report = json.loads((tmp_path / "whole/pretraining.json").read_text())
    assert report["data_sha256"] in readme
    assert "effusion" not in readme


def test_other_pixels_have_another_digest(data_copy: Path, tmp_path: Path) -> None:
    digests = []
    for number in range(2):
        out = tmp_path / str(number)
        pretrain_image(data_copy / "manifest.csv", out, settings=replace(SMALL, epochs=1))
        digests.append(json.loads((out / "pretraining.json").read_text())["data_sha256"])
        for path in (data_copy / "images").iterdir():
            Image.open(path).point(lambda value: 255 - value).save(path)
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    ("name", "crop"),
    [("vit-narrow", 64), pytest.param("vit-small", 64, marks=pytest.mark.slow), ("resnet18", 64)],
)
def test_transformers_reads_the_same_network(name: str, crop: int, tmp_path: Path) -> None:
    network = build_network(name, crop).eval()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    preprocessing = Preprocessing(resize=crop + 8, crop=crop)
    write_backbone(tmp_path, network, preprocessing, ["Learned: nothing."])
    assert AutoConfig.from_pretrained(tmp_path).num_channels == 1
    more = {"add_pooling_layer": False} if name in VITS else {}
    read, faults = AutoModel.from_pretrained(tmp_path, output_loading_info=True, **more)
    assert not any(faults.values())
    images = torch.rand(2, 1, crop, crop)
    with torch.no_grad():
        grid = grid_of(network, images)
        torch.testing.assert_close(grid_of(read.eval(), images), grid, rtol=0, atol=1e-5)
    side = crop // stride_of(name)
    assert grid.shape == (2, channels_of(network), side, side)
    if name in VITS:
        with torch.no_grad():
            tokens = read(images).last_hidden_state
        torch.testing.assert_close(tokens[1, 1 + 2 * side + 3], grid[1, :, 2, 3])


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


def test_places_are_told_from_each_other() -> None:
    places = sines_and_cosines(6, 32)
    assert places.shape == (36, 32)
    likeness = places @ places.T
    assert torch.equal(likeness.argmax(dim=1), torch.arange(36))
    # nearer is more alike: to the right and below, as much
    assert likeness[0, 0] > likeness[0, 1] > likeness[0, 2]
    assert torch.allclose(likeness[0, 1], likeness[0, 6])
