"""A lit square lands where it was: through preprocessing, grid and back to the original."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from cxrtext.images import Preprocessing
from cxrtext.models.backbones import load_backbone
from cxrtext.models.backbones.table import BACKBONES
from cxrtext.models.image_encoder import STRIDES, ImageEncoder
from tests import small_backbones
from tests.grids import grid

LEVEL = 100.0  # far above any brightness, so that a layer norm is nearly linear in it
SIDES = {
    "swin": 96,
    "convnext": 96,
    "resnet": 96,
}  # 12 regions along each side; 84 for patches of 7
FITS: dict[str, Any] = {
    "center": {"image_processor_type": "BitImageProcessor", "crop": 0.875},
    "stretch": {"image_processor_type": "ViTImageProcessor", "crop": 1.0},
}


@torch.no_grad()
def pass_brightness(model_type: str, model: Any) -> None:
    """Make channel 0 of every region the brightness of its patch; blocks add nothing to it."""
    for name, tensor in model.state_dict().items():
        tensor.zero_()
        if "norm" in name and name.endswith(("weight", "running_var")):
            tensor.fill_(1)
    vision = getattr(model, "vision_model", model)
    parts = dict(vision.named_parameters())
    stem = parts[BACKBONES[model_type].stem]
    stem[0] = 1 / stem[0].numel()
    bias = parts.get(BACKBONES[model_type].stem.removesuffix("weight") + "bias")
    if bias is None and "embeddings.position_embedding.weight" in parts:  # CLIP
        bias = parts["embeddings.position_embedding.weight"].T
    if bias is not None:
        bias[1], bias[2] = LEVEL, -LEVEL
    for name, weight in parts.items():
        if name.endswith("shortcut.convolution.weight"):
            weight[0, 0] = 1
        elif name.endswith("downsample.reduction.weight"):
            width = weight.shape[1] // 4
            weight[:width] = torch.eye(width).repeat(1, 4) / 4
        elif name.endswith("downsampling_layer.0.weight"):  # ConvNeXT's layer norm
            weight.fill_(1)
        elif name.endswith("downsampling_layer.1.weight"):
            width = weight.shape[1]
            weight[:width] = torch.eye(width)[:, :, None, None] / 4


def centroid(full: npt.NDArray[np.float32]) -> tuple[float, float]:
    """(x, y) of what differs from the background, in pixels of the original."""
    lit = np.nan_to_num(full - np.nanmedian(full))
    y, x = np.mgrid[: full.shape[0], : full.shape[1]] + 0.5
    return float((lit * x).sum() / lit.sum()), float((lit * y).sum() / lit.sum())


@grid(1, model_type=list(BACKBONES), fit=list(FITS))
def test_a_lit_square_lands_on_its_point(tmp_path: Path, model_type: str, fit: str) -> None:
    side = SIDES.get(model_type, 84)
    model = small_backbones.build(model_type)
    pass_brightness(model_type, model)
    model.save_pretrained(tmp_path)
    resize = round(side / FITS[fit]["crop"])
    size = {"height": resize, "width": resize} if fit == "stretch" else {"shortest_edge": resize}
    values = {"image_processor_type": FITS[fit]["image_processor_type"], "size": size}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**values, "crop_size": side}))
    backbone = load_backbone(tmp_path)
    assert backbone.grid == (12, 12)
    assert backbone.preprocessing.fit == fit
    for height, width in ((400, 523), (611, 420)):
        geometry = backbone.preprocessing.geometry(height, width)
        cell = np.array([side / 12, side / 12]) / geometry.scale  # (x, y), in original pixels
        for across, down in ((0.5, 0.5), (0.25, 0.3), (0.7, 0.27), (0.31, 0.72), (0.68, 0.66)):
            x, y = geometry.points_to_original(np.array([across, down]) * side)
            first = np.rint(np.array([x, y]) - cell).astype(int)
            last = np.rint(np.array([x, y]) + cell).astype(int)
            image = np.full((1, height, width), 20, np.uint8)
            image[0, first[1] : last[1], first[0] : last[0]] = 220
            pixels = torch.from_numpy(backbone.preprocessing.prepare(image))[None]
            grid = backbone(pixels)[0, :, :, 0].numpy()
            found = centroid(geometry.map_to_original(grid))
            off = (np.array(found) - (first + last) / 2) / cell
            # A ResNet's shortcuts take every other place.
            allowed = 0.3 if model_type == "resnet" else 0.05
            assert np.abs(off).max() < allowed, (height, across, down, off)


@pytest.mark.parametrize(
    ("name", "crop"),
    [pytest.param("resnet18", 352, marks=pytest.mark.slow), ("resnet-narrow", 176)],
)
def test_regions_of_our_own_resnets_look_at_the_middle_of_their_cells(name: str, crop: int) -> None:
    """By the gradients of what a region holds, over networks of random weights."""
    weight = torch.zeros(crop, crop, dtype=torch.float64)
    for seed in range(6):
        torch.manual_seed(seed)
        encoder = ImageEncoder(name, 8).eval()
        image = torch.rand(1, 1, crop, crop, requires_grad=True)
        encoder.features(image)[0, 5, 5].square().sum().backward()
        assert image.grad is not None
        weight += image.grad[0, 0].double().square() / image.grad.double().square().sum()
    found = centroid(weight.numpy().astype(np.float32))
    prepared = Preprocessing(crop, crop, offset=encoder.offset)
    middle = prepared.geometry(crop, crop).center_of_cell(5, 5, (11, 11))
    off = (np.array(found) - middle) / STRIDES[name]
    assert np.abs(off).max() < 0.1, off  # it was 0.47 when cells were taken to lie in the middle
