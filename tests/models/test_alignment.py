"""Alignment layers: the identity at the start, and regions that look at each other after it."""

import pytest
import torch

from cxrtext.models.image_encoder import Alignment, ImageEncoder, build_alignment


def features(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def test_none_of_zero_and_never_more_than_two() -> None:
    assert build_alignment(0, 32) is None
    for layers in (-1, 3):
        with pytest.raises(ValueError, match="0 to 2"):
            build_alignment(layers, 32)


@pytest.mark.parametrize("width", [8, 96, 130, 256])
def test_a_new_layer_is_the_identity(width: int) -> None:
    given = features(2, 3, 4, width)
    torch.testing.assert_close(Alignment(2, width)(given), given, rtol=0, atol=0)


def test_a_trained_layer_sees_the_other_regions_of_its_own_image_alone() -> None:
    layer = Alignment(1, 32)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    given = features(2, 3, 3, 32)
    before = layer(given)
    changed = given.clone()
    changed[0, 0, 0, 0] += 3.0
    after = layer(changed)
    assert not torch.allclose(after[0, 2, 2], before[0, 2, 2])
    torch.testing.assert_close(after[1], before[1])


def test_gradients_reach_every_weight_of_a_new_layer_in_two_steps() -> None:
    encoder = ImageEncoder("resnet-narrow", 16, alignment=1)
    assert encoder.alignment is not None
    optimizer = torch.optim.SGD(encoder.alignment.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        encoder.project(features(2, 3, 3, 128))[..., 0].sum().backward()
        optimizer.step()
    for name, parameter in encoder.alignment.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_a_model_without_layers_has_the_weights_that_it_always_had() -> None:
    plain, aligned = (ImageEncoder("resnet-narrow", 16, alignment=n) for n in (0, 1))
    more = set(aligned.state_dict()) - set(plain.state_dict())
    assert more
    assert all(name.startswith("alignment.layers.0.") for name in more)
