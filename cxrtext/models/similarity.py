"""Image–sentence similarity from region–sentence scores.

``regions`` is [B, N, D], unit vectors; ``texts`` is [S, D], unit vectors.  Scores come as [S, B]:
sentences in rows, images in columns, in [−1, 1] before γ².  They are computed in float32 at least,
also where half precision comes in or autocast is on: in bfloat16 many regions tie for the critical
one.  Of equal regions the first is critical.  Large matrices are computed in tiles
(:mod:`cxrtext.models.similarity_tiles`), with the same result.
"""

from functools import partial
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor

from cxrtext.models.similarity_bags import (
    Query,
    attention_entropy,
    non_local,
    non_local_at,
    non_local_bags,
    non_local_of,
)
from cxrtext.models.similarity_regions import (
    check_lam,
    full_precision,
    lse,
    lse_of_scaled,
    region_scores,
    without_autocast,
)
from cxrtext.models.similarity_tiles import in_tiles

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Query",
    "attention_entropy",
    "lse",
    "lse_nl",
    "lse_nl_of_bags",
    "non_local",
    "non_local_bags",
    "region_scores",
    "similarity",
]

Aggregator = Literal["global", "max", "lse", "nl", "lse+nl"]
AGGREGATORS: tuple[str, ...] = get_args(Aggregator)
"""The names that :func:`similarity` knows."""


def lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Query | None = None) -> Tensor:
    """LSE+NL, ``(s_LSE + s_NL) / 2``, without γ².

    Args:
        regions: [B, N, D], unit vectors.
        texts: [S, D], unit vectors.
        lam: λ of the soft maximum.
        query: The query map of the bags; None is q = r.

    Returns:
        [S, B], in [−1, 1].

    Raises:
        ValueError: ``lam`` is not above 0.

    Source: METHOD section 3.
    """
    check_lam(lam)
    return in_tiles(partial(_lse_nl, lam=lam, query=query), [regions], texts)


def lse_nl_of_bags(regions: Tensor, bags: Tensor, texts: Tensor, lam: float) -> Tensor:
    """:func:`lse_nl` with the bags at hand, as an index keeps them."""
    check_lam(lam)
    return in_tiles(partial(_lse_nl_of_bags, lam=lam), [regions, bags], texts)


def similarity(
    name: str, regions: Tensor, texts: Tensor, lam: float, query: Query | None = None
) -> Tensor:
    """Score every sentence against every image with one of :data:`AGGREGATORS`.

    Args:
        name: "global" (mean region), "max", "lse", "nl" or "lse+nl".
        regions: [B, N, D], unit vectors.
        texts: [S, D], unit vectors.
        lam: λ of the soft maximum.
        query: The query map of the bags; None is q = r.

    Returns:
        [S, B], in [−1, 1].

    Raises:
        ValueError: There is no such aggregator, or ``lam`` is not above 0.
    """
    match name:
        case "global":
            return _global(regions, texts)
        case "max":
            return in_tiles(_max, [regions], texts)
        case "lse":
            check_lam(lam)
            return in_tiles(partial(_lse, lam=lam), [regions], texts)
        case "nl":
            return in_tiles(partial(_nl, query=query), [regions], texts)
        case "lse+nl":
            return lse_nl(regions, texts, lam, query)
    raise ValueError(f"no aggregator '{name}'; there are {', '.join(AGGREGATORS)}")


def _global(regions: Tensor, texts: Tensor) -> Tensor:
    with without_autocast(regions):
        return full_precision(texts) @ F.normalize(full_precision(regions).mean(dim=1), dim=-1).T


def _max(regions: Tensor, texts: Tensor) -> Tensor:
    scores = region_scores(regions, texts)
    # Unlike amax, which shares the gradient among equal regions.
    return scores.gather(-1, scores.argmax(dim=-1, keepdim=True)).squeeze(-1)


def _lse(regions: Tensor, texts: Tensor, lam: float) -> Tensor:
    return lse_of_scaled(region_scores(regions, texts).mul_(lam), lam)


def _nl(regions: Tensor, texts: Tensor, query: Query | None) -> Tensor:
    critical = region_scores(regions, texts).argmax(dim=-1)
    return non_local_of(critical, regions, texts, query)


def _lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Query | None) -> Tensor:
    scores = region_scores(regions, texts)
    critical = scores.argmax(dim=-1)
    # In place: no second [S, B, N] is kept for the backward pass.
    soft = lse_of_scaled(scores.mul_(lam), lam)
    return (soft + non_local_of(critical, regions, texts, query)) / 2


def _lse_nl_of_bags(regions: Tensor, bags: Tensor, texts: Tensor, lam: float) -> Tensor:
    scores = region_scores(regions, texts)
    critical = scores.argmax(dim=-1)
    soft = lse_of_scaled(scores.mul_(lam), lam)
    return (soft + non_local_at(critical, bags, texts)) / 2
