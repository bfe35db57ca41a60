"""Where the regions of each kind of backbone lie, and how a checkpoint finds its own."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import AutoModel

from cxrtext.errors import CheckpointError
from cxrtext.images import Preprocessing
from cxrtext.models.foreign import Backbone, find_backbone, load_backbone
from cxrtext.models.foreign.network import BACKBONES, STEM
from cxrtext.models.image_encoder import STRIDES, ImageEncoder
from tests import small_backbones
from tests.grids import grid

LEVEL = 100.0  # far above any brightness, so that a layer norm is nearly linear in it
STRIDED = ("convnext", "convnextv2", "resnet", "efficientnet")
"""By 8 pixels; others have patches of 7."""
FITS: dict[str, tuple[str, float]] = {  # a processor, and the crop's share of the resized side
    "center": ("BitImageProcessor", 0.875),
    "stretch": ("ViTImageProcessor", 1.0),
}


@torch.no_grad()
def pass_brightness(model: Any) -> None:
    """Make channel 0 of every region the brightness of its patch; blocks add nothing to it."""
    for name, tensor in model.state_dict().items():
        tensor.zero_()
        if ("norm" in name or "_bn." in name) and name.endswith(("weight", "running_var")):
            tensor.fill_(1)
    vision = getattr(model, "vision_model", model)
    parts = dict(vision.named_parameters())
    first = next(name for name in parts if STEM.fullmatch(name))
    parts[first][0] = 1 / parts[first][0].numel()
    bias = parts.get(first.removesuffix("weight") + "bias")
    if bias is None and "embeddings.position_embedding.weight" in parts:  # CLIP
        bias = parts["embeddings.position_embedding.weight"].T
    if bias is not None:
        bias[1], bias[2] = LEVEL, -LEVEL
    for name, weight in parts.items():
        if name.endswith("shortcut.convolution.weight"):
            weight[0, 0] = 1
        elif name.endswith("depthwise_conv.weight"):
            weight[0] = 1 / weight[0].numel()
        elif name.endswith(("expand_conv.weight", "project_conv.weight", "top_conv.weight")):
            weight[0, 0] = 1
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
    side = 12 * (8 if model_type in STRIDED else 7)
    changes: dict[str, Any] = {"hidden_act": "relu"} if model_type == "efficientnet" else {}
    model = small_backbones.build(model_type, **changes)
    pass_brightness(model)
    model.save_pretrained(tmp_path)
    processor, share = FITS[fit]
    resize = round(side / share)
    size = {"height": resize, "width": resize} if fit == "stretch" else {"shortest_edge": resize}
    values = {"image_processor_type": processor, "size": size, "crop_size": side}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    backbone = load_backbone(tmp_path)
    assert backbone.grid == (12, 12)
    assert backbone.preprocessing.fit == fit
    for height, width in ((400, 523), (611, 420)):
        geometry = backbone.preprocessing.geometry(height, width)
        cell = side / 12 / np.array(geometry.scale)  # in original pixels
        for across, down in ((0.5, 0.5), (0.25, 0.3), (0.7, 0.27), (0.31, 0.72), (0.68, 0.66)):
            middle = np.array(geometry.points_to_original(np.array([across, down]) * side))
            first, last = (np.rint(middle + by).astype(int) for by in (-cell, cell))
            image = np.full((1, height, width), 20, np.uint8)
            image[0, first[1] : last[1], first[0] : last[0]] = 220
            pixels = torch.from_numpy(backbone.preprocessing.prepare(image))[None]
            grid = backbone(pixels)[0, :, :, 0].numpy()
            found = centroid(geometry.map_to_original(grid))
            off = (np.array(found) - (first + last) / 2) / cell
            # A ResNet's shortcuts take every other place; an EfficientNet's windows overlap.
            allowed = {"resnet": 0.3, "efficientnet": 0.08}.get(model_type, 0.05)
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


@pytest.fixture(autouse=True)
def no_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXRTEXT_BACKBONES", raising=False)


def test_it_is_found_in_the_checkpoint_where_it_was_and_in_listed_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_backbones.write(tmp_path / "here" / "small-vit", "vit")
    note = load_backbone(folder, size=35).note()
    checkpoint = tmp_path / "checkpoint"
    assert find_backbone(note, checkpoint).folder == folder
    shutil.copytree(folder, checkpoint / "backbone")
    found = find_backbone(note, checkpoint)
    assert found.folder == checkpoint / "backbone"
    assert (found.digest, found.grid) == (note["digest"], (5, 5))
    shutil.rmtree(checkpoint)
    listed = tmp_path / "models"
    small_backbones.write(listed / "aaa", "vit", seed=1)
    shutil.move(folder, listed / "of another name")
    with pytest.raises(CheckpointError):
        find_backbone(note, checkpoint)
    monkeypatch.setenv("CXRTEXT_BACKBONES", os.pathsep.join([str(tmp_path / "no"), str(listed)]))
    assert find_backbone(note, None).folder == listed / "of another name"
    monkeypatch.setenv("CXRTEXT_BACKBONES", str(listed / "of another name"))
    assert find_backbone(note, None).folder == listed / "of another name"


def test_without_it_the_ways_out_are_named_and_a_damaged_note_is_refused(tmp_path: Path) -> None:
    folder = small_backbones.write(tmp_path / "small-vit", "vit")
    note = load_backbone(folder).note()
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError) as error:
        find_backbone(note, tmp_path / "run")
    own = tmp_path / "run" / "backbone"
    assert str(error.value) == (
        f"backbone 'small-vit' (digest {note['digest'][:12]}…) is not here; looked in {own}, "
        f"{folder}; copy its folder to {own}, or name the folder that holds it in CXRTEXT_BACKBONES"
    )
    with pytest.raises(CheckpointError, match="note of its backbone is damaged"):
        find_backbone({"name": "x", "digest": "0"}, tmp_path)


@pytest.mark.parametrize(
    ("model_type", "changes", "said"),
    [
        ("vit", {"seed": 1}, "its digest is [0-9a-f]{12}…: other weights"),
        ("vit", {"processor": small_backbones.PROCESSOR}, "its images are prepared otherwise"),
        ("dinov2", {}, "its digest is"),
    ],
)
def test_another_of_the_same_name_is_refused_by_name(
    tmp_path: Path, model_type: str, changes: dict[str, Any], said: str
) -> None:
    folder = small_backbones.write(tmp_path / "small-vit", "vit")
    note = load_backbone(folder).note()
    shutil.rmtree(folder)
    small_backbones.write(folder, model_type, **changes)
    with pytest.raises(CheckpointError, match=f"{folder} is another: .*{said}"):
        find_backbone(note, None)


def by_transformers(folder: Path, backbone: Backbone, images: torch.Tensor) -> torch.Tensor:
    """transformers' last_hidden_state, loaded by itself, cut by hand: [B, h, w, C]."""
    model: Any = AutoModel.from_pretrained(folder)
    model = getattr(model, "vision_model", model)  # of a pair
    pixels = (images - backbone.mean) / backbone.std
    towers = ("vit", "clip", "clip_vision_model", "siglip", "siglip_vision_model")
    asked = {"interpolate_pos_encoding": True} if backbone.model_type in towers else {}
    with torch.inference_mode():
        state: torch.Tensor = model.eval()(pixel_values=pixels, **asked).last_hidden_state
    if state.ndim == 4:
        return state.permute(0, 2, 3, 1)
    h, w = backbone.grid
    return state[:, state.shape[1] - h * w :].reshape(len(images), h, w, -1)


@grid(1, model_type=list(BACKBONES), larger=[1, 0])
def test_the_grid_is_what_transformers_gives(tmp_path: Path, model_type: str, larger: int) -> None:
    folder = small_backbones.write(tmp_path / "model", model_type)
    step = 8 if model_type in STRIDED else 7
    size = small_backbones.SIZES.get(model_type, 28) + larger * step
    backbone = load_backbone(folder, size=size)
    assert backbone.grid == (size // step, size // step)
    images = torch.rand(2, 1, size, size, generator=torch.Generator().manual_seed(1))
    given = backbone(images)
    wanted = by_transformers(folder, backbone, images)
    assert given.shape == (2, *backbone.grid, backbone.channels)
    assert given.std() > 0.01
    torch.testing.assert_close(given, wanted, rtol=0, atol=1e-6)
