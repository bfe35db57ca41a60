"""Losses that read labels or clusters: supervised, weakly supervised and fair contrast."""

import torch
from torch import Tensor

from cxrtext.objectives.contrastive import info_nce
from cxrtext.objectives.rows import (
    check_mask,
    first_row,
    full_precision,
    positive_columns,
    surprisal,
    without,
)


def supervised(scores: Tensor, same: Tensor, positive: Tensor | None = None) -> Tensor:
    """Supervised contrastive loss, ``−(1/|P|) Σ_{p∈P} log( e^{s_ip} / Σ_j e^{s_ij} )``.

    P holds the candidates of the anchor's label and its own positive; the sum runs over all
    candidates, positives included.

    Args:
        scores: [A, C], anchors in rows, scaled by γ²; −inf (an anchor's own view) is no candidate.
        same: [A, C], boolean, where the label is the anchor's.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, or an anchor has no positive at all.

    Source: Khosla et al. 2020 (supervised contrastive learning), eq. 2.
    """
    column = positive_columns(scores, positive)[:, None]
    scores = full_precision(scores, "scores")
    check_mask(scores, same)
    members = same.scatter(1, column, value=True) & ~torch.isneginf(scores)
    lonely = ~members.any(dim=1)
    if bool(lonely.any()):
        raise ValueError(f"anchor {first_row(lonely)} has no positive among the candidates")
    return torch.where(members, surprisal(scores), 0.0).sum(dim=1) / members.sum(dim=1)


def weakly_supervised(scores: Tensor, clusters: Tensor, positive: Tensor | None = None) -> Tensor:
    """WeaklySup-InfoNCE: positives drawn within a cluster of z, negatives from everything.

    The expectation over the draw is taken exactly, as the mean over the cluster's candidates.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        clusters: [C], integers: the candidates' clusters or values of z; an anchor's is that of
            its positive.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit.

    Source: Tsai et al. 2022 (CCL-K), eq. 3.
    """
    return supervised(scores, _same_cluster(scores, clusters, positive), positive)


def fair(scores: Tensor, clusters: Tensor, positive: Tensor | None = None) -> Tensor:
    """Fair-InfoNCE: negatives from the anchor's own cluster of z alone.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        clusters: [C], integers: the candidates' clusters or values of z; an anchor's is that of
            its positive.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats; 0 for an anchor that is alone in its cluster
        (``without_negatives`` tells which).

    Raises:
        ValueError: The shapes do not fit, or a positive is −inf.

    Source: Tsai et al. 2022 (CCL-K), eq. 4.
    """
    others = ~_same_cluster(scores, clusters, positive)
    return info_nce(without(scores, others, positive), positive)


def _same_cluster(scores: Tensor, clusters: Tensor, positive: Tensor | None) -> Tensor:
    """Where a candidate is of the anchor's cluster, [A, C]."""
    columns = positive_columns(scores, positive)
    if clusters.shape != (scores.shape[1],):
        raise ValueError(
            f"clusters must be [{scores.shape[1]}], one a candidate, got {tuple(clusters.shape)}"
        )
    if clusters.is_floating_point():
        raise ValueError(f"clusters must be integers, got {clusters.dtype}; see kmeans")
    return clusters[columns][:, None] == clusters
