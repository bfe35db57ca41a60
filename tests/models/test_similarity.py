import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cxrtext.models.similarity as forms
from cxrtext.models.similarity import (
    SIMILARITIES,
    LinearQuery,
    build_query,
    lse,
    lse_nl,
    lse_nl_of_bags,
    non_local_bags,
    similarity,
)
from tests.grids import grid


def unit(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*shape, generator=generator, dtype=dtype), dim=-1)


def test_no_tensor_of_all_pairs_regions_and_dimensions_is_made() -> None:
    """[S, B, N, D] would take 32 GiB here."""
    regions, texts = unit(64, 64, 1024, dtype=torch.float32), unit(2048, 1024, dtype=torch.float32)
    assert lse_nl(regions, texts, 10.0).shape == (2048, 64)


def test_wrong_arguments() -> None:
    regions, texts = unit(1, 2, 3), unit(1, 3)
    for lam in (0.0, -1.0):
        with pytest.raises(ValueError, match="lam"):
            lse(torch.zeros(2), lam)
        for name in ("lse", "lse+nl"):
            with pytest.raises(ValueError, match="lam"):
                similarity(name, regions, texts, lam)
    with pytest.raises(ValueError, match="lse\\+nl"):
        similarity("mean", regions, texts, 1.0)


@torch.no_grad()
def loop(
    name: str, regions: Tensor, texts: Tensor, lam: float, query: Callable[[Tensor], Tensor] | None
) -> Tensor:
    """The definition, pair by pair."""
    result = torch.empty(len(texts), len(regions), dtype=torch.float64)
    for i, t in enumerate(texts):
        for j, image in enumerate(regions):
            h, q = image @ t, image if query is None else query(image)
            w = torch.softmax(q @ q[h.argmax()] / math.sqrt(q.shape[1]), dim=0)
            soft = (lam * h).exp().mean().log() / lam
            non_local = F.cosine_similarity(w @ image, t, dim=0)
            result[i, j] = {
                "global": F.cosine_similarity(image.mean(dim=0), t, dim=0),
                "max": h.max(),
                "lse": soft,
                "nl": non_local,
                "lse+nl": (soft + non_local) / 2,
            }[name]
    return result


Tiles = Callable[..., None]


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> Tiles:
    """Sets the limits so low that everything is computed in tiles of so many bytes; not of None.

    Tiles are kept, or computed again in the backward pass.
    """

    def set_limits(tile: int | None, kept: int = 0) -> None:
        if tile is not None:
            monkeypatch.setattr(forms, "PLAIN_BYTES", 0)
            monkeypatch.setattr(forms, "KEPT_BYTES", kept)
            monkeypatch.setattr(forms, "TILE_BYTES", tile)

    return set_limits


def query_of(
    name: str, dimension: int, sharpness: float | None = None, dtype: torch.dtype = torch.float64
) -> Any:
    """A query map, or None for "none"; a linear one with ``⟨q, q⟩ / √D`` of unit vectors."""
    torch.manual_seed(3)
    if name == "of another size":
        return nn.Linear(dimension, dimension + 2, bias=False).to(dtype)
    query = build_query(name, dimension)
    if sharpness is not None and isinstance(query, nn.Linear):
        query.weight.data *= math.sqrt(sharpness * math.sqrt(dimension))
    return None if query is None else query.to(dtype)


@grid(
    name=SIMILARITIES,
    query_name=["linear", "none", "of another size"],
    # Fewer and more sentences than regions, and of these more and fewer than dimensions.
    sizes=[(3, 6), (9, 6), (9, 4)],
    tile=[None, 1, 6 * 8 * 2, 6 * 8 * 7],
)
def test_every_form_equals_the_loop(
    name: str, query_name: str, sizes: tuple[int, int], tile: int | None, tiles: Tiles
) -> None:
    tiles(tile)
    S, N = sizes
    regions, texts, query = unit(5, N, 5), unit(S, 5, seed=1), query_of(query_name, 5, 6.0)
    expected = loop(name, regions, texts, 5.0, query)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            scores = similarity(name, regions, texts, 5.0, query)
            torch.testing.assert_close(scores, expected, rtol=0, atol=1e-13)
            if name == "lse+nl":
                bags = non_local_bags(regions, query)
                of_bags = lse_nl_of_bags(regions, bags, texts, 5.0)
                torch.testing.assert_close(of_bags, expected, rtol=0, atol=1e-13)


def gradients(
    name: str, regions: Tensor, texts: Tensor, query: nn.Module | None
) -> tuple[Tensor, ...]:
    inputs = [regions.clone().requires_grad_(), texts.clone().requires_grad_()]
    scores = similarity(name, inputs[0], inputs[1], 10.0, query)
    parameters = list(query.parameters()) if query is not None and "nl" in name else []
    return torch.autograd.grad((scores**2).sum(), [*inputs, *parameters])


@grid(
    name=["max", "lse", "nl", "lse+nl"],
    query_name=["linear", "none"],
    S=[5, 40],
    dtype=[torch.float32, torch.float64],
)
def test_gradients_in_tiles_are_those_of_the_plain_form(
    name: str, query_name: str, S: int, dtype: torch.dtype, tiles: Tiles
) -> None:
    query = query_of(query_name, 16, dtype=dtype)
    regions, texts = unit(9, 20, 16, dtype=dtype), unit(S, 16, seed=1, dtype=dtype)
    plain = gradients(name, regions, texts, query)
    close = 1e-12 if dtype == torch.float64 else 2e-6
    for kept in (0, 2**20):
        tiles(20 * 4 * 16, kept)
        for one, other in zip(plain, gradients(name, regions, texts, query), strict=True):
            assert one.dtype == other.dtype == dtype
            assert float((one - other).norm()) <= close * (1 + float(one.norm()))


@grid(1, name=SIMILARITIES, S=[2, 5], tile=[None, 1])
def test_gradcheck(name: str, S: int, tile: int | None, tiles: Tiles) -> None:
    tiles(tile)
    weight = torch.eye(3, dtype=torch.float64) * 2
    inputs = [x.requires_grad_() for x in (unit(3, 4, 3), unit(S, 3, seed=1), weight)]

    def scores(regions: Tensor, texts: Tensor, weight: Tensor) -> Tensor:
        return similarity(name, regions, texts, 4.0, lambda r: r @ weight.T)

    assert torch.autograd.gradcheck(scores, inputs)


@pytest.mark.parametrize("S", [1, 8])
@pytest.mark.parametrize("tile", [None, 1])
def test_the_first_of_equal_regions_is_critical(S: int, tile: int | None, tiles: Tiles) -> None:
    tiles(tile)
    text = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).expand(S, 4)
    low, a = [0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]
    b = [0.5, -0.5, -0.5, 0.5]  # scores as a does, and is less like the other regions
    regions = torch.tensor([[low, a, b, low], [low, b, a, low]]).requires_grad_()
    first = torch.tensor([1, 1])
    expected = non_local_bags(regions, lambda r: 4 * r)[[0, 1], first] @ text[0]
    scores = similarity("nl", regions, text, 1.0, lambda r: 4 * r)
    torch.testing.assert_close(scores, expected.expand(S, 2))
    assert abs(float((expected[0] - expected[1]).detach())) > 0.005  # the choice matters here
    (grad,) = torch.autograd.grad(similarity("max", regions, text, 1.0).sum(), regions)
    assert torch.equal(grad.abs().sum(-1) > 0, F.one_hot(first, 4).bool())


@pytest.mark.parametrize("tile", [None, 1])
def test_autocast_and_half_precision_score_in_float32(tile: int | None, tiles: Tiles) -> None:
    tiles(tile)
    regions, texts = unit(4, 9, 8, dtype=torch.float32), unit(5, 8, seed=1, dtype=torch.float32)
    exact = lse_nl(regions, texts, 10.0)
    leaf = regions.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = lse_nl(leaf, texts, 10.0)
        assert torch.equal(scores, exact)
        mapped = lse_nl(leaf, texts, 10.0, LinearQuery(8))
        assert mapped.dtype == torch.float32
        for name in SIMILARITIES:
            assert similarity(name, leaf, texts, 10.0).dtype == torch.float32
    (scores.sum() + mapped.sum()).backward()
    assert leaf.grad is not None
    assert bool(leaf.grad.isfinite().all())
    half = lse_nl(regions.half(), texts.half(), 10.0)
    assert torch.equal(half, lse_nl(regions.half().float(), texts.half().float(), 10.0))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_no_images_or_no_sentences(name: str, shape: tuple[int, int]) -> None:
    S, B = shape
    assert similarity(name, unit(B, 4, 5), unit(S, 5), 1.0).shape == shape


def test_opposite_regions_give_zero_and_a_finite_gradient() -> None:
    r = unit(1, 1, 4)
    regions = torch.cat([r, -r], dim=1).requires_grad_()
    scores = similarity("nl", regions, unit(1, 4, seed=1), 1.0, torch.zeros_like)
    assert float(scores.detach()) == 0
    (grad,) = torch.autograd.grad(scores.sum(), regions)
    assert bool(grad.isfinite().all())


def test_what_autograd_keeps_does_not_grow_with_pairs_in_tiles(tiles: Tiles) -> None:
    def kept(images: int) -> int:
        sizes: dict[int, int] = {}

        def pack(x: Tensor) -> Tensor:
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        regions = unit(images, 32, 8, dtype=torch.float32).requires_grad_()
        texts = unit(512, 8, dtype=torch.float32).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            scores = lse_nl(regions, texts, 10.0)
        assert scores.requires_grad
        return sum(sizes.values())

    pairs = 64 * 512 * 32 * 4
    assert kept(64) > pairs
    tiles(2**16)
    assert kept(64) < pairs / 10


def test_query_maps() -> None:
    regions = unit(2, 3, 7)
    torch.testing.assert_close(query_of("linear", 7)(regions), regions)
    assert build_query("none", 7) is None
    with pytest.raises(ValueError, match="linear, none"):
        build_query("eye", 7)
