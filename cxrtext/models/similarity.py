"""Image–sentence similarity from region–sentence scores.

``regions`` is [B, N, D] and ``texts`` [S, D], both unit vectors; ``lam`` is λ, the sharpness of the
soft maximum; ``query`` is the query map of the bags, None for q = r.  Scores are [S, B], sentences
in rows and images in columns, in [−1, 1] before γ².  They are computed in float32 or better, also
for half-precision input and under autocast: in bfloat16 many regions would tie for the critical
one.  Of equal regions, the first is critical.  Large matrices are computed in tiles, with the same
result.  A λ that is not above 0 raises ``ValueError``.

Source: Wang et al. 2023, LSE+NL; DECISIONS.md.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

PLAIN_BYTES = 32 * 2**20  # largest [S, B, N] of region scores without tiles, with gradients
KEPT_BYTES = 512 * 2**20
"""Largest [S, B, N] that autograd may keep for the backward pass; above it, the backward pass
computes tiles again."""

TILE_BYTES = 4 * 2**20  # size of a tile's region scores on a CPU, so that they stay in its cache
DEVICE_TILE_BYTES = 64 * 2**20
"""The same on other devices, which are faster with few large products."""
Score = Callable[..., Tensor]
"""Gives [s, b] for tensors of images [b, N, ...] and texts [s, D]."""


def region_scores(regions: Tensor, texts: Tensor) -> Tensor:
    """Scores of every region with every sentence: the grounding maps [S, B, N], in [−1, 1]."""
    B, N, D = regions.shape
    with without_autocast(regions):
        products = full_precision(texts) @ full_precision(regions).reshape(B * N, D).T
        return products.view(len(texts), B, N)


def lse(region_scores: Tensor, lam: float) -> Tensor:
    """Soft maximum over regions, ``(1/λ) log( (1/N) Σ_n exp(λ h_n) )``.

    For scores [..., N]; the result lies between mean and maximum, nearer the maximum for a larger
    λ, which is above 0.
    """
    check_lam(lam)
    return lse_of_scaled(lam * region_scores, lam)


def lse_of_scaled(scaled: Tensor, lam: float) -> Tensor:
    """:func:`lse` of scores [..., N] already multiplied by λ."""
    return (torch.logsumexp(scaled, dim=-1) - math.log(scaled.shape[-1])) / lam


def check_lam(lam: float) -> None:
    """Raise ``ValueError`` unless λ is above 0."""
    if not lam > 0:
        raise ValueError(f"lam must be above 0, got {lam}")


def full_precision(tensor: Tensor) -> Tensor:
    """Half precision converted to float32; float32 and float64 unchanged."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def without_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off for a tensor's device, if it is on."""
    kind = tensor.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def in_tiles(score: Score, images: Sequence[Tensor], texts: Tensor) -> Tensor:
    """Apply a function of images and sentences in tiles, if they are many.

    A score only depends on its own image and sentence, so tiles only change the memory.  With
    gradients, and with region scores above ``KEPT_BYTES`` in all, a tile keeps only its inputs, and
    the backward pass computes it again: this takes about ``TILE_BYTES`` times a small number,
    besides the inputs, the scores and their gradients.  ``images`` have one row per image; the
    first is [B, N, D].
    """
    first = images[0]
    sentence_bytes = first.shape[1] * max(first.element_size(), 4)  # of one image's region scores
    keeps = torch.is_grad_enabled()  # the query map may learn even if the embeddings do not
    tile_bytes = TILE_BYTES if first.device.type == "cpu" else DEVICE_TILE_BYTES
    size = len(first) * len(texts) * sentence_bytes
    if size <= (PLAIN_BYTES if keeps else tile_bytes):
        return score(*images, texts)
    most_sentences = max(1, tile_bytes // sentence_bytes)
    most_images = max(1, most_sentences // max(1, len(texts)))
    # Splits, not slices: gradients of splits are joined once, not added up in full size.
    groups = list(zip(*(x.split(most_images) for x in images), strict=True))
    tile = partial(checkpoint, score, use_reentrant=False) if keeps and size > KEPT_BYTES else score
    rows = [
        torch.cat([tile(*group, part) for group in groups], dim=1)
        for part in texts.split(most_sentences)
    ]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


class LinearQuery(nn.Linear):
    """``q = W r``, which starts as q = r.

    Then ``⟨q_n, q_c⟩ / √D`` is at most ``1 / √D``, so every bag is close to the mean region.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension, dimension, bias=False)
        nn.init.eye_(self.weight)


def build_query(name: str, dimension: int) -> nn.Module | None:
    """The query map "linear", from regions [..., D] to queries [..., D]; None for "none"."""
    if name not in ("linear", "none"):
        raise ValueError(f"no query map '{name}'; there are linear, none")
    return LinearQuery(dimension) if name == "linear" else None


Query = Callable[[Tensor], Tensor]
"""A map from regions [..., D] to queries [..., d], each region by itself."""
_SMALLEST_NORM = 1e-12


def non_local_bags(regions: Tensor, query: Query | None = None) -> Tensor:
    """The bag ``r̄_c`` of each region c: all regions, weighted by their similarity to c.

    ``w_n = softmax_n( ⟨q_n, q_c⟩ / √d )``, ``r̄_c = normalize( Σ_n w_n r_n )``.  Bags only depend on
    the image and are computed once per image, not per image–sentence pair.

    Regions [..., N, D] give unit vectors [..., N, D], in the order of the critical region.
    """
    queries = _queries(regions, query)
    with without_autocast(regions):
        weights = F.softmax(_likeness(queries, queries), dim=-1)  # [..., c, n]
        return F.normalize(weights @ full_precision(regions), dim=-1, eps=_SMALLEST_NORM)


def non_local(scores: Tensor, bags: Tensor, texts: Tensor) -> Tensor:
    """Scores [S, B] of the bag of each pair's critical region, ``⟨r̄_c, t⟩``, ``c = argmax_n h_n``.

    ``scores`` are region–sentence scores h, [S, B, N].
    """
    return non_local_at(scores.argmax(dim=-1), bags, texts)


def non_local_of(critical: Tensor, regions: Tensor, texts: Tensor, query: Query | None) -> Tensor:
    """NL from critical regions [S, B]: with S bags per image if S < N, else with N."""
    if len(texts) < regions.shape[1]:
        return _non_local_of_pairs(critical, regions, texts, query)
    return non_local_at(critical, non_local_bags(regions, query), texts)


def _non_local_of_pairs(
    critical: Tensor, regions: Tensor, texts: Tensor, query: Query | None
) -> Tensor:
    """NL with fewer sentences than regions: only the S bags of the critical regions per image."""
    queries = _queries(regions, query)
    with without_autocast(regions):
        of_critical = _rows(queries, critical.T)  # [B, S, d]
        weights = F.softmax(_likeness(of_critical, queries), dim=-1)  # [B, S, N]
        bags = weights @ full_precision(regions)  # [B, S, D], not yet unit vectors
        norms = torch.linalg.vector_norm(bags, dim=-1).clamp_min(_SMALLEST_NORM)
        scores: Tensor = torch.linalg.vecdot(bags, full_precision(texts)) / norms
        return scores.T


def non_local_at(critical: Tensor, bags: Tensor, texts: Tensor) -> Tensor:
    """``⟨r̄_c, t⟩`` for critical regions [S, B], by the smaller of two intermediate results."""
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
    # A look-up is several times faster than gather with an expanded index.
    return F.embedding(indices + starts, of_images.reshape(B * N, d))


def _queries(regions: Tensor, query: Query | None) -> Tensor:
    return full_precision(regions if query is None else query(regions))


def _likeness(queries: Tensor, others: Tensor) -> Tensor:
    return queries @ others.mT / math.sqrt(queries.shape[-1])


SIMILARITIES = ("global", "max", "lse", "nl", "lse+nl")  # names for `similarity`


def lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Query | None = None) -> Tensor:
    """LSE+NL, ``(s_LSE + s_NL) / 2``, without γ²."""
    check_lam(lam)
    return in_tiles(partial(_lse_nl, lam=lam, query=query), [regions], texts)


def lse_nl_of_bags(regions: Tensor, bags: Tensor, texts: Tensor, lam: float) -> Tensor:
    """:func:`lse_nl` from bags computed before, as in an index."""
    check_lam(lam)
    return in_tiles(partial(_lse_nl_of_bags, lam=lam), [regions, bags], texts)


def similarity(
    name: str, regions: Tensor, texts: Tensor, lam: float, query: Query | None = None
) -> Tensor:
    """Scores of every sentence with every image by one of :data:`SIMILARITIES`.

    "global" scores the mean region, "max" the best one.
    """
    match name:
        case "global":
            with without_autocast(regions):
                mean = F.normalize(full_precision(regions).mean(dim=1), dim=-1)
                return full_precision(texts) @ mean.T
        case "max":
            return in_tiles(_max, [regions], texts)
        case "lse":
            check_lam(lam)
            return in_tiles(
                lambda r, t: lse_of_scaled(region_scores(r, t).mul_(lam), lam), [regions], texts
            )
        case "nl":
            return in_tiles(partial(_nl, query=query), [regions], texts)
        case "lse+nl":
            return lse_nl(regions, texts, lam, query)
    raise ValueError(f"no similarity '{name}'; there are {', '.join(SIMILARITIES)}")


def _max(regions: Tensor, texts: Tensor) -> Tensor:
    scores = region_scores(regions, texts)
    # Not amax, which shares the gradient among equal regions.
    return scores.gather(-1, scores.argmax(dim=-1, keepdim=True)).squeeze(-1)


def _nl(regions: Tensor, texts: Tensor, query: Query | None) -> Tensor:
    return non_local_of(region_scores(regions, texts).argmax(dim=-1), regions, texts, query)


def _lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Query | None) -> Tensor:
    critical, soft = _critical_and_lse(regions, texts, lam)
    return (soft + non_local_of(critical, regions, texts, query)) / 2


def _lse_nl_of_bags(regions: Tensor, bags: Tensor, texts: Tensor, lam: float) -> Tensor:
    critical, soft = _critical_and_lse(regions, texts, lam)
    return (soft + non_local_at(critical, bags, texts)) / 2


def _critical_and_lse(regions: Tensor, texts: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    scores = region_scores(regions, texts)
    # In place, so that the backward pass keeps no second [S, B, N].
    return scores.argmax(dim=-1), lse_of_scaled(scores.mul_(lam), lam)
