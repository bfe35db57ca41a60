"""Encoders for small images: ResNets for 32×32 pixels, LeNet-5, a projection head."""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

LEAST_WIDTH = 16
"""With fewer channels, oneDNN's weight gradient of a strided 1×1 convolution writes beyond its
memory (DECISIONS.md)."""
_SHAPES = {"resnet18": ((2, 2, 2, 2), (3, 3)), "resnet50": ((3, 4, 6, 3), (1, 3, 1))}
"""Blocks in each stage, and the sizes of a block's convolutions."""


def build_small_encoder(name: str, *, channels: int, width: int = 64) -> "ResNet | LeNet5":
    """Build "resnet18", "resnet50" or "lenet5", with random weights from torch's own generator.

    The ResNets have a 3×3 stem of stride 1 and no pooling before the last, global one.

    ``width`` is the number of channels of a ResNet's first stage: 64 in the papers, 16 for a CPU.

    Returns:
        A module from images [B, C, H, W], floating point, to features [B, ``features``]; LeNet-5
        takes 32×32 pixels.

    Source: He et al. 2016, as Chen et al. 2020 (SimCLR), section B.9, for CIFAR-10; LeCun et al.
        1998 (LeNet-5) with ReLU and maximum pooling.
    """
    if name == "lenet5":
        return LeNet5(channels)
    if width < LEAST_WIDTH:
        raise ValueError(f"a ResNet's width must be at least {LEAST_WIDTH}, not {width}")
    return ResNet(name, channels, width)


class ResNet(nn.Module):
    def __init__(self, name: str, channels: int, width: int) -> None:
        super().__init__()
        depths, sizes = _SHAPES[name]
        self.stem = nn.Sequential(_conv(channels, width, 3), nn.BatchNorm2d(width), nn.ReLU(True))
        blocks: list[nn.Module] = []
        before = width
        for stage, depth in enumerate(depths):
            inner = width * 2**stage
            for place in range(depth):
                block = Residual(before, inner, 2 if stage > 0 and place == 0 else 1, sizes)
                blocks.append(block)
                before = block.outer
        self.blocks = nn.Sequential(*blocks)
        self.features = before
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Embed images, [B, C, H, W] -> [B, features]."""
        grid: Tensor = self.blocks(self.stem(images))
        return grid.mean(dim=(2, 3))


class Residual(nn.Module):
    """Convolutions with batch norms beside a shortcut; one 3×3 convolution has the stride.

    They are two of 3×3, the first strided, or one of 3×3 between two of 1×1, the last four times as
    wide.
    """

    def __init__(self, before: int, inner: int, stride: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.outer = inner if len(sizes) == 2 else 4 * inner
        strided = sizes.index(3)
        layers: list[nn.Module] = []
        channels = before
        for place, size in enumerate(sizes):
            after = self.outer if place + 1 == len(sizes) else inner
            layers.append(_conv(channels, after, size, stride if place == strided else 1))
            layers += [nn.BatchNorm2d(after), nn.ReLU(True)]
            channels = after
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = _shortcut(before, self.outer, stride)

    def forward(self, x: Tensor) -> Tensor:
        """[B, before, H, W] -> [B, outer, H / stride, W / stride]."""
        return F.relu_(self.body(x) + self.shortcut(x))


def _conv(before: int, after: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(_conv(before, after, 1, stride), nn.BatchNorm2d(after))


class LeNet5(nn.Module):
    features = 84

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.grid = nn.Sequential(
            nn.Conv2d(channels, 6, 5),
            nn.ReLU(True),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(True),
            nn.MaxPool2d(2),
        )
        self.dense = nn.Sequential(
            nn.Linear(16 * 5 * 5, 120), nn.ReLU(True), nn.Linear(120, self.features), nn.ReLU(True)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Embed images, [B, C, 32, 32] -> [B, 84]."""
        return torch.as_tensor(self.dense(self.grid(images).flatten(1)))


class ViewEncoder(nn.Module):
    """An encoder of :func:`build_small_encoder` that standardizes its images itself."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str, channels: int, width: int) -> None:
        super().__init__()
        self.body = build_small_encoder(name, channels=channels, width=width)
        self.features = self.body.features
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Embed images in [0, 1], [B, C, H, W] -> [B, ``features``]."""
        standard = (images - self.mean) / self.deviation
        features: Tensor = self.body(standard.contiguous(memory_format=torch.channels_last))
        return features


class ProjectionHead(nn.Module):
    """Linear maps with ReLU between them; the caller normalizes the result to unit length.

    ``sizes`` has the size of each linear map, the last one D; with ``norm`` there is a batch norm
    before each ReLU, as in the CCL-K paper's heads.
    """

    def __init__(self, features: int, sizes: tuple[int, ...], *, norm: bool = False) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"a head needs one size or more, each at least 1, not {sizes}")
        layers: list[nn.Module] = []
        before = features
        for size in sizes[:-1]:
            layers.append(nn.Linear(before, size, bias=not norm))
            layers.extend([nn.BatchNorm1d(size)] if norm else [])
            layers.append(nn.ReLU(True))
            before = size
        self.layers = nn.Sequential(*layers, nn.Linear(before, sizes[-1]))

    def forward(self, features: Tensor) -> Tensor:
        """Project features, [B, F] -> [B, D]."""
        projected: Tensor = self.layers(features)
        return projected


def channel_statistics(pixels: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
    """Mean and deviation in [0, 1] of 8-bit channels, [C, 1, 1] float32; 1 if constant."""
    levels = np.arange(256) / 255
    moments = []
    for channel in range(pixels.shape[1]):
        count = np.bincount(pixels[:, channel].ravel(), minlength=256)
        mean = np.average(levels, weights=count)
        deviation = np.sqrt(np.average((levels - mean) ** 2, weights=count))
        moments.append((mean, deviation or 1.0))
    mean, deviation = torch.tensor(moments, dtype=torch.float32).T
    return mean.view(-1, 1, 1), deviation.view(-1, 1, 1)


@torch.no_grad()
def encode(encoder: ViewEncoder, pixels: NDArray[np.uint8], *, batch: int = 512) -> Tensor:
    """Features from an encoder in evaluation mode: 8-bit [n, C, H, W] -> float32 [n, F]."""
    device = encoder.mean.device
    parts = torch.from_numpy(pixels).split(batch)
    return torch.cat([encoder(part.to(device).float().div_(255)) for part in parts]).float()
