"""The two networks of a finished pair: a trunk of transformers, how it is pooled, a projection."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.models.image_encoder import RegionEncoder
from cxrtext.models.text_encoder import mean_state

ImagePooling = Literal["pooler", "first", "mean", "patches"]
"""transformers' pooled state; the first token's; the mean of a map; or every cell by itself."""
TextPooling = Literal["pooler", "first", "last", "mean"]
"""transformers' pooled state; the first piece's; that of the last real piece; or their mean."""


class ImageTower(RegionEncoder):
    """From images to regions in the joint space; a pair that pools has one region an image.

    ``mean`` and ``std`` are of each channel, for gray values in [0, 1].
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: nn.Module,
        pooling: ImagePooling,
        projection: nn.Module,
        levels: tuple[Sequence[float], Sequence[float]],
        offset: float = 0.0,
    ) -> None:
        super().__init__()
        self.network, self.pooling, self.head = network, pooling, projection
        self._offset = offset
        shape = (1, len(levels[0]), 1, 1)
        for name, numbers in zip(("mean", "std"), levels, strict=True):
            self.register_buffer(name, torch.tensor(numbers).view(shape), persistent=False)

    @property
    def trunk(self) -> nn.Module:
        return self.network

    @property
    def offset(self) -> float:
        return self._offset

    @property
    def has_patches(self) -> bool:
        """Whether cells of the grid are in the joint space."""
        return self.pooling == "patches"

    def forward(self, images: Tensor) -> Tensor:
        """Embed images [B, 1, crop, crop] in [0, 1] as regions [B, h, w, D].

        One region is a unit vector.  Patches keep their lengths, over the longest of the image, so
        that their mean has the direction that the model's own global embedding has.
        """
        found = self.network(pixel_values=(images.float() - self.mean) / self.std)
        if self.pooling == "patches":
            cells: Tensor = self.head(found.last_hidden_state).permute(0, 2, 3, 1)
            longest: Tensor = cells.flatten(1, 2).norm(dim=-1).amax(dim=-1)
            return cells / longest.clamp_min(1e-12)[:, None, None, None]
        states = self._pooled(found)
        return F.normalize(self.head(states), dim=-1)[:, None, None, :]

    def _pooled(self, found: Any) -> Tensor:
        states: Tensor = found.last_hidden_state
        match self.pooling:
            case "pooler":
                states = found.pooler_output
            case "first":
                states = states[:, 0]
            case "mean":
                states = states.mean(dim=(2, 3))
        return states


class TextTower(nn.Module):
    """From word pieces to unit vectors in the joint space.

    A ``length`` above 0 is what sentences are padded to with ``padding`` instead of being masked,
    as SigLIP was trained.
    """

    def __init__(
        self,
        trunk: nn.Module,
        pooling: TextPooling,
        projection: nn.Module,
        *,
        length: int = 0,
        padding: int = 0,
    ) -> None:
        super().__init__()
        self.trunk, self.pooling, self.projection = trunk, pooling, projection
        self._length, self._padding = length, padding

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed sentences [S, T] as unit vectors [S, D]."""
        if self._length:
            ids = input_ids.masked_fill(attention_mask == 0, self._padding)
            ids = F.pad(ids, (0, self._length - ids.shape[1]), value=self._padding)
            found = self.trunk(input_ids=ids)
        else:
            found = self.trunk(input_ids=input_ids, attention_mask=attention_mask)
        states: Tensor = found.last_hidden_state
        match self.pooling:
            case "pooler":
                states = found.pooler_output
            case "first":
                states = states[:, 0]
            case "last":
                rows = torch.arange(len(states), device=states.device)
                states = states[rows, attention_mask.sum(dim=-1) - 1]
            case "mean":
                states = mean_state(states, attention_mask)
        return F.normalize(self.projection(states), dim=-1)


class BesideMissing(nn.Module):
    """BioViL-T's projector of one film: beside its features stands what it learned for no prior.

    Source: Bannur et al. 2023; hi-ml-multimodal, ``MultiImageEncoder.forward``.
    """

    def __init__(self, reduce: nn.Module, missing: Tensor, project: nn.Module) -> None:
        super().__init__()
        self.reduce, self.project = reduce, project
        self.missing = nn.Parameter(missing)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, C, h, w] to [B, D, h, w]."""
        own = self.reduce(features)
        found: Tensor = self.project(torch.cat([own, self.missing.expand_as(own)], dim=1))
        return found


class ResidualHead(nn.Module):
    """CXR-CLIP's projection, ``MLPProjectionHead`` of its own code, without its dropout."""

    def __init__(self, width: int, dimension: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, dimension)
        self.fc = nn.Linear(dimension, dimension)
        self.layer_norm = nn.LayerNorm(dimension)

    def forward(self, states: Tensor) -> Tensor:
        """Map states [..., W] to [..., D]."""
        projected = self.projection(states)
        found: Tensor = self.layer_norm(self.fc(F.gelu(projected)) + projected)
        return found


class CxrBertHead(nn.Module):
    """CXR-BERT's ``cls_projection_head``."""

    def __init__(self, width: int, dimension: int) -> None:
        super().__init__()
        self.dense_to_hidden = nn.Linear(width, dimension)
        self.LayerNorm = nn.LayerNorm(dimension, eps=1e-12)
        self.dense_to_output = nn.Linear(dimension, dimension)

    def forward(self, states: Tensor) -> Tensor:
        """Map states [..., W] to [..., D]."""
        hidden = F.gelu(self.dense_to_hidden(states))
        found: Tensor = self.dense_to_output(self.LayerNorm(hidden))
        return found


def patch_projector(width: int, hidden: int, dimension: int) -> nn.Sequential:
    """BioViL's projector, of every cell: ``MLP`` of hi-ml-multimodal with 1 × 1 convolutions."""
    return nn.Sequential(
        nn.Conv2d(width, hidden, 1, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU(),
        nn.Conv2d(hidden, dimension, 1),
    )
