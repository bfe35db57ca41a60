import pytest
import torch
from torch import nn

from cxrtext.models.small_encoders import ProjectionHead, build_small_encoder


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "width", "features", "parameters"),
    [
        # SimCLR's numbers for CIFAR-10: torchvision's without classifier and with a 3×3 stem.
        ("resnet18", 3, 64, 512, 11_176_512 - 64 * 3 * 49 + 64 * 3 * 9),
        ("resnet50", 3, 64, 2048, 23_508_032 - 64 * 3 * 49 + 64 * 3 * 9),
        ("lenet5", 3, 64, 84, (75 + 1) * 6 + (150 + 1) * 16 + 401 * 120 + 121 * 84),
        ("resnet18", 1, 8, 64, None),
    ],
)
def test_shapes_and_sizes(
    name: str, channels: int, width: int, features: int, parameters: int | None
) -> None:
    encoder = build_small_encoder(name, channels=channels, width=width)
    assert encoder.features == features
    assert parameters is None or count(encoder) == parameters
    assert encoder(torch.rand(2, channels, 32, 32)).shape == (2, features)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_no_pooling_before_the_last_stage(name: str) -> None:
    encoder = build_small_encoder(name, channels=3, width=4)
    grids: list[tuple[int, ...]] = []
    for block in encoder.get_submodule("blocks").children():
        block.register_forward_hook(lambda _m, _i, out: grids.append(tuple(out.shape[2:])))
    encoder(torch.rand(2, 3, 32, 32))
    assert grids[0] == (32, 32)
    assert grids[-1] == (4, 4)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "lenet5"])
def test_every_weight_learns(name: str) -> None:
    torch.manual_seed(0)
    encoder = build_small_encoder(name, channels=1, width=4)
    encoder(torch.rand(4, 1, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())


def test_resnet_of_other_sizes_and_lenet_of_one() -> None:
    assert build_small_encoder("resnet18", channels=1, width=2)(torch.rand(2, 1, 48, 40)).ndim == 2
    with pytest.raises(ValueError, match="32×32 pixels, not 28×28; pad"):
        build_small_encoder("lenet5", channels=1)(torch.rand(2, 1, 28, 28))


def test_wrong_names_and_numbers() -> None:
    with pytest.raises(ValueError, match="no small encoder 'vgg'; there are resnet18, resnet50"):
        build_small_encoder("vgg", channels=3)
    with pytest.raises(ValueError, match="at least 1, not 0 and 64"):
        build_small_encoder("resnet18", channels=0)
    with pytest.raises(ValueError, match="one size or more"):
        ProjectionHead(4, ())


def test_head_with_and_without_norms() -> None:
    plain = ProjectionHead(6, (5, 3))
    assert plain(torch.rand(4, 6)).shape == (4, 3)
    assert count(plain) == 7 * 5 + 6 * 3
    normed = ProjectionHead(6, (5, 5, 3), norm=True)
    assert sum(isinstance(m, nn.BatchNorm1d) for m in normed.modules()) == 2
    x, w = torch.rand(4, 6), dict(plain.named_parameters())
    hidden = (x @ w["layers.0.weight"].T + w["layers.0.bias"]).clamp(min=0)
    expected = hidden @ w["layers.2.weight"].T + w["layers.2.bias"]
    assert torch.allclose(plain(x), expected, atol=1e-6)
