"""Encoders that turn a radiograph into a grid of region embeddings."""

import math
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.images.preprocessing import strided_offset
from cxrtext.models.resnet import ResNet, ResNetConfig

POSITIONS = ("none", "additive", "mlp")  # the names that `build_position` knows
WAVES = 4  # frequencies along an axis: half a wave over the grid, one, one and a half, two


def waves(height: int, width: int, device: torch.device | None = None) -> Tensor:
    """Sines and cosines of the centers of a grid's cells, [h, w, 4 · WAVES]."""
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
    """A linear map of the waves: the same at a place whatever is seen there."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.map = nn.Linear(4 * WAVES, dimension, bias=False)
        nn.init.zeros_(self.map.weight)

    def forward(self, features: Tensor) -> Tensor:
        """What is added to the embeddings of features [B, h, w, C]: [h, w, D]."""
        added: Tensor = self.map(_waves_of(features))
        return added


class MlpPosition(nn.Module):
    """Two layers over what is seen and where: "an effusion on the left" can be one direction."""

    def __init__(self, channels: int, dimension: int) -> None:
        super().__init__()
        self.seen = nn.Linear(channels, dimension)
        self.place = nn.Linear(4 * WAVES, dimension, bias=False)
        self.second = nn.Linear(dimension, dimension, bias=False)
        nn.init.zeros_(self.second.weight)

    def forward(self, features: Tensor) -> Tensor:
        """What is added to the embeddings of features [B, h, w, C]: [B, h, w, D]."""
        place = self.place(_waves_of(features))
        added: Tensor = self.second(torch.relu(self.seen(features) + place))
        return added


def build_position(name: str, channels: int, dimension: int) -> nn.Module | None:
    """Make the map of features [B, h, w, C] to what is added to [B, h, w, D]; "none" is None."""
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
    # The stride is in a block's 3×3 convolution, as in torchvision ("v1.5") and in weights trained
    # there; with the stride elsewhere such weights load and compute nonsense.
    "resnet50": ResNetConfig(
        layer_type="bottleneck", hidden_sizes=(256, 512, 1024, 2048), depths=(3, 4, 6, 3)
    ),
    "resnet50-half": ResNetConfig(  # of half as many channels
        layer_type="bottleneck",
        hidden_sizes=(128, 256, 512, 1024),
        depths=(3, 4, 6, 3),
        downsample_in_bottleneck=True,  # as in the weights given out as "thin" (open_nsfw)
    ),
    # For small images on a CPU.  The first stage halves the size instead of the pooling, by a
    # learned convolution: at 128 pixels a pleural line is one pixel wide, and does not survive max
    # pooling.
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
"""Pixels of the input a region, along each axis."""


def architecture_of(config: Any) -> str | None:
    """Which ResNet a configuration of transformers describes, whatever channels it takes."""
    for name, shape in _SHAPES.items():
        values = {key: value for key, value in asdict(shape).items() if key != "num_channels"}
        # transformers has no configuration of a stem that does not pool.
        found = {key: getattr(config, key, True) for key in values}
        if values == {k: tuple(x) if isinstance(x, list) else x for k, x in found.items()}:
            return name
    return None


class RegionEncoder(nn.Module):
    """Features of regions, [B, h, w, C], and what is trained to bring them to the joint space.

    That is a linear map with bias to D dimensions, and what is added to it by a region's place.
    """

    def _train_on(self, channels: int, dimension: int, position: str) -> None:
        self.projection = nn.Linear(channels, dimension)
        self.position = build_position(position, channels, dimension)

    @property
    def trunk(self) -> nn.Module:
        """What makes the features, and can be held still."""
        raise NotImplementedError

    @property
    def offset(self) -> float:
        """How far left of and above its cell's middle a region is centered, in pixels."""
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
    """A one-channel ResNet, trained with the rest; h and w are H and W over the stride, rounded up.

    :mod:`cxrtext.models.image_weights` starts it from weights of elsewhere.
    """

    def __init__(self, architecture: str, dimension: int = 128, position: str = "none") -> None:
        if architecture not in _SHAPES:
            raise ValueError(
                f"no image architecture '{architecture}'; there are {', '.join(ARCHITECTURES)}"
            )
        super().__init__()
        self.architecture = architecture
        self.backbone: Any = ResNet(_SHAPES[architecture])
        self._train_on(_SHAPES[architecture].hidden_sizes[-1], dimension, position)

    @property
    def trunk(self) -> nn.Module:
        trunk: nn.Module = self.backbone
        return trunk

    @property
    def offset(self) -> float:
        """Each strided convolution, of an odd kernel and padded, is centered on its first pixel."""
        return strided_offset(STRIDES[self.architecture])

    def features(self, images: Tensor) -> Tensor:
        found: Tensor = self.backbone(images).last_hidden_state
        return found.permute(0, 2, 3, 1).contiguous()
