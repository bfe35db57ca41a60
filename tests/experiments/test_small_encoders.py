import pytest
import torch
from torch import nn

from cxrtext.experiments.simclr.encoders import (
    PickedConv2d,
    ProjectionHead,
    build_small_encoder,
)
from cxrtext.models.image_encoder import ARCHITECTURES, ImageEncoder
from tests.grids import grid


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "features", "parameters"),
    [
        # SimCLR's numbers for CIFAR-10: torchvision's without classifier and with a 3×3 stem.
        ("resnet18", 512, 11_176_512 - 64 * 3 * 49 + 64 * 3 * 9),
        ("resnet50", 2048, 23_508_032 - 64 * 3 * 49 + 64 * 3 * 9),
        ("lenet5", 84, (75 + 1) * 6 + (150 + 1) * 16 + 401 * 120 + 121 * 84),
    ],
)
def test_shapes_and_sizes(name: str, features: int, parameters: int) -> None:
    encoder = build_small_encoder(name, channels=3)
    assert encoder.features == features
    assert count(encoder) == parameters
    assert encoder(torch.rand(2, 3, 32, 32)).shape == (2, features)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_no_pooling_before_the_last_stage_and_any_size_is_taken(name: str) -> None:
    encoder = build_small_encoder(name, channels=3, width=4)
    grids: list[tuple[int, ...]] = []
    for block in encoder.get_submodule("blocks").children():
        block.register_forward_hook(lambda _m, _i, out: grids.append(tuple(out.shape[2:])))
    encoder(torch.rand(2, 3, 32, 32))
    assert (grids[0], grids[-1]) == ((32, 32), (4, 4))
    narrow = build_small_encoder("resnet18", channels=1, width=8)
    assert narrow(torch.rand(2, 1, 48, 40)).shape == (2, narrow.features) == (2, 64)


def test_head_with_and_without_norms() -> None:
    with pytest.raises(ValueError, match="one size or more"):
        ProjectionHead(4, ())
    plain = ProjectionHead(6, (5, 3))
    assert plain(torch.rand(4, 6)).shape == (4, 3)
    assert count(plain) == 7 * 5 + 6 * 3
    normed = ProjectionHead(6, (5, 5, 3), norm=True)
    assert sum(isinstance(m, nn.BatchNorm1d) for m in normed.modules()) == 2
    x, w = torch.rand(4, 6), dict(plain.named_parameters())
    hidden = (x @ w["layers.0.weight"].T + w["layers.0.bias"]).clamp(min=0)
    expected = hidden @ w["layers.2.weight"].T + w["layers.2.bias"]
    assert torch.allclose(plain(x), expected, atol=1e-6)


def strided_pointwise(encoder: nn.Module) -> list[nn.Conv2d]:
    found = [module for module in encoder.modules() if isinstance(module, nn.Conv2d)]
    return [one for one in found if one.kernel_size == (1, 1) and one.stride != (1, 1)]


@grid(1, width=[1, 3, 4, 15, 16], name=["resnet18", "resnet50"])
def test_a_strided_shortcut_of_few_channels_picks_its_pixels_first(name: str, width: int) -> None:
    torch.manual_seed(0)
    encoder = build_small_encoder(name, channels=1, width=width)
    assert all(module.in_channels >= 16 for module in strided_pointwise(encoder))
    shortcuts = [module for module in encoder.modules() if isinstance(module, PickedConv2d)]
    assert all(module.in_channels < 16 and module.every == 2 for module in shortcuts)
    assert len(shortcuts) + len(strided_pointwise(encoder)) == 3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_encoders_of_radiographs_have_no_strided_shortcut_of_few_channels(
    architecture: str,
) -> None:
    shortcuts = strided_pointwise(ImageEncoder(architecture))
    assert shortcuts
    assert all(module.in_channels >= 16 for module in shortcuts)


@pytest.mark.parametrize("size", [(8, 8), (7, 5)])
def test_picking_first_gives_what_a_stride_gives(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    picked = PickedConv2d(3, 5, 2).double()
    strided = nn.Conv2d(3, 5, 1, 2, bias=False).double()
    strided.load_state_dict(picked.state_dict())  # of the same names: files of weights still fit
    x = torch.rand(4, 3, *size).double().contiguous(memory_format=torch.channels_last)
    x = x.requires_grad_()
    one, other = picked(x), strided(x)
    torch.testing.assert_close(one, other)
    found = torch.autograd.grad(one.square().sum(), (x, picked.weight))
    torch.testing.assert_close(
        found, torch.autograd.grad(other.square().sum(), (x, strided.weight))
    )
