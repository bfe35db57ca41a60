"""Every kind of backbone against transformers' own forward pass."""

from pathlib import Path
from typing import Any

import pytest
import torch

from cxrtext.models.backbones import Backbone, load_backbone
from cxrtext.models.backbones.table import BACKBONES
from tests import small_backbones


def by_transformers(folder: Path, backbone: Backbone, images: torch.Tensor) -> torch.Tensor:
    """transformers' last_hidden_state, loaded by itself, cut by hand: [B, h, w, C]."""
    _, model_class = BACKBONES[backbone.model_type].classes()
    model: Any = model_class.from_pretrained(folder)
    pixels = (images - backbone.mean) / backbone.std
    towers = ("vit", "clip", "clip_vision_model", "siglip", "siglip_vision_model")
    asked = {"interpolate_pos_encoding": True} if backbone.model_type in towers else {}
    with torch.inference_mode():
        state: torch.Tensor = model.eval()(pixel_values=pixels, **asked).last_hidden_state
    if state.ndim == 4:
        return state.permute(0, 2, 3, 1)
    h, w = backbone.grid
    return state[:, state.shape[1] - h * w :].reshape(len(images), h, w, -1)


@pytest.mark.parametrize("model_type", BACKBONES)
@pytest.mark.parametrize("larger", [0, 1])
def test_the_grid_is_what_transformers_gives(tmp_path: Path, model_type: str, larger: int) -> None:
    folder = small_backbones.write(tmp_path / "model", model_type)
    step = {"swin": 8, "convnext": 8, "resnet": 8}.get(model_type, 7)
    size = small_backbones.SIZES.get(model_type, 28) + larger * step
    backbone = load_backbone(folder, size=size)
    assert backbone.grid == (size // step, size // step)
    images = torch.rand(2, 1, size, size, generator=torch.Generator().manual_seed(1))
    given = backbone(images)
    wanted = by_transformers(folder, backbone, images)
    assert given.shape == (2, *backbone.grid, backbone.channels)
    assert given.std() > 0.01
    torch.testing.assert_close(given, wanted, rtol=0, atol=1e-6)
