"""Heads for named findings, kept with a checkpoint: linear maps of an image's regions.

A prompt asks for any finding in words; a head knows one finding, and detects it better if enough
training reports name it.  It uses the same regions as a prompt, so it also works for images in an
index.  Validation images decide for each finding which of the two ranks better.

A side head tells left from right for any finding: it uses the left cells minus the mirrored right
ones, so that an image and its mirror have opposite logits.
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
from cxrtext.models.weight_files import AGAIN, load_bound, save_sealed

HEADS = "heads.safetensors"
FORMAT, VERSION = "cxrtext finding heads", 1
CELLS = 3
"""Cells along each side of a head's grid, in addition to the mean of the whole image."""
RIDGES = (3.0, 10.0, 30.0, 100.0, 300.0)
"""Penalties to try, relative to the number of images."""
SIDE_RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
FEWEST = 8
"""Least training images with a finding, and least without it, for a head."""

Labels = NDArray[np.int8]


def pooled(regions: Tensor) -> Tensor:
    """A head's input from regions [B, N, D]: means of 3 × 3 cells and of all, [B, 10 D]."""
    side = isqrt(regions.shape[1])
    grid = regions.float().transpose(1, 2).unflatten(2, (side, side))
    cells = F.adaptive_avg_pool2d(grid, min(CELLS, side)).flatten(2)
    return torch.cat([cells, grid.mean(dim=(2, 3))[..., None]], dim=2).flatten(1)


def left_less_right(regions: Tensor) -> Tensor:
    """The patient's left column of the 3 × 3 cells minus the right one, [B, N, D] -> [B, 3 D].

    The patient's left is on the right of the picture.
    """
    side = isqrt(regions.shape[1])
    grid = regions.float().transpose(1, 2).unflatten(2, (side, side))
    cells = F.adaptive_avg_pool2d(grid, CELLS)
    return (cells[..., -1] - cells[..., 0]).flatten(1)


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
    """Heads for F findings; ``asked`` has the prompts that each was compared with, as in JSON.

    The scale and shift of logits fit validation images.
    """

    weight: Tensor  # [F, K]
    bias: Tensor  # [F]
    figures: Mapping[str, HeadFigures]  # by finding, in order
    asked: Mapping[str, Any]
    side: Tensor | None = None  # [3 D]
    # AUC on validation images whose reports name one side, and how many name the left, the right
    side_figures: tuple[float, int, int] = (0.5, 0, 0)

    def logits(self, regions: Tensor) -> Tensor:
        """Logits [F, B] of regions [B, N, D]."""
        weight, bias = self.weight.to(regions.device), self.bias.to(regions.device)
        return (pooled(regions) @ weight.T + bias).T

    def left(self, regions: Tensor) -> Tensor | None:
        """Logits [B] that an image's finding is on the patient's left; None if unknown.

        This needs a side head with an AUC on validation images above 0.5 by more than chance.
        """
        if self.side is None or not self.side_tells:
            return None
        return left_less_right(regions) @ self.side.to(regions.device)

    @property
    def side_tells(self) -> bool:
        """Whether the side head beats chance (one-sided, 2.5 %).  Source: Mann, Whitney 1947."""
        auc, left, right = self.side_figures
        if not left or not right:
            return False
        error: float = ((left + right + 1) / (12 * left * right)) ** 0.5
        return auc - 1.96 * error > 0.5

    def rows(self, findings: Sequence[str]) -> list[int]:
        """The places of findings among its own."""
        own = list(self.figures)
        return [own.index(name) for name in findings]


def fit_ridge(features: Tensor, labels: Labels, ridges: Sequence[float] = RIDGES) -> Tensor:
    """Ridge regressions of labels [n, F] (1, 0, or -1 unknown) on features [n, K].

    Features are scaled to mean 0 and deviation 1, and an unknown label counts as its finding's
    mean.  The result is for unscaled features: [R, F, K + 1], one for each ridge, with the bias
    last.  Source: Hoerl and Kennard 1970.
    """
    x = features.double()
    center, spread = x.mean(dim=0), x.std(dim=0).clamp_min(1e-9)
    x = (x - center) / spread
    targets = torch.from_numpy(labels)
    known = (targets >= 0).double()
    mean = (targets.double() * known).sum(dim=0) / known.sum(dim=0).clamp_min(1)
    y = (targets.double() - mean) * known  # [n, F]
    is_wide = x.shape[1] > len(x)
    values, vectors = torch.linalg.eigh(x @ x.T if is_wide else x.T @ x)
    turned = vectors.T @ (y if is_wide else x.T @ y)
    fits = torch.empty(len(ridges), y.shape[1], x.shape[1] + 1, dtype=torch.float64)
    for row, ridge in enumerate(ridges):
        solved = vectors @ (turned / (values.clamp_min(0) + ridge * len(x))[:, None])
        weight = (x.T @ solved if is_wide else solved) / spread[:, None]  # [K, F]
        fits[row, :, :-1] = weight.T
        fits[row, :, -1] = mean - center @ weight
    return fits


def fit_side(features: Tensor, sides: Tensor, ridge: float) -> Tensor:
    """Ridge regression of sides [n] (1 left, -1 right) on features [n, K], without bias: [K]."""
    x = features.double()
    spread = x.square().mean(dim=0).sqrt().clamp_min(1e-9)
    x = x / spread
    gram = x @ x.T + ridge * len(x) * torch.eye(len(x), dtype=torch.float64)
    weight: Tensor = x.T @ torch.linalg.solve(gram, sides.double())
    return weight / spread


def save_heads(folder: Path, heads: FindingHeads, fingerprint: str) -> None:
    """Save heads in the checkpoint of the model with this fingerprint, for which they are."""
    notes: dict[str, Any] = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint}
    figures = {
        name: [round(one.head, 4), round(one.prompts, 4), one.present, one.absent]
        for name, one in heads.figures.items()
    }
    tensors = {"weight": heads.weight.float(), "bias": heads.bias.float()}
    if heads.side is not None:
        tensors["side"] = heads.side.float()
    auc, left, right = heads.side_figures
    notes |= {"figures": figures, "asked": dict(heads.asked), "side": [round(auc, 4), left, right]}
    save_sealed(folder / HEADS, tensors, notes)


def load_heads(folder: Path, fingerprint: str, dimension: int) -> FindingHeads | None:
    """The heads of a checkpoint, for a model with this fingerprint and D; None without heads."""
    path = folder / HEADS
    loaded = load_bound(path, (FORMAT, VERSION), "the finding heads", fingerprint, AGAIN)
    if loaded is None:
        return None
    notes, tensors = loaded
    try:
        figures = {name: HeadFigures(*one) for name, one in notes["figures"].items()}
        weight, bias = tensors["weight"], tensors["bias"]
        if weight.ndim != 2 or weight.shape[:1] != bias.shape or len(figures) != len(bias):
            raise ValueError("shapes differ")
        side, (auc, left, right) = tensors.get("side"), notes.get("side", (0.5, 0, 0))
        if side is not None and (side.ndim != 1 or len(side) != CELLS * dimension):
            raise ValueError("shapes differ")
        if weight.shape[1] % dimension or not torch.isfinite(weight).all():
            raise ValueError("weights of another model")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: is damaged ({error}); {AGAIN}") from None
    return FindingHeads(weight, bias, figures, notes.get("asked", {}), side, (auc, left, right))
