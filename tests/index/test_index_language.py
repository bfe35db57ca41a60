"""Scores at inducing sentences, and what they say of other sentences."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.index.features.candidates import Rotation
from cxrtext.index.features.language import (
    INDUCING_POINTS,
    Language,
    choose_inducing_points,
)
from cxrtext.index.features.scoring import image_rows
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import pack, unpack


def sentences_near(centers: Tensor, count: int, spread: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    owner = torch.randint(len(centers), (count,), generator=generator)
    noise = torch.randn(count, centers.shape[1], generator=generator)
    return F.normalize(centers[owner] + spread * noise / centers.shape[1] ** 0.5, dim=-1)


@pytest.fixture
def known() -> Tensor:
    centers = F.normalize(torch.randn(12, 16, generator=torch.Generator().manual_seed(4)), dim=-1)
    return sentences_near(centers, 500, 0.3)


def test_inducing_points_are_unit_vectors_and_few_sentences_are_all_of_them(known: Tensor) -> None:
    points = choose_inducing_points(known)
    assert points.shape == (INDUCING_POINTS, 16)
    assert torch.allclose(points.norm(dim=-1), torch.ones(INDUCING_POINTS))
    twice = torch.cat([known[:5], known[:5]])
    assert torch.allclose(
        choose_inducing_points(twice).sort(dim=0).values, known[:5].sort(dim=0).values
    )


def test_the_same_sentences_give_the_same_language_through_a_catalogue(known: Tensor) -> None:
    language = Language.of_sentences(known)
    again = Language.of_meta({**Language.of_sentences(known).as_meta(), "dimension": "16"})
    assert torch.equal(language.inducing, again.inducing)
    assert torch.equal(language.basis, again.basis)


def test_weights_rank_images_by_sentences_that_are_no_inducing_points(known: Tensor) -> None:
    generator = torch.Generator().manual_seed(1)
    regions = F.normalize(torch.randn(60, 9, 16, generator=generator), dim=-1)

    def soft_maxima(texts: Tensor) -> Tensor:
        return torch.logsumexp(5 * regions @ texts.T, dim=1) / 5  # [images, S]

    language = Language.of_sentences(known[:400])
    held_out = known[400:]
    found = soft_maxima(language.inducing) @ language.weights(held_out).T
    truth = soft_maxima(held_out)
    pairs = zip(found.T, truth.T, strict=True)
    likeness = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in pairs]
    assert min(likeness) > 0.8
    assert sum(likeness) / len(likeness) > 0.95
    # The weights of an inducing point are nearly its own.
    own = language.weights(language.inducing)
    assert float((own - torch.eye(INDUCING_POINTS)).abs().max()) < 0.1


def test_turned_profiles_keep_the_order_of_products() -> None:
    generator = np.random.default_rng(0)
    low = generator.normal(size=(500, 5)).astype(np.float32)
    profiles = low @ generator.normal(size=(5, 40)).astype(np.float32) + 3
    weights = generator.normal(size=40).astype(np.float32)
    rotation = Rotation.of_dict(Rotation.of(profiles).as_dict())
    vectors, query = rotation.vectors(profiles), rotation.query(weights)
    far = ((vectors - query) ** 2).sum(axis=1)
    assert np.array_equal(np.argsort(far)[:50], np.argsort(-(profiles @ weights))[:50])


@pytest.mark.parametrize("aggregator", ["lse+nl", "lse", "nl", "max", "global"])
@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_profiles_are_the_models_scores(checkpoint: Path, aggregator: str, storage: str) -> None:
    model: ImageTextModel = load_model(checkpoint)
    model.spec = replace(model.spec, aggregator=aggregator)
    D = model.spec.dimension
    regions = F.normalize(torch.randn(6, 16, D, generator=torch.Generator().manual_seed(2)), dim=-1)
    known = F.normalize(torch.randn(20, D, generator=torch.Generator().manual_seed(3)), dim=-1)
    language = Language.of_sentences(known)
    packed = pack(regions, storage)
    rows, _ = image_rows(model, packed, language)
    truth = model.scores(unpack(packed), language.inducing).T
    assert torch.allclose(torch.from_numpy(rows["profiles"]).float(), truth, atol=1e-3)
