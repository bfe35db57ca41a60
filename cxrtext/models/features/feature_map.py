"""Reduces a backbone's regions to a smaller grid, fewer dimensions, and values near 1.

Each step is linear and fixed once: regions are averaged by the area that they share with a cell of
the smaller grid, the mean region is subtracted, the rest is projected onto its principal
components, and everything is divided by one number.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from cxrtext.errors import CheckpointError, ConfigError, DataError

MIN_SCALE = 1e-6  # least divisor, so that constant features are not blown up


class FeatureMap(nn.Module):
    """From a backbone's regions [B, h, w, C] to reduced ones [B, g, g, R].

    Without a fit (:func:`fit_feature_map`) it only pools and takes the first R channels.

    Args:
        channels: C.
        grid: Most cells along each axis, g; a smaller grid stays as it is.  None keeps every grid.
        reduce: R, below C; None keeps all channels.
        variance_kept: Share of the variance in the fitted regions that R components have.
    """

    mean: Tensor  # [C]
    basis: Tensor  # [C, R], orthonormal columns; only with ``reduce``
    scale: Tensor  # [], the divisor of the values

    def __init__(
        self,
        channels: int,
        grid: int | None = None,
        reduce: int | None = None,
        *,
        variance_kept: float = 1.0,
    ) -> None:
        super().__init__()
        if grid is not None and grid < 1:
            raise ConfigError(f"--grid {grid}: must be at least 1")
        if reduce is not None and not 1 <= reduce < channels:
            raise ConfigError(
                f"--reduce {reduce}: the backbone has {channels} channels; take fewer than these, "
                "or leave it out to keep them all"
            )
        self.channels, self.grid, self.reduce = channels, grid, reduce
        self.variance_kept = variance_kept
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(()))
        if reduce is not None:
            self.register_buffer("basis", torch.eye(channels, reduce))

    @property
    def width(self) -> int:
        """R, the number of kept channels."""
        return self.reduce or self.channels

    def grid_of(self, native: tuple[int, int]) -> tuple[int, int]:
        """The reduced grid for a backbone's grid."""
        height, width = native
        most = self.grid or max(native)
        return min(most, height), min(most, width)

    def forward(self, regions: Tensor) -> Tensor:
        """Map regions [B, h, w, C] to [B, g, g, R], in float32."""
        regions = pool_regions(regions.float(), self.grid_of((regions.shape[1], regions.shape[2])))
        kept = regions - self.mean
        if self.reduce is not None:
            kept = kept @ self.basis
        return kept / self.scale

    def note(self) -> dict[str, Any]:
        """For `from_note`, and for users, as JSON."""
        return {
            "channels": self.channels,
            "grid": self.grid,
            "reduce": self.reduce,
            "variance_kept": self.variance_kept,
            "scale": float(self.scale),
        }

    @classmethod
    def from_note(cls, note: dict[str, Any], tensors: dict[str, Tensor]) -> "FeatureMap":
        """Make a map from its `note` and its state."""
        try:
            made = cls(
                note["channels"], note["grid"], note["reduce"], variance_kept=note["variance_kept"]
            )
            made.load_state_dict(tensors)
        except (KeyError, TypeError, RuntimeError, ConfigError):
            raise CheckpointError("the map of features does not fit its note") from None
        return made.eval()


def pool_regions(regions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Average regions [B, h, w, C] over the cells of a grid, by shared area: [B, g, g', C].

    A cell covers the same part of the image as its regions, and the mean over the image does not
    change.
    """
    rows, columns = _overlap(regions.shape[1], grid[0]), _overlap(regions.shape[2], grid[1])
    if rows is not None:
        regions = torch.einsum("gh,bhwc->bgwc", rows.to(regions), regions)
    if columns is not None:
        regions = torch.einsum("kw,bgwc->bgkc", columns.to(regions), regions)
    return regions


def _overlap(cells: int, fewer: int) -> Tensor | None:
    """Shares [fewer, cells] of each cell in each of the fewer ones; None for equal numbers."""
    if fewer == cells:
        return None
    size = cells / fewer
    edges = torch.arange(fewer + 1, dtype=torch.float64) * size
    place = torch.arange(cells, dtype=torch.float64)
    ends = torch.minimum(edges[1:, None], place + 1)
    starts = torch.maximum(edges[:-1, None], place)
    return (ends - starts).clamp_min(0) / size


def fit_feature_map(
    regions: Iterable[Tensor], channels: int, grid: int | None, reduce: int | None
) -> FeatureMap:
    """Fit the mean, the principal components and the scale to the regions of images.

    The same regions in the same batches give the same map: sums are in float64, and the largest
    weight of each component is positive.  Batches [b, h, w, C] are read once and not kept; other
    arguments are as in :class:`FeatureMap`.
    """
    made = FeatureMap(channels, grid, reduce)
    count, total = 0, torch.zeros(channels, dtype=torch.float64)
    products = torch.zeros(channels, channels, dtype=torch.float64)
    for batch in regions:
        own = made.grid_of((batch.shape[1], batch.shape[2]))
        flat = pool_regions(batch.detach().float().cpu(), own).flatten(0, 2).double()
        count += len(flat)
        total += flat.sum(dim=0)
        products += flat.T @ flat
    if count <= made.width:
        raise DataError(
            f"{count} regions of training images are too few to find {made.width} components of "
            "them; take more images, or a lower --reduce"
        )
    mean = total / count
    covariance = products / count - torch.outer(mean, mean)
    variances = covariance.diagonal()
    made.mean.copy_(mean)
    if reduce is not None:
        values, vectors = torch.linalg.eigh((covariance + covariance.T) / 2)
        vectors = vectors.flip(1)[:, :reduce]
        vectors = vectors * vectors[vectors.abs().argmax(dim=0), torch.arange(reduce)].sign()
        made.basis.copy_(vectors)
        kept = values.flip(0)[:reduce].clamp_min(0)
        made.variance_kept = float(kept.sum() / variances.sum().clamp_min(MIN_SCALE**2))
        variances = kept
    made.scale.copy_(variances.mean().clamp_min(0).sqrt().clamp_min(MIN_SCALE))
    return made.eval()
