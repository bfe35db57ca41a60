"""Non-local bags: each region with what is like it, and the score of a pair's critical bag.

``query`` is the query map, whose None is q = r.

Sources: Wang et al. 2023, LSE+NL; the non-local aggregator of dual-stream MIL (Li et al. 2021).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.models.similarity.regions import full_precision, region_scores, without_autocast

Query = Callable[[Tensor], Tensor]
"""A map of regions [..., D] to queries [..., d], each region by itself."""
_SMALLEST_NORM = 1e-12


def non_local_bags(regions: Tensor, query: Query | None = None) -> Tensor:
    """The bag ``r̄_c`` of each region c: all regions, weighted by their likeness to c.

    ``w_n = softmax_n( ⟨q_n, q_c⟩ / √d )``, ``r̄_c = normalize( Σ_n w_n r_n )``.  Bags depend on the
    image alone and are computed once an image, not once an image–sentence pair.

    Of regions [..., N, D], as unit vectors [..., N, D] in the order of the critical region.
    """
    queries = _queries(regions, query)
    with without_autocast(regions):
        weights = F.softmax(_likeness(queries, queries), dim=-1)  # [..., c, n]
        return F.normalize(weights @ full_precision(regions), dim=-1, eps=_SMALLEST_NORM)


def attention_entropy(regions: Tensor, query: Query | None = None) -> Tensor:
    """How evenly an image's regions share the weights of its bags.

    The mean over critical regions c of the entropy of ``w`` over log N, [B]; 1 for an image of one
    region.  Near 1 every bag is the mean region, whatever the sentence; near 0 it is one region.
    Either way NL has collapsed.  That of q = r is near 1 for any unit vectors, because
    ⟨r_n, r_c⟩ / √D is at most 1 / √D.
    """
    N = regions.shape[-2]
    queries = _queries(regions, query)
    with without_autocast(regions):
        if N == 1:
            return queries.new_ones(queries.shape[:-2])
        log_weights = F.log_softmax(_likeness(queries, queries), dim=-1)  # [..., c, n]
        entropies = -(log_weights.exp() * log_weights).sum(dim=-1)
        return (entropies.mean(dim=-1) / math.log(N)).clamp(0.0, 1.0)


def non_local(scores: Tensor, bags: Tensor, texts: Tensor) -> Tensor:
    """Score [S, B] of the bag of each pair's critical region, ``⟨r̄_c, t⟩``, ``c = argmax_n h_n``.

    ``scores`` are region–sentence scores h, [S, B, N].
    """
    return non_local_at(scores.argmax(dim=-1), bags, texts)


def non_local_of(critical: Tensor, regions: Tensor, texts: Tensor, query: Query | None) -> Tensor:
    """NL from critical regions [S, B], by whichever number of bags an image is the smaller."""
    if len(texts) < regions.shape[1]:
        return _non_local_of_pairs(critical, regions, texts, query)
    return non_local_at(critical, non_local_bags(regions, query), texts)


def _non_local_of_pairs(
    critical: Tensor, regions: Tensor, texts: Tensor, query: Query | None
) -> Tensor:
    """NL where sentences are fewer than regions: S bags an image, of the critical regions only."""
    queries = _queries(regions, query)
    with without_autocast(regions):
        of_critical = _rows(queries, critical.T)  # [B, S, d]
        weights = F.softmax(_likeness(of_critical, queries), dim=-1)  # [B, S, N]
        bags = weights @ full_precision(regions)  # [B, S, D], not yet unit vectors
        norms = torch.linalg.vector_norm(bags, dim=-1).clamp_min(_SMALLEST_NORM)
        scores: Tensor = torch.linalg.vecdot(bags, full_precision(texts)) / norms
        return scores.T


def non_local_at(critical: Tensor, bags: Tensor, texts: Tensor) -> Tensor:
    """``⟨r̄_c, t⟩`` of critical regions [S, B]: gathered, or multiplied out, by the smaller."""
    if bags.shape[-1] > bags.shape[-2]:  # [S, B, N] is smaller than [S, B, D]
        return region_scores(bags, texts).gather(-1, critical[..., None]).squeeze(-1)
    with without_autocast(bags):
        chosen = _rows(full_precision(bags), critical.T)  # [B, S, D]
        scores: Tensor = torch.linalg.vecdot(chosen, full_precision(texts))
        return scores.T


def _rows(of_images: Tensor, indices: Tensor) -> Tensor:
    """Rows [B, S, d] of [B, N, d] by their indices [B, S]."""
    B, N, d = of_images.shape
    starts = torch.arange(B, device=indices.device)[:, None] * N
    # As a look-up this is several times faster than gather with an expanded index.
    return F.embedding(indices + starts, of_images.reshape(B * N, d))


def _queries(regions: Tensor, query: Query | None) -> Tensor:
    return full_precision(regions if query is None else query(regions))


def _likeness(queries: Tensor, others: Tensor) -> Tensor:
    return queries @ others.mT / math.sqrt(queries.shape[-1])
