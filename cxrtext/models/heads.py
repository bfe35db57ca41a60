"""Heads for named findings, kept with a checkpoint: linear maps of the regions of an image.

A prompt asks for any finding in words; a head knows one finding, and finds it better where enough
reports of the training images name it.  It reads the same regions as a prompt does, so that it
answers for images of an index, too.  Validation images say for each finding which of both ranks
better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.models.image_text import ImageTextModel
from cxrtext.models.weight_files import load_bound, save_sealed

HEADS = "heads.safetensors"
FORMAT, VERSION = "cxrtext finding heads", 1
CELLS = 3
"""Cells along each side of the grid that a head reads, beside the mean of the whole image."""
RIDGES = (3.0, 10.0, 30.0, 100.0, 300.0)
"""Penalties that are tried, as shares of the number of images."""
FEWEST = 8
"""Training images that a finding must be in, and absent from, to have a head."""
AGAIN = "remove it; training writes it anew"

Labels = NDArray[np.int8]
Floats = NDArray[np.float64]


def pooled(regions: Tensor) -> Tensor:
    """What a head reads of regions [B, N, D]: means of 3 × 3 cells and of all, [B, 10 D]."""
    side = isqrt(regions.shape[1])
    grid = regions.float().transpose(1, 2).unflatten(2, (side, side))
    cells = F.adaptive_avg_pool2d(grid, min(CELLS, side)).flatten(2)
    return torch.cat([cells, grid.mean(dim=(2, 3))[..., None]], dim=2).flatten(1)


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """How a head and its finding's prompts rank validation images."""

    head: float  # AUC
    prompts: float
    present: int  # validation images with the finding
    absent: int

    @property
    def is_better(self) -> bool:
        return self.head > self.prompts


@dataclass(frozen=True, slots=True)
class FindingHeads:
    """Heads of F findings; ``asked`` are the prompts that each was compared with, as kept in JSON.

    Logits are of a scale and shift that fit validation images.
    """

    weight: Tensor  # [F, K]
    bias: Tensor  # [F]
    figures: Mapping[str, HeadFigures]  # by finding, in order
    asked: Mapping[str, Any]

    def logits(self, regions: Tensor) -> Tensor:
        """Logits [F, B] of regions [B, N, D]."""
        weight, bias = self.weight.to(regions.device), self.bias.to(regions.device)
        return (pooled(regions) @ weight.T + bias).T

    def rows(self, findings: Sequence[str]) -> list[int]:
        """Places of some of its findings."""
        own = list(self.figures)
        return [own.index(name) for name in findings]


def fit_ridge(features: Tensor, labels: Labels, ridges: Sequence[float] = RIDGES) -> Tensor:
    """Ridge regressions of labels [n, F], 1 or 0, or -1 unknown, on features [n, K].

    Features are brought to mean 0 and deviation 1, and an unknown label to the mean of its finding.
    What comes is for features as they are, [R, F, K + 1], a ridge each, the bias last.  Source:
    Hoerl and Kennard 1970.
    """
    x = features.double()
    center, spread = x.mean(dim=0), x.std(dim=0).clamp_min(1e-9)
    x = (x - center) / spread
    said = torch.from_numpy(labels)
    known = (said >= 0).double()
    mean = (said.double() * known).sum(dim=0) / known.sum(dim=0).clamp_min(1)
    y = (said.double() - mean) * known  # [n, F]
    is_wide = x.shape[1] > len(x)
    values, vectors = torch.linalg.eigh(x @ x.T if is_wide else x.T @ x)
    turned = vectors.T @ (y if is_wide else x.T @ y)
    found = torch.empty(len(ridges), y.shape[1], x.shape[1] + 1, dtype=torch.float64)
    for row, ridge in enumerate(ridges):
        solved = vectors @ (turned / (values.clamp_min(0) + ridge * len(x))[:, None])
        weight = (x.T @ solved if is_wide else solved) / spread[:, None]  # [K, F]
        found[row, :, :-1] = weight.T
        found[row, :, -1] = mean - center @ weight
    return found


def save_heads(folder: Path, heads: FindingHeads, fingerprint: str) -> None:
    """Put heads into the checkpoint whose model, of that fingerprint, they are for."""
    notes = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint}
    figures = {
        name: [round(one.head, 4), round(one.prompts, 4), one.present, one.absent]
        for name, one in heads.figures.items()
    }
    tensors = {"weight": heads.weight.float(), "bias": heads.bias.float()}
    save_sealed(folder / HEADS, tensors, {**notes, "figures": figures, "asked": dict(heads.asked)})


def load_heads(model: ImageTextModel) -> FindingHeads | None:
    """The heads that lie with a model's checkpoint; None where there are none."""
    if model.folder is None:
        return None
    path = model.folder / HEADS
    kept = load_bound(path, (FORMAT, VERSION), "the finding heads", model.fingerprint)
    if kept is None:
        return None
    notes, tensors = kept
    try:
        figures = {name: HeadFigures(*one) for name, one in notes["figures"].items()}
        weight, bias = tensors["weight"], tensors["bias"]
        if weight.ndim != 2 or weight.shape[:1] != bias.shape or len(figures) != len(bias):
            raise ValueError("shapes differ")
        if weight.shape[1] % model.spec.dimension or not torch.isfinite(weight).all():
            raise ValueError("weights of another model")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: is damaged ({error}); {AGAIN}") from None
    return FindingHeads(weight, bias, figures, notes.get("asked", {}))
