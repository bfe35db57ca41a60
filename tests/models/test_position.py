import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.config import load_config
from cxrtext.errors import ConfigError
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.models.image_encoder import POSITIONS, WAVES, ImageEncoder, RegionEncoder, waves
from cxrtext.training.initialization import build_model

MAPS = [name for name in POSITIONS if name != "none"]


def encoder(position: str) -> ImageEncoder:
    torch.manual_seed(0)
    return ImageEncoder("resnet-narrow", 8, position)


def stirred(made: RegionEncoder) -> torch.nn.Module:
    """The map of positions, with weights as after training."""
    assert made.position is not None
    for parameter in made.position.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    return made.position


def test_the_waves_are_those_of_the_formula() -> None:
    found = waves(2, 5)
    for row, column in np.ndindex(2, 5):
        at = ((column + 0.5) / 5, (row + 0.5) / 2)
        phases = [math.pi * n * x for x in at for n in range(1, WAVES + 1)]
        expected = [*map(math.sin, phases), *map(math.cos, phases)]
        assert found[row, column].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", MAPS)
def test_a_new_model_is_the_one_without_position(name: str) -> None:
    features = torch.randn(2, 3, 4, 128)
    plain = encoder("none")
    made = encoder(name)
    made.projection = plain.projection
    assert torch.equal(made.project(features), plain.project(features))


@pytest.mark.parametrize("name", MAPS)
def test_what_is_the_same_at_two_places_has_two_embeddings(name: str) -> None:
    made = encoder(name)
    stirred(made)
    regions = made.project(torch.ones(1, 3, 4, 128))[0]
    assert torch.allclose(regions.norm(dim=-1), torch.ones(3, 4))
    cells = regions.flatten(0, 1)
    apart = torch.cdist(cells, cells) + torch.eye(12)
    assert apart.min() > 1e-3
    wider = made.project(torch.ones(1, 6, 8, 128))[0]  # any grid
    assert wider.shape == (6, 8, 8)


def test_the_two_layers_see_what_lies_where_and_a_name_that_is_none_is_refused() -> None:
    position = stirred(encoder("mlp"))
    left, right = torch.zeros(2, 1, 1, 2, 128)
    left[0, 0, 0] = right[0, 0, 1] = 1.0
    empty = position(torch.zeros(1, 1, 2, 128))
    first, second = (position(seen) - empty for seen in (left, right))
    # An additive map would add the same for the same sight on both sides.
    assert not torch.allclose(first[0, 0, 0], second[0, 0, 1], atol=1e-3)
    with pytest.raises(ValueError, match="no position 'left'; there are none, additive, mlp"):
        encoder("left")


def with_position(checkpoint: Path, folder: Path, name: str) -> ImageTextModel:
    model = load_model(checkpoint)
    made = ImageTextModel(replace(model.spec, position=name), model.tokenizer)
    made.load_state_dict({**made.state_dict(), **model.state_dict()})
    stirred(made.image_encoder)
    save_checkpoint(folder, made.eval(), {})
    return made


def test_a_run_may_start_without_and_go_on_with_it(
    checkpoint: Path, options: list[str], tmp_path: Path
) -> None:
    started = [*options, f"model.init={checkpoint}"]
    model = build_model(load_config(None, [*started, "model.position=additive"]))
    images = torch.rand(1, 1, 64, 64)
    with torch.inference_mode():
        assert torch.equal(
            model.eval().embed_images(images), load_model(checkpoint).embed_images(images)
        )
    with_position(checkpoint, tmp_path / "placed", "mlp")
    back = [*options, f"model.init={tmp_path / 'placed'}", "model.position=none"]
    with pytest.raises(ConfigError, match=r"has position mlp, .*set model.position=mlp"):
        build_model(load_config(None, back))
