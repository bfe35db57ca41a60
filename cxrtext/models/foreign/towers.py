"""The two networks of a finished pair: a trunk from transformers, a pooling and a projection."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.models.image_encoder import RegionEncoder
from cxrtext.models.text_encoder import mean_state

Pooling = Literal["pooler", "first", "last", "mean", "patches"]
"""transformers' pooled state; the state of the first token; of the last real piece; the mean of a
map or of real pieces; or every cell of a map by itself."""


def pooled(output: Any, pooling: Pooling, real: Tensor | None = None) -> Tensor:
    """The pooled state in a network's output; ``real`` [S, T] is 0 on padding."""
    states: Tensor = output.last_hidden_state
    match pooling:
        case "pooler":
            states = output.pooler_output
        case "first":
            states = states[:, 0]
        case "last":
            length = states.shape[1] if real is None else real.sum(dim=-1)
            states = states[torch.arange(len(states), device=states.device), length - 1]
        case "mean":
            states = states.mean(dim=(2, 3)) if states.ndim == 4 else mean_state(states, real)
    return states


class ImageTower(RegionEncoder):
    """From images to regions in the joint space; with pooling, one region per image.

    ``levels`` are the mean and std of each channel, for gray values in [0, 1].
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: nn.Module,
        pooling: Pooling,
        projection: nn.Module,
        levels: tuple[Sequence[float], Sequence[float]],
        offset: float = 0.0,
    ) -> None:
        super().__init__()
        self.network, self.head, self.pooling, self.offset = network, projection, pooling, offset
        shape = (1, len(levels[0]), 1, 1)
        for name, numbers in zip(("mean", "std"), levels, strict=True):
            self.register_buffer(name, torch.tensor(numbers).view(shape))

    @property
    def has_patches(self) -> bool:
        """Whether cells of the grid are in the joint space."""
        return self.pooling == "patches"

    def forward(self, images: Tensor) -> Tensor:
        """Regions [B, h, w, D] of images [B, 1, crop, crop] in [0, 1].

        A single region is a unit vector.  Patches keep their lengths, divided by the longest in the
        image, so that their mean has the direction of the model's own global embedding.
        """
        output = self.network(pixel_values=(images.float() - self.mean) / self.std)
        if not self.has_patches:
            return F.normalize(self.head(pooled(output, self.pooling)), dim=-1)[:, None, None, :]
        cells: Tensor = self.head(output.last_hidden_state).permute(0, 2, 3, 1)
        longest: Tensor = cells.flatten(1, 2).norm(dim=-1).amax(dim=-1)
        return cells / longest.clamp_min(1e-12)[:, None, None, None]


class TextTower(nn.Module):
    """From word pieces to unit vectors in the joint space.

    With a ``length`` above 0, sentences are padded to it with ``padding`` and not masked, like in
    SigLIP's training.
    """

    def __init__(
        self,
        trunk: nn.Module,
        pooling: Pooling,
        projection: nn.Module,
        *,
        length: int = 0,
        padding: int = 0,
    ) -> None:
        super().__init__()
        self.trunk, self.pooling, self.head = trunk, pooling, projection
        self._length, self._padding = length, padding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Embed sentences [S, T] as unit vectors [S, D]; None masks nothing."""
        if self._length:
            if attention_mask is not None:
                input_ids = input_ids.masked_fill(attention_mask == 0, self._padding)
            more = self._length - input_ids.shape[1]
            input_ids, attention_mask = F.pad(input_ids, (0, more), value=self._padding), None
        output = self.trunk(input_ids=input_ids, attention_mask=attention_mask)
        return F.normalize(self.head(pooled(output, self.pooling, attention_mask)), dim=-1)


class BesideMissing(nn.Module):
    """BioViL-T's projector for one film, with its learned embedding for a missing prior.

    Source: Bannur et al. 2023; hi-ml-multimodal, ``MultiImageEncoder.forward``.
    """

    def __init__(self, reduce: nn.Module, missing: Tensor, project: nn.Module) -> None:
        super().__init__()
        self.reduce, self.project = reduce, project
        self.missing = nn.Parameter(missing)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, C, h, w] to [B, D, h, w]."""
        own = self.reduce(features)
        projected: Tensor = self.project(torch.cat([own, self.missing.expand_as(own)], dim=1))
        return projected


class ResidualHead(nn.Module):
    """CXR-CLIP's projection (``MLPProjectionHead`` in its code), without dropout."""

    def __init__(self, width: int, dimension: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, dimension)
        self.fc = nn.Linear(dimension, dimension)
        self.layer_norm = nn.LayerNorm(dimension)

    def forward(self, states: Tensor) -> Tensor:
        """Map states [..., W] to [..., D]."""
        projected = self.projection(states)
        normalized: Tensor = self.layer_norm(self.fc(F.gelu(projected)) + projected)
        return normalized


def cxr_bert_head(width: int, dimension: int) -> nn.Sequential:
    """CXR-BERT's ``cls_projection_head``."""
    layers = {
        "dense_to_hidden": nn.Linear(width, dimension),
        "activation": nn.GELU(),
        "LayerNorm": nn.LayerNorm(dimension, eps=1e-12),
        "dense_to_output": nn.Linear(dimension, dimension),
    }
    return nn.Sequential(OrderedDict(layers))


def patch_projector(width: int, hidden: int, dimension: int) -> nn.Sequential:
    """BioViL's projector for every cell: hi-ml-multimodal's ``MLP`` with 1 × 1 convolutions."""
    return nn.Sequential(
        nn.Conv2d(width, hidden, 1, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU(),
        nn.Conv2d(hidden, dimension, 1),
    )
