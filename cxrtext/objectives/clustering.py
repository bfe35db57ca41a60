"""K-means, to turn continuous metadata into clusters."""

from typing import NamedTuple

import torch
from torch import Tensor


class Clusters(NamedTuple):
    """A clustering.

    Args:
        labels: [n], int64, the cluster of each row.
        centers: [k, d], the clusters' means.
    """

    labels: Tensor
    centers: Tensor


def kmeans(z: Tensor, clusters: int, generator: torch.Generator, iterations: int = 100) -> Clusters:
    """Cluster rows by k-means++ and Lloyd's iterations.

    A cluster that runs empty takes the row that is farthest from its center.  With fewer distinct
    rows than clusters, some clusters stay empty.

    Args:
        z: [n] or [n, d], without missing values, in comparable units.
        clusters: k, from 1 to n.
        generator: Draws the first centers; on any device.

    Returns:
        No gradient flows through them.

    Source: Arthur and Vassilvitskii 2007 (k-means++); Lloyd 1982.
    """
    points = z.detach().double()
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not 1 <= clusters <= len(points):
        raise ValueError(
            f"z must be [n] or [n, d] with clusters from 1 to n, got shape {tuple(z.shape)} and "
            f"{clusters} clusters"
        )
    if not bool(torch.isfinite(points).all()):
        raise ValueError("z has missing or infinite values; leave those rows out, or fill them")
    centers = _first_centers(points, clusters, generator)
    labels = _nearest(points, centers)[1]
    for _ in range(iterations):
        centers = _means(points, labels, centers)
        distances, found = _nearest(points, centers)
        found = _fill_empty(distances, found, clusters)
        if torch.equal(found, labels):
            break
        labels = found
    centers = _means(points, labels, centers)
    return Clusters(labels, centers.to(torch.promote_types(z.dtype, torch.float32)))


def _first_centers(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Rows drawn one after another, with probability ∝ squared distance to those drawn before."""
    weights = torch.ones(len(points), dtype=torch.float64, device=points.device)
    chosen = []
    for _ in range(clusters):
        if not bool(weights.sum() > 0):  # every distinct row is a center by now
            weights = torch.ones_like(weights)
        drawn = torch.multinomial(weights.to(generator.device), 1, generator=generator)
        chosen.append(int(drawn))
        squared = (points - points[chosen[-1]]).square().sum(dim=1)
        weights = squared if len(chosen) == 1 else torch.minimum(weights, squared)
    return points[chosen]


def _nearest(points: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    distances = torch.cdist(points, centers, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.min(dim=1)
    return nearest.values, nearest.indices


def _means(points: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
    """The mean of each cluster; the old center where a cluster is empty."""
    sums = torch.zeros_like(centers).index_add(0, labels, points)
    counts = torch.bincount(labels, minlength=len(centers))[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), centers)


def _fill_empty(distances: Tensor, labels: Tensor, clusters: int) -> Tensor:
    """Give each empty cluster the farthest row of those that are not alone in theirs."""
    labels, distances = labels.clone(), distances.clone()
    counts = torch.bincount(labels, minlength=clusters)
    for empty in (counts == 0).nonzero().flatten().tolist():
        movable = torch.where(counts[labels] > 1, distances, 0.0)
        far = int(movable.argmax())
        if not movable[far] > 0:
            break
        counts[labels[far]] -= 1
        counts[empty] += 1
        labels[far] = empty
        distances[far] = 0.0
    return labels
