"""Encoders that turn a radiograph into a grid of region embeddings."""

import math
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.images.preprocessing import strided_offset
from cxrtext.models.resnet import ResNet, ResNetConfig

POSITIONS = ("none", "additive", "mlp")  # names for `build_position`
WAVES = 4  # frequencies along an axis: 0.5, 1, 1.5 and 2 waves over the grid


def waves(height: int, width: int, device: torch.device | None = None) -> Tensor:
    """Sines and cosines at the centers of a grid's cells, [h, w, 4 · WAVES]."""
    y, x = torch.meshgrid(
        (torch.arange(height, device=device) + 0.5) / height,
        (torch.arange(width, device=device) + 0.5) / width,
        indexing="ij",
    )
    phases = torch.stack([math.pi * n * at for at in (x, y) for n in range(1, WAVES + 1)], dim=-1)
    return torch.cat([phases.sin(), phases.cos()], dim=-1)


def _waves_of(features: Tensor) -> Tensor:
    _, height, width, _ = features.shape
    return waves(height, width, features.device).to(features.dtype)


class AdditivePosition(nn.Module):
    """A linear map of the waves: at a place it is always the same, whatever is seen there."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.map = nn.Linear(4 * WAVES, dimension, bias=False)
        nn.init.zeros_(self.map.weight)

    def forward(self, features: Tensor) -> Tensor:
        """The addition to the embeddings of features [B, h, w, C]: [h, w, D]."""
        added: Tensor = self.map(_waves_of(features))
        return added


class MlpPosition(nn.Module):
    """Two layers over what is seen and where, so "an effusion on the left" can be a direction."""

    def __init__(self, channels: int, dimension: int) -> None:
        super().__init__()
        self.seen = nn.Linear(channels, dimension)
        self.place = nn.Linear(4 * WAVES, dimension, bias=False)
        self.second = nn.Linear(dimension, dimension, bias=False)
        nn.init.zeros_(self.second.weight)

    def forward(self, features: Tensor) -> Tensor:
        """The addition to the embeddings of features [B, h, w, C]: [B, h, w, D]."""
        place = self.place(_waves_of(features))
        added: Tensor = self.second(torch.relu(self.seen(features) + place))
        return added


def build_position(name: str, channels: int, dimension: int) -> nn.Module | None:
    """The map from features [B, h, w, C] to the addition to [B, h, w, D]; None for "none"."""
    match name:
        case "none":
            return None
        case "additive":
            return AdditivePosition(dimension)
        case "mlp":
            return MlpPosition(channels, dimension)
    raise ValueError(f"no position '{name}'; there are {', '.join(POSITIONS)}")


_SHAPES = {
    "resnet18": ResNetConfig(
        layer_type="basic", hidden_sizes=(64, 128, 256, 512), depths=(2, 2, 2, 2)
    ),
    # The stride is in a block's 3×3 convolution, as in torchvision ("v1.5") and its weights; with
    # the stride elsewhere, such weights would load but compute nonsense.
    "resnet50": ResNetConfig(
        layer_type="bottleneck", hidden_sizes=(256, 512, 1024, 2048), depths=(3, 4, 6, 3)
    ),
    "resnet50-half": ResNetConfig(  # with half as many channels
        layer_type="bottleneck",
        hidden_sizes=(128, 256, 512, 1024),
        depths=(3, 4, 6, 3),
        downsample_in_bottleneck=True,  # as in the published "thin" weights (open_nsfw)
    ),
    # For small images on a CPU.  A learned convolution in the first stage halves the size, not max
    # pooling: at 128 pixels a pleural line is one pixel wide and would not survive pooling.
    "resnet-narrow": ResNetConfig(
        layer_type="basic",
        hidden_sizes=(32, 64, 128),
        depths=(1, 1, 1),
        embedding_size=32,
        downsample_in_first_stage=True,
        pools=False,
    ),
}

ARCHITECTURES = tuple(_SHAPES)
STRIDES = {"resnet18": 32, "resnet50": 32, "resnet50-half": 32, "resnet-narrow": 16}
"""Input pixels per region, along each axis."""


def architecture_of(config: Any) -> str | None:
    """Which ResNet a transformers configuration describes, with any number of channels."""
    for name, shape in _SHAPES.items():
        values = {key: value for key, value in asdict(shape).items() if key != "num_channels"}
        # transformers has no key for a stem without pooling.
        own = {key: getattr(config, key, True) for key in values}
        if values == {k: tuple(x) if isinstance(x, list) else x for k, x in own.items()}:
            return name
    return None


class RegionEncoder(nn.Module):
    """Region features, [B, h, w, C], and a trained map of them to the joint space.

    The map is linear with bias, to D dimensions, plus an addition for a region's place.
    """

    offset: float  # pixels that a region's center lies left of and above its cell's middle

    def _train_on(self, channels: int, dimension: int, position: str) -> None:
        self.projection = nn.Linear(channels, dimension)
        self.position = build_position(position, channels, dimension)

    @property
    def trunk(self) -> nn.Module:
        """The network that gives the features; it can be locked."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        """Features [B, h, w, C] of images [B, 1, H, W]."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """Embed images [B, 1, H, W], normalized, as unit vectors [B, h, w, D]."""
        return self.project(self.features(images))

    def project(self, features: Tensor) -> Tensor:
        """Map features [B, h, w, C] to unit vectors [B, h, w, D]."""
        embedded = self.projection(features)
        if self.position is not None:
            embedded = embedded + self.position(features)
        return F.normalize(embedded, dim=-1)


class ImageEncoder(RegionEncoder):
    """A one-channel ResNet, trained with the rest; h and w are H and W / stride, rounded up.

    :mod:`cxrtext.models.image_weights` starts it from other weights.
    """

    def __init__(self, architecture: str, dimension: int = 128, position: str = "none") -> None:
        if architecture not in _SHAPES:
            raise ValueError(
                f"no image architecture '{architecture}'; there are {', '.join(ARCHITECTURES)}"
            )
        super().__init__()
        # Each strided convolution has an odd, padded kernel, centered on its first pixel.
        self.offset = strided_offset(STRIDES[architecture])
        self.backbone: Any = ResNet(_SHAPES[architecture])
        self._train_on(_SHAPES[architecture].hidden_sizes[-1], dimension, position)

    @property
    def trunk(self) -> nn.Module:
        trunk: nn.Module = self.backbone
        return trunk

    def features(self, images: Tensor) -> Tensor:
        states: Tensor = self.backbone(images).last_hidden_state
        return states.permute(0, 2, 3, 1).contiguous()
