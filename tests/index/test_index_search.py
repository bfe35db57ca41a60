"""Every search against a scan of all images by the model's own scores."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from cxrtext.index import Archive, FoundImages, Query, open_index
from cxrtext.index.features.bounds import Bounds, residual, sentence_basis, sketch
from cxrtext.index.features.scoring import exact_scores, mean_region
from cxrtext.index.search import ranking
from cxrtext.index.search.hits import FirstOf
from cxrtext.models import ImageTextModel
from cxrtext.models.regions import pack, unpack
from cxrtext.models.similarity import LinearQuery, similarity
from tests.index.conftest import MakeArchive

CASES = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@torch.inference_mode()
def scan(index: Archive, query: Query) -> dict[str, float]:
    state = index.snapshot
    live = np.flatnonzero(state.numbers >= 0)
    regions = unpack(state.arrays["regions"][live])
    score = torch.zeros(len(live))
    if query.texts is not None:
        score = index.model.scores(regions, query.texts).mean(0)
    if query.without is not None:
        score = score - index.model.scores(regions, query.without).amax(0)
    if query.image is not None:
        like = mean_region(regions) @ F.normalize(query.image, dim=-1)
        weight = 1.0 if query.texts is None else query.image_weight
        score = (1 - weight) * score + weight * like
    images = index.catalogue.images(state.numbers[live].tolist())
    return {image.image: float(s) for image, s in zip(images, score, strict=True) if image}


def same(found: FoundImages, scores: dict[str, float], k: int) -> None:
    """Whether hits are the k best of all scores, ties in any order."""
    assert found.exact
    hits = [(hit.image.image, hit.score) for hit in found.hits]
    best = sorted(scores.values(), reverse=True)[:k]
    assert [score for _, score in hits] == pytest.approx(best, abs=1e-5)
    assert dict(hits) == pytest.approx({name: scores[name] for name, _ in hits}, abs=1e-5)
    assert len(dict(hits)) == len(hits)


@pytest.fixture(scope="module")
def opened(archive: Path, model: ImageTextModel) -> Archive:
    return open_index(archive, model)


def query_like(model: ImageTextModel, seed: int, strange: float) -> Query:
    return Query(texts=text_like(model, seed, strange)[:1])


def text_like(model: ImageTextModel, seed: int, strange: float) -> Tensor:
    """A sentence's vector, turned away from all sentences as far as is wanted."""
    generator = torch.Generator().manual_seed(seed)
    texts = model.embed_sentences(["Left pleural effusion.", "The lungs are clear."])
    noise = torch.randn(2, texts.shape[1], generator=generator)
    return F.normalize((1 - strange) * texts + strange * F.normalize(noise, dim=-1), dim=-1)


@CASES
@given(
    seed=st.integers(0, 1000),
    strange=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    k=st.integers(1, 40),
    kind=st.sampled_from(["text", "not", "image", "both", "all"]),
)
def test_an_exact_search_is_a_scan(
    opened: Archive, model: ImageTextModel, seed: int, strange: float, k: int, kind: str
) -> None:
    one, other = text_like(model, seed, strange)
    image = opened.snapshot.arrays["means"][seed % opened.images]
    query = Query(
        texts=None if kind == "image" else one[None],
        without=other[None] if kind in ("not", "all") else None,
        image=torch.from_numpy(np.array(image)) if kind in ("image", "both", "all") else None,
        image_weight=0.3,
    )
    same(opened.search(query, k, mode="exact"), scan(opened, query), k)


@CASES
@given(seed=st.integers(0, 1000), age=st.integers(20, 95), rare=st.booleans())
def test_filters_are_applied_inside_the_search(
    opened: Archive, model: ImageTextModel, seed: int, age: int, rare: bool
) -> None:
    query = query_like(model, seed, 0.2)
    where = f"age = {age} and sex = 'F'" if rare else f"age > {age} or sex = 'M'"
    wanted = {
        f"i{i}.png"
        for i in range(1000)
        if ((20 + i % 70 == age and i % 2 == 0) if rare else (20 + i % 70 > age or i % 2 == 1))
    }
    scores = {name: s for name, s in scan(opened, query).items() if name in wanted}
    for mode in ("exact", "fast"):
        found = opened.search(query, 10, where=where, mode=mode)
        assert found.searched == len(wanted)
        assert len(found.hits) == min(10, len(wanted))
        assert {hit.image.image for hit in found.hits} <= wanted
        if mode == "exact":
            same(found, scores, 10)


@patch.multiple("cxrtext.index.features.candidates", EXACT_BYTES=0, SAMPLE=5, DEPTH=100)
@patch("cxrtext.index.search.ranking.DEPTH", 100)
def test_the_fast_search_finds_as_many_as_there_are(
    make_archive: MakeArchive, model: ImageTextModel, tmp_path: Path
) -> None:
    folder = make_archive(tmp_path / "cells", 500)
    query = query_like(model, 3, 0.1)
    with open_index(folder, model) as index:
        structure = index.snapshot.structure
        assert structure is not None
        assert structure.index.nlist == 89
        scores = scan(index, query)
        best = sorted(scores, key=lambda name: -scores[name])[:10]
        found = index.search(query, 10, mode="fast")
        assert not found.exact
        assert len({hit.image.image for hit in found.hits} & set(best)) >= 9
        every = index.search(query, 1000, mode="fast").hits
        assert len({hit.image.image for hit in every}) == 500


def test_fewer_images_are_scored_than_there_are(opened: Archive, model: ImageTextModel) -> None:
    found = opened.search(query_like(model, 0, 0.0), 10, mode="exact")
    assert found.scored < found.searched == 1000


def check_bounds(
    regions: Tensor, bags: Tensor, texts: Tensor, basis: Tensor, name: str, lam: float
) -> None:
    """Whether bounds from sketches lie about the scores of all regions, in double precision."""
    both = torch.stack([sketch(regions, basis), sketch(bags, basis)], dim=1).float()
    low = Bounds(texts, basis, name, lam, upper=False)(both).double()
    high = Bounds(texts, basis, name, lam, upper=True)(both).double()
    h = torch.einsum("bnd,sd->sbn", regions.double(), texts.double())
    mine = torch.einsum("bnd,sd->sbn", bags.double(), texts.double())
    non_local = mine.gather(2, h.argmax(-1, keepdim=True))[..., 0]
    soft = (torch.logsumexp(lam * h, -1) - np.log(9)) / lam
    exact = {"max": h.amax(-1), "lse": soft, "nl": non_local, "lse+nl": (soft + non_local) / 2}
    assert (low <= exact[name]).all()
    assert (exact[name] <= high).all()


@pytest.mark.parametrize("lam", [1.0, 10.0, 400.0])
@pytest.mark.parametrize("name", ["max", "lse", "nl", "lse+nl"])
def test_bounds_hold_at_the_edge_of_rounding(name: str, lam: float) -> None:
    """Regions that score nearly the same, and a λ at which exp(λ h) is not a float32."""
    generator = torch.Generator().manual_seed(1)
    center = F.normalize(torch.randn(400, 1, 12, generator=generator), dim=-1)
    regions = F.normalize(center + 1e-3 * torch.randn(400, 9, 12, generator=generator), dim=-1)
    bags = F.normalize(center + 1e-3 * torch.randn(400, 9, 12, generator=generator), dim=-1)
    basis = sentence_basis(F.normalize(torch.randn(8, 12, generator=generator), dim=-1), 6)
    texts = torch.cat([center[:3, 0], basis.T])
    check_bounds(regions, bags, texts, basis, name, lam)


def test_equal_scores_stand_in_the_order_of_their_places_whenever_they_were_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = np.arange(ranking.FIRST_BLOCK + 1)
    upper = np.where(places == 0, 0.5, 0.9).astype(np.float32)  # the first place is scored last
    monkeypatch.setattr(ranking, "_upper_bounds", lambda *_: upper)
    monkeypatch.setattr(ranking, "_fetched_scores", lambda *given: np.full(len(given[-1]), 0.5))
    snapshot, query = SimpleNamespace(arrays={"regions": None}), SimpleNamespace(has_sentences=0)
    found = ranking.exact_order(snapshot, None, query, places, ranking.Effort())  # type: ignore[arg-type]
    assert [place for _, place in found] == places.tolist()


def test_one_hit_a_patient_a_study_a_picture(
    make_archive: MakeArchive, model: ImageTextModel, tmp_path: Path
) -> None:
    folder = make_archive(tmp_path / "twice", 60)
    make_archive(folder, 60, prefix="again")  # the same pictures once more
    query = query_like(model, 1, 0.1)
    with open_index(folder, model) as index:
        assert index.images == 120
        patients = [h.image.patient_id for h in index.search(query, 100, unique="patient").hits]
        assert sorted(patients) == sorted({f"p{i // 6}" for i in range(60)})
        assert len(index.search(query, 100, unique="study").hits) == 30
        assert len(index.search(query, 100, unique="picture").hits) == 60
        found = index.search(query, 200, exclude_patients=["p0", "p3"])
        assert found.searched == 120 - 24
        assert not {"p0", "p3"} & {hit.image.patient_id for hit in found.hits}


def test_a_picture_of_an_earlier_page_is_not_shown_again() -> None:
    first, pictures = FirstOf("picture"), np.eye(3, 8, dtype=np.float32)
    assert first.of_pictures(pictures[[0, 1, 0]]) == [0, 1]
    assert first.of_pictures(pictures[[1, 2, 0]]) == [1]


@CASES
@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(["max", "lse", "nl", "lse+nl"]),
    m=st.integers(1, 6),
    strange=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_bounds_hold(seed: int, name: str, m: int, strange: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    regions = F.normalize(torch.randn(20, 9, 12, generator=generator), dim=-1)
    bags = F.normalize(regions.mean(1, keepdim=True) + 0.3 * regions, dim=-1)
    known = F.normalize(torch.randn(8, 12, generator=generator), dim=-1)
    basis = sentence_basis(known, m)
    texts = F.normalize(
        (1 - strange) * known[:4] + strange * torch.randn(4, 12, generator=generator), dim=-1
    )
    check_bounds(regions, bags, texts, basis, name, 10.0)


def test_a_basis_is_orthonormal_and_leaves_little_of_its_sentences() -> None:
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(3, 20, generator=generator)
    sentences = F.normalize(torch.randn(200, 3, generator=generator) @ few, dim=-1)
    basis = sentence_basis(sentences)
    assert basis.shape[1] <= 3
    assert torch.allclose(basis.T @ basis, torch.eye(basis.shape[1]), atol=1e-5)
    assert residual(sentences, basis).mean() < 0.021


@pytest.mark.parametrize("name", ["lse", "nl", "lse+nl", "max", "global"])
@pytest.mark.parametrize("query", ["linear", "none"])
def test_scores_are_the_model_s(model: ImageTextModel, name: str, query: str) -> None:
    torch.manual_seed(0)
    made = ImageTextModel(replace(model.spec, aggregator=name, query=query), model.tokenizer).eval()
    if isinstance(made.query, LinearQuery):  # which starts as a multiple of the identity
        torch.nn.init.normal_(made.query.weight)
    regions = F.normalize(torch.randn(7, 16, 16), dim=-1)
    texts = F.normalize(torch.randn(3, 16), dim=-1)
    with torch.inference_mode():
        expected = similarity(name, regions, texts, made.spec.lam, made.query)
    assert torch.allclose(exact_scores(made, regions, texts), expected, atol=1e-5)


def test_eight_bits_cost_little() -> None:
    regions = F.normalize(
        torch.randn(5, 9, 128, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    kept = unpack(pack(regions, "int8"))
    assert pack(regions, "int8").nbytes == 5 * 9 * 130
    assert (kept - regions).norm(dim=-1).max() < 0.02
    assert torch.equal(unpack(pack(regions, "float16")), regions.half().float())


def test_an_index_in_8_bits_ranks_by_what_it_keeps(
    make_archive: MakeArchive, model: ImageTextModel, tmp_path: Path
) -> None:
    folder = make_archive(tmp_path / "int8", 200, storage="int8")
    query = query_like(model, 2, 0.2)
    with open_index(folder, model) as index:
        same(index.search(query, 20, mode="exact"), scan(index, query), 20)
