"""Where a region lies, given to its embedding: without it left and right look alike.

Coordinates are fractions of the grid, so that any grid is possible, and enter as sines and cosines
of :data:`WAVES` frequencies along each axis.  Both maps start as zero: a new model is the one
without position until a step is taken.

Source: Tancik et al. 2020 (Fourier features); Vaswani et al. 2017 for sinusoids of positions.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

PositionName = Literal["none", "additive", "mlp"]
POSITIONS: tuple[str, ...] = get_args(PositionName)
"""The names that :func:`build_position` knows."""
WAVES = 4
"""Frequencies along an axis: half a wave over the grid, one, one and a half, two."""


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
    """Make the map of a name, of features [B, h, w, C] to what is added to [B, h, w, D].

    "none" is None.
    """
    match name:
        case "none":
            return None
        case "additive":
            return AdditivePosition(dimension)
        case "mlp":
            return MlpPosition(channels, dimension)
    raise ValueError(f"no position '{name}'; there are {', '.join(POSITIONS)}")
