"""Image–sentence similarity from region–sentence scores.

``regions`` is [B, N, D], unit vectors; ``texts`` is [S, D], unit vectors.  Scores come as [S, B]:
sentences in rows, images in columns, in [−1, 1] before γ².
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

Query = Callable[[Tensor], Tensor]
"""A map of regions [..., D] to queries [..., d]."""

Aggregator = Literal["global", "max", "lse", "nl", "lse+nl"]
AGGREGATORS: tuple[str, ...] = get_args(Aggregator)
"""The names that :func:`similarity` knows."""


def region_scores(regions: Tensor, texts: Tensor) -> Tensor:
    """Score every region against every sentence.

    Args:
        regions: [B, N, D].
        texts: [S, D].

    Returns:
        [S, B, N], the grounding maps, in [−1, 1].
    """
    B, N, D = regions.shape
    return (texts @ regions.reshape(B * N, D).T).reshape(texts.shape[0], B, N)


def lse(region_scores: Tensor, lam: float) -> Tensor:
    """Soft maximum over regions, ``(1/λ) log( (1/N) Σ_n exp(λ h_n) )``.

    Args:
        region_scores: [..., N].
        lam: λ, above 0; large is nearer the maximum, small nearer the mean.

    Returns:
        [...], between the mean and the maximum of the regions.

    Raises:
        ValueError: ``lam`` is not above 0.

    Source: METHOD section 3.
    """
    if not lam > 0:
        raise ValueError(f"lam must be above 0, got {lam}")
    return (torch.logsumexp(lam * region_scores, dim=-1) - math.log(region_scores.shape[-1])) / lam


def non_local_bags(regions: Tensor, query: Query | None = None) -> Tensor:
    """The bag ``r̄_c`` of each region c: all regions, weighted by their likeness to c.

    ``w_n = softmax_n( ⟨q_n, q_c⟩ / √d )``, ``r̄_c = normalise( Σ_n w_n r_n )``.  Bags depend on the
    image alone and are computed once an image, not once an image–sentence pair.

    Args:
        regions: [..., N, D].
        query: The query map; None is q = r.

    Returns:
        [..., N, D], unit vectors, in the order of the critical region.

    Source: METHOD section 3, on the non-local aggregator of dual-stream MIL (Li et al. 2021).
    """
    queries = regions if query is None else query(regions)
    weights = F.softmax(queries @ queries.mT / math.sqrt(queries.shape[-1]), dim=-1)  # [..., c, n]
    return F.normalize(weights @ regions, dim=-1)


def non_local(scores: Tensor, bags: Tensor, texts: Tensor) -> Tensor:
    """Score of the bag of each pair's critical region, ``⟨r̄_c, t⟩`` with ``c = argmax_n h_n``.

    Args:
        scores: Region–sentence scores h, [S, B, N].
        bags: [B, N, D], from :func:`non_local_bags`.
        texts: [S, D].

    Returns:
        [S, B], in [−1, 1].
    """
    critical = scores.argmax(dim=-1, keepdim=True)
    return region_scores(bags, texts).gather(-1, critical).squeeze(-1)


def lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Query | None = None) -> Tensor:
    """LSE+NL, ``(s_LSE + s_NL) / 2``, without γ².

    Args:
        regions: [B, N, D], unit vectors.
        texts: [S, D], unit vectors.
        lam: λ of the soft maximum.
        query: The query map of the bags; None is q = r.

    Returns:
        [S, B], in [−1, 1].

    Source: METHOD section 3.
    """
    return lse_nl_of_bags(regions, non_local_bags(regions, query), texts, lam)


def lse_nl_of_bags(regions: Tensor, bags: Tensor, texts: Tensor, lam: float) -> Tensor:
    """:func:`lse_nl` with the bags at hand, as an index keeps them."""
    scores = region_scores(regions, texts)
    return (lse(scores, lam) + non_local(scores, bags, texts)) / 2


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
        ValueError: There is no such aggregator.
    """
    match name:
        case "global":
            return texts @ F.normalize(regions.mean(dim=1), dim=-1).T
        case "max":
            return region_scores(regions, texts).amax(dim=-1)
        case "lse":
            return lse(region_scores(regions, texts), lam)
        case "nl":
            bags = non_local_bags(regions, query)
            return non_local(region_scores(regions, texts), bags, texts)
        case "lse+nl":
            return lse_nl(regions, texts, lam, query)
    raise ValueError(f"no aggregator '{name}'; there are {', '.join(AGGREGATORS)}")
