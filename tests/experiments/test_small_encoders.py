import pytest
import torch
from torch import nn

from cxrtext.experiments.view_encoder import ProjectionHead, build_small_encoder
from cxrtext.models.image_encoder import ARCHITECTURES, ImageEncoder


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


def test_head_with_and_without_norms() -> None:
    with pytest.raises(ValueError, match="one size or more"):
        ProjectionHead(4, ())
    with pytest.raises(ValueError, match="width must be at least 16, not 8"):
        build_small_encoder("resnet18", channels=1, width=8)
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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_encoders_of_radiographs_have_no_strided_shortcut_of_few_channels(
    architecture: str,
) -> None:
    shortcuts = strided_pointwise(ImageEncoder(architecture))
    assert shortcuts
    assert all(module.in_channels >= 16 for module in shortcuts)
