"""InfoNCE, and its variants that know from labels, clusters or texts which candidates are alike.

Sources: Wang et al. 2023 (sample-specific debiasing), eq. 3, and table 1 for removing, resampling
and reweighting negatives, with β and R from docs/reference/objectives.md; Khosla et al. 2020, eq. 2
(supervised contrastive learning); Tsai et al. 2022 (CCL-K), eq. 3 and 4, for clusters of
metadata z; Chen et al. 2020 (SimCLR), eq. 1, for scores of views.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives.scores import (
    Rows,
    check_mask,
    first_row,
    full_precision,
    log_sum,
    log_weights,
    positive_columns,
    rows_of,
    split_rows,
    surprisal,
    without,
)


def info_nce(scores: Tensor, positive: Tensor | None = None) -> Tensor:
    """InfoNCE, ``−log( pos / (pos + neg) )``, [A], in nats.

    0 for a row without negatives (see :func:`~cxrtext.objectives.without_negatives`).
    """
    return info_nce_terms(split_rows(scores, positive))


def info_nce_terms(rows: Rows) -> Tensor:
    """:func:`info_nce` from rows, unchecked."""
    return F.softplus(log_sum(rows.negatives))


def same_labels(labels: Tensor, others: Tensor | None = None) -> Tensor:
    """Which label sets share a label, [n, m]; an empty set shares none, not even with itself.

    In labels [n, F] and ``others`` [m, F], by default the same, only 1 counts as a label; 0,
    uncertain −1 and blank NaN do not.
    """
    others = labels if others is None else others
    if labels.ndim != 2 or others.ndim != 2 or labels.shape[1] != others.shape[1]:
        raise ValueError(
            f"labels must be [n, F] and [m, F], got {tuple(labels.shape)} and {tuple(others.shape)}"
        )
    # A sum of ones is above 0 in any precision, so autocast is harmless here.
    return (labels == 1).float() @ (others == 1).float().T > 0


def remove_by_text(similarity: Tensor, threshold: float) -> Tensor:
    """Which candidates' texts are too similar to the anchor's, [A, C], for `remove_negatives`.

    The similarity [A, C] is a cosine; above the threshold, in [−1, 1], is too similar.
    """
    if not -1 <= threshold <= 1:
        raise ValueError(f"threshold must lie in [-1, 1], got {threshold}")
    _check_finite(similarity)
    return similarity > threshold


def remove_negatives(scores: Tensor, same: Tensor, positive: Tensor | None = None) -> Tensor:
    """InfoNCE without the negatives that ``same`` marks, [A], in nats; 0 if none is left.

    ``same`` [A, C] is boolean, from :func:`same_labels` or :func:`remove_by_text`; the positive's
    own entry is not read.
    """
    return info_nce(without(scores, same, positive_columns(scores, positive)), positive)


def resample_negatives(
    scores: Tensor,
    similarity: Tensor,
    keep: int,
    beta: float,
    generator: torch.Generator,
    positive: Tensor | None = None,
) -> Tensor:
    """InfoNCE on negatives drawn without replacement, with probability ``∝ e^{−β·cos}``.

    Args:
        similarity: [A, C], cosines of the anchors' and the candidates' texts.
        keep: R, how many negatives a row keeps; a row with fewer keeps all.
        beta: β, at least 0; 0 draws uniformly.
        generator: Draws the negatives; may be on any device.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    columns = positive_columns(scores, positive)
    _check_similarity(scores, similarity, beta)
    return info_nce(resampled(scores, similarity, keep, beta, generator, columns), positive)


def resampled(
    scores: Tensor,
    similarity: Tensor,
    keep: int,
    beta: float,
    generator: torch.Generator,
    column: Tensor,
) -> Tensor:
    """The scores with −inf for negatives that were not drawn, unchecked."""
    uniform = torch.rand(scores.shape, generator=generator, device=generator.device)
    # The largest values of logits + Gumbel noise are a draw without replacement ∝ e^logits.
    noise = -torch.log(-torch.log(uniform.clamp(min=1e-30, max=1 - 1e-7)))
    keys = _repulsion(similarity, beta) + noise.to(similarity.device)
    keys = keys.masked_fill(torch.isneginf(scores), -torch.inf)
    keys = keys.scatter(1, column[:, None], -torch.inf)
    kept = keys.topk(min(keep, keys.shape[1]), dim=1).indices
    dropped = torch.ones_like(scores, dtype=torch.bool).scatter(1, kept, value=False)
    return without(scores, dropped, column)


def reweight_negatives(
    scores: Tensor, similarity: Tensor, beta: float, positive: Tensor | None = None
) -> Tensor:
    """InfoNCE with negatives weighted ``∝ e^{−β·cos}``, with mean weight 1 in a row.

    ``similarity`` [A, C] has the cosines of the anchors' and the candidates' texts, without
    gradient; β is at least 0, and 0 is InfoNCE.
    """
    rows = split_rows(scores, positive)
    _check_similarity(scores, similarity, beta)
    return reweighted_terms(rows, similarity, beta)


def reweighted_terms(rows: Rows, similarity: Tensor, beta: float) -> Tensor:
    """:func:`reweight_negatives` from rows, unchecked."""
    logits = _repulsion(similarity, beta).to(rows.negatives.dtype)
    weights = log_weights(logits, ~torch.isneginf(rows.negatives))
    return F.softplus(log_sum(rows.negatives + weights))


def _repulsion(similarity: Tensor, beta: float) -> Tensor:
    """``−β·cos``, in float32 or better."""
    return -beta * similarity.detach().to(torch.promote_types(similarity.dtype, torch.float32))


def _check_similarity(scores: Tensor, similarity: Tensor, beta: float) -> None:
    if similarity.shape != scores.shape:
        raise ValueError(
            f"similarity must be {tuple(scores.shape)}, got shape {tuple(similarity.shape)}"
        )
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be at least 0 and finite, got {beta}")
    _check_finite(similarity)


def _check_finite(similarity: Tensor) -> None:
    bad = ~torch.isfinite(similarity)
    if bool(bad.any()):
        raise ValueError(f"similarity is not finite in row {first_row(bad)}")


def supervised(scores: Tensor, same: Tensor, positive: Tensor | None = None) -> Tensor:
    """Supervised contrastive loss, ``−(1/|P|) Σ_{p∈P} log( e^{s_ip} / Σ_j e^{s_ij} )``.

    P has the candidates with the anchor's label and its own positive; the sum over j has all
    candidates, with positives.  A score of −inf (an anchor's own view) is not a candidate;
    ``same`` [A, C], boolean, marks candidates with the anchor's label.
    """
    column = positive_columns(scores, positive)
    scores = full_precision(scores, "scores")
    check_mask(scores, same)
    lonely = ~_members(scores, same, column).any(dim=1)
    if bool(lonely.any()):
        raise ValueError(f"anchor {first_row(lonely)} has no positive among the candidates")
    return supervised_terms(scores, same, column)


def supervised_terms(scores: Tensor, same: Tensor, column: Tensor) -> Tensor:
    """:func:`supervised`, unchecked."""
    scores = full_precision(scores, "scores")
    members = _members(scores, same, column)
    return torch.where(members, surprisal(scores), 0.0).sum(dim=1) / members.sum(dim=1)


def _members(scores: Tensor, same: Tensor, column: Tensor) -> Tensor:
    return same.scatter(1, column[:, None], value=True) & ~torch.isneginf(scores)


def weakly_supervised(scores: Tensor, clusters: Tensor, positive: Tensor | None = None) -> Tensor:
    """WeaklySup-InfoNCE: positives drawn within a cluster of z, negatives from everything.

    The expectation over the draw is exact: the mean over the cluster's candidates.  Clusters [C]
    are integers, the candidates' clusters or values of z; an anchor has its positive's cluster.
    """
    columns = positive_columns(scores, positive)
    return supervised(scores, same_cluster(scores, clusters, columns), positive)


def fair(scores: Tensor, clusters: Tensor, positive: Tensor | None = None) -> Tensor:
    """Fair-InfoNCE, [A], in nats: negatives only from the anchor's own cluster of z.

    Clusters [C] are as for :func:`weakly_supervised`; the loss is 0 for an anchor alone in its
    cluster (see ``without_negatives``).
    """
    columns = positive_columns(scores, positive)
    return info_nce(without(scores, ~same_cluster(scores, clusters, columns), columns), positive)


def same_cluster(scores: Tensor, clusters: Tensor, column: Tensor) -> Tensor:
    """Where a candidate is in the anchor's cluster, [A, C]."""
    if clusters.shape != (scores.shape[1],):
        raise ValueError(
            f"clusters must be [{scores.shape[1]}], one a candidate, got {tuple(clusters.shape)}"
        )
    if clusters.is_floating_point():
        raise ValueError(f"clusters must be integers, got {clusters.dtype}")
    return clusters[column][:, None] == clusters


def removed_terms(scores: Tensor, same: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`remove_negatives`, unchecked, and which anchors have no negative left; both [A]."""
    rows = rows_of(without(scores, same, column), column)
    return info_nce_terms(rows), rows.count == 0
