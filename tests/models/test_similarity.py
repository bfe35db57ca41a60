import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.models.similarity import (
    SIMILARITIES,
    lse,
    lse_nl,
    lse_nl_of_bags,
    non_local_bags,
    similarity,
)


def unit(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*shape, generator=generator, dtype=dtype), dim=-1)


def loop_lse_nl(regions: Tensor, texts: Tensor, lam: float, query: Tensor | None) -> Tensor:
    """The definition, pair by pair and region by region."""
    result = torch.empty(len(texts), len(regions), dtype=torch.float64)
    for i, t in enumerate(texts):
        for j, image in enumerate(regions):
            h = [float(r @ t) for r in image]
            n = len(h)
            s_lse = math.log(sum(math.exp(lam * x) for x in h) / n) / lam
            c = max(range(n), key=lambda m: h[m])
            q = [r if query is None else query @ r for r in image]
            logits = [float(q[m] @ q[c]) / math.sqrt(len(q[c])) for m in range(n)]
            weights = [math.exp(x) for x in logits]
            total = sum(weights)
            bag = sum((w / total * r for w, r in zip(weights, image, strict=True)), 0 * t)
            s_nl = float(bag / bag.norm() @ t)
            result[i, j] = (s_lse + s_nl) / 2
    return result


@pytest.mark.parametrize("mapped", [False, True])
def test_lse_nl_equals_the_loop(mapped: bool) -> None:
    regions, texts = unit(4, 6, 5), unit(3, 5, seed=1)
    matrix = torch.randn(7, 5, dtype=torch.float64) if mapped else None
    query = None if matrix is None else lambda r: r @ matrix.T
    expected = loop_lse_nl(regions, texts, 5.0, matrix)
    assert torch.allclose(lse_nl(regions, texts, 5.0, query), expected, atol=1e-12)
    bags = non_local_bags(regions, query)
    assert torch.allclose(lse_nl_of_bags(regions, bags, texts, 5.0), expected, atol=1e-12)


def test_gradient() -> None:
    regions, texts = unit(2, 4, 3).requires_grad_(), unit(2, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda r, t: lse_nl(r, t, 4.0), (regions, texts))


def test_lse_lies_between_mean_and_maximum_and_tends_to_them() -> None:
    h = unit(3, 4, 9)
    assert (lse(h, 10.0) <= h.amax(-1)).all()
    assert (lse(h, 10.0) >= h.mean(-1)).all()
    assert torch.allclose(lse(h, 1e-6), h.mean(-1), atol=1e-5)
    assert torch.allclose(lse(h, 1e5), h.amax(-1), atol=1e-3)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_aggregator_keeps_the_range_and_gives_one_for_equal_vectors(name: str) -> None:
    texts = unit(5, 8)
    scores = similarity(name, unit(6, 7, 8, seed=1), texts, 10.0)
    assert scores.shape == (5, 6)
    assert float(scores.abs().max()) <= 1 + 1e-9
    same = texts[:1, None].expand(1, 7, 8)
    assert float(similarity(name, same, texts[:1], 10.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_scores_do_not_depend_on_the_batch(name: str) -> None:
    regions, texts = unit(6, 7, 8), unit(5, 8, seed=1)
    whole = similarity(name, regions, texts, 10.0)
    assert torch.allclose(whole[2:4, 1:2], similarity(name, regions[1:2], texts[2:4], 10.0))


def test_no_tensor_of_all_pairs_regions_and_dimensions_is_made() -> None:
    """[S, B, N, D] would take 32 GiB here."""
    regions, texts = unit(64, 64, 1024, dtype=torch.float32), unit(2048, 1024, dtype=torch.float32)
    assert lse_nl(regions, texts, 10.0).shape == (2048, 64)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="lam"):
        lse(torch.zeros(2), 0.0)
    with pytest.raises(ValueError, match="lse\\+nl"):
        similarity("mean", unit(1, 2, 3), unit(1, 3), 1.0)
