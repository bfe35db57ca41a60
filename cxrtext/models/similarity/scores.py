"""Image–sentence similarity from region–sentence scores, by name."""

from functools import partial
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor

from cxrtext.models.similarity.bags import Query, non_local_at, non_local_of
from cxrtext.models.similarity.regions import (
    check_lam,
    full_precision,
    in_tiles,
    lse_of_scaled,
    region_scores,
    without_autocast,
)

SimilarityName = Literal["global", "max", "lse", "nl", "lse+nl"]
SIMILARITIES: tuple[str, ...] = get_args(SimilarityName)
"""The names that :func:`similarity` knows."""


def lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Query | None = None) -> Tensor:
    """LSE+NL, ``(s_LSE + s_NL) / 2``, without γ²."""
    check_lam(lam)
    return in_tiles(partial(_lse_nl, lam=lam, query=query), [regions], texts)


def lse_nl_of_bags(regions: Tensor, bags: Tensor, texts: Tensor, lam: float) -> Tensor:
    """:func:`lse_nl` with the bags at hand, as an index keeps them."""
    check_lam(lam)
    return in_tiles(partial(_lse_nl_of_bags, lam=lam), [regions, bags], texts)


def similarity(
    name: str, regions: Tensor, texts: Tensor, lam: float, query: Query | None = None
) -> Tensor:
    """Score every sentence against every image with one of :data:`SIMILARITIES`.

    "global" is that of the mean region, "max" of the best one.
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
    raise ValueError(f"no similarity '{name}'; there are {', '.join(SIMILARITIES)}")


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
