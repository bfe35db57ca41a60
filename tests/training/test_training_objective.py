import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext import objectives
from cxrtext.config import kinds_of, load_config, read_objective
from cxrtext.errors import DataError, WorkError
from cxrtext.objectives import kernels
from cxrtext.training import train
from cxrtext.training.objectives.shared.metadata import Clustered, WithKernel
from cxrtext.training.objectives.shared.objective import Direction, Terms, as_objective
from cxrtext.training.objectives.shared.texts import similarity_to_images
from tests.grids import grid
from tests.training.conftest import Facts, known_of
from tests.training.test_training_run import check_stopped_run

GAMMA_SQ = torch.tensor(14.0)
OBJECTIVES = kinds_of("objective")[1]
NAMES = tuple(OBJECTIVES)
WITH_KERNEL = tuple(name for name, one in OBJECTIVES.items() if issubclass(one, WithKernel))


def objective(name: str, **keys: Any) -> Callable[..., Terms]:
    given = {"condition": ("age", "sex"), **keys}
    taken = {key: value for key, value in given.items() if key in OBJECTIVES[name].model_fields}
    made = as_objective(read_objective({"name": name, **taken}))

    def related(scores: Tensor, facts: Facts, *rest: Any) -> Terms:
        gamma_sq, texts, *draws = rest
        known, generator = known_of(made, facts), draws[0] if draws else None
        return made(Direction(scores, facts.image_of, facts.eta, gamma_sq, known, generator, texts))

    return related


def unit(rows: int, generator: torch.Generator, size: int = 16) -> Tensor:
    return F.normalize(torch.randn(rows, size, generator=generator), dim=1)


def batch(
    name: str, images: int = 8, extra: tuple[int, ...] = (2, 2, 5, 0)
) -> tuple[Tensor, Facts, Tensor, Tensor]:
    """Scores [S, B] that ask for gradients, pairs, texts and the images' vectors."""
    generator = torch.Generator().manual_seed(3)
    image_of = torch.tensor([*range(images), *extra])
    texts, pictures = unit(len(image_of), generator), unit(images, generator)
    scores = (GAMMA_SQ * texts @ pictures.T).requires_grad_()
    metadata = torch.stack([torch.randn(images, generator=generator), torch.arange(images) % 2], 1)
    if issubclass(OBJECTIVES[name], Clustered):
        metadata = metadata[:, 1:]
    pairs = Facts(
        image_of=image_of,
        eta=torch.rand(len(image_of), generator=generator) * 0.2,
        labels=torch.rand(images, 5, generator=generator) < 0.2,
        vectors=unit(len(image_of), generator),
        true=torch.rand(len(image_of), images, generator=generator) < 0.3,
        metadata=metadata,
    )
    return scores, pairs, texts, pictures


@grid(1, gamma_sq=[100.0, 14.0], symmetric=[True, False], name=NAMES)
def test_every_name_gives_finite_losses_and_gradients(
    name: str, symmetric: bool, gamma_sq: float
) -> None:
    scores, pairs, texts, _ = batch(name)
    scores = (scores.detach() * (gamma_sq / GAMMA_SQ)).requires_grad_()
    given = objective(name, symmetric=symmetric, threshold=0.2, keep=3)
    result = given(scores, pairs, torch.tensor(gamma_sq), texts, torch.Generator())
    assert result.losses.shape == (len(texts) + symmetric * scores.shape[1],)
    assert torch.isfinite(result.losses).all()
    (gradient,) = torch.autograd.grad(result.losses.mean(), scores)
    assert torch.isfinite(gradient).all()
    assert (gradient != 0).any()
    floored, alone = result.measures()
    assert 0 <= floored <= 1
    assert alone < len(result.losses)


def direct(name: str, scores: Tensor, pairs: Facts, texts: Tensor, turn: bool) -> Tensor:
    """The losses of a square batch by ``cxrtext.objectives``; or the mean of both directions'."""
    same = objectives.same_labels(pairs.labels)
    cosines = pairs.vectors @ pairs.vectors.T
    clusters = pairs.metadata[:, 0].long()
    kernel = kernels.rbf(pairs.metadata[:, 0])
    if name in WITH_KERNEL:
        kernel = kernel * kernels.delta(pairs.metadata[:, 1])
    off = ~torch.eye(len(scores), dtype=torch.bool)

    def positive_debiased(scores: Tensor) -> Tensor:
        return objectives.positive_debiased(
            scores.diag()[:, None], scores[off].reshape(len(scores), -1), 14.0, 0.1, 14.0
        )

    def conditional(scores: Tensor, kernel: Tensor) -> Tensor:
        alignment = objectives.conditional_alignment(scores, kernel)
        return alignment + 0.5 * objectives.conditional_uniformity(scores, kernel)

    calls: dict[str, tuple[Callable[..., Tensor], Any]] = {
        "info-nce": (objectives.info_nce, ()),
        "dcl-eta": (objectives.debiased, (0.07, 14.0)),
        "dcl-eta-lm": (objectives.debiased, (pairs.eta, 14.0)),
        "dcl-eta-true": (objectives.debiased, (pairs.eta, 14.0)),
        "remove-by-labels": (objectives.remove_negatives, (same,)),
        "remove-by-text": (objectives.remove_negatives, (cosines > 0.1,)),
        "remove-by-report": (objectives.remove_negatives, (pairs.true,)),
        "remove-by-truth": (objectives.remove_negatives, (pairs.true,)),
        "reweight-by-text": (objectives.reweight_negatives, (cosines, 0.6)),
        "hard-negative": (objectives.hard_negative, (0.1, 0.6, 14.0)),
        "positive-debiased": (positive_debiased, ()),
        "supervised": (objectives.supervised, (same,)),
        "y-aware": (objectives.y_aware, (kernel,)),
        "conditional-alignment-uniformity": (conditional, (kernel,)),
        "weaksup-info-nce": (objectives.weakly_supervised, (clusters,)),
        "fair-info-nce": (objectives.fair, (clusters,)),
        "weaksup-cclk": (objectives.cclk_weakly_supervised, (kernel, 0.3)),
        "fair-cclk": (objectives.cclk_fair, (kernel, 0.3)),
        "hardneg-cclk": (objectives.cclk_hard_negative, (texts, 0.3)),
    }
    loss, given = calls[name]
    if not turn:
        return loss(scores, *given)
    pairwise = [isinstance(one, Tensor) and one.shape == scores.shape for one in given]
    turned = [one.T if both else one for one, both in zip(given, pairwise, strict=True)]
    return (loss(scores, *given) + loss(scores.T, *turned)) / 2


FORMULAS = tuple(name for name in NAMES if name != "resample-by-text")  # which draws


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_one_sentence_an_image_equals_the_objective_itself(name: str, symmetric: bool) -> None:
    scores, pairs, texts, _ = batch(name, extra=())
    keys = {"eta": 0.07, "threshold": 0.1, "beta": 0.6, "ridge": 0.3, "weight": 0.5}
    found = objective(name, symmetric=symmetric, **keys)(scores, pairs, GAMMA_SQ, texts).losses
    if symmetric:
        found = found.reshape(2, -1).mean(dim=0)
    expected = direct(name, scores, pairs, texts, symmetric)
    torch.testing.assert_close(found, expected)


def test_resampling_follows_the_generator() -> None:
    scores, pairs, texts, _ = batch("resample-by-text", extra=())
    given = objective("resample-by-text", keep=3)
    found = given(scores, pairs, GAMMA_SQ, texts, torch.Generator().manual_seed(5)).losses
    expected = objectives.resample_negatives(
        scores, pairs.vectors @ pairs.vectors.T, 3, 1.0, torch.Generator().manual_seed(5)
    )
    assert torch.equal(found, expected)

    with pytest.raises(ValueError, match="needs a generator that follows from the seed"):
        given(scores, pairs, GAMMA_SQ, texts)


@pytest.mark.parametrize("name", ["fair-info-nce", "supervised", "reweight-by-text", "y-aware"])
def test_images_are_anchors_of_their_first_sentence(name: str) -> None:
    scores, pairs, texts, _ = batch(name, images=4, extra=(2, 0, 2))
    clusters = torch.tensor([0, 0, 1, 0])
    kernel_of = torch.stack([torch.arange(4.0), clusters], dim=1)
    metadata = clusters[:, None].float() if name == "fair-info-nce" else kernel_of
    pairs = replace(pairs, metadata=metadata)
    given = objective(name, symmetric=True)
    found = given(scores, pairs, GAMMA_SQ, texts).losses[7:] / ((7 + 4) / (2 * 4))
    own, first = pairs.image_of, torch.arange(4)
    others = own[:, None] == first
    others[first, first] = False
    turned = scores.masked_fill(others, -torch.inf).T
    match name:
        case "fair-info-nce":
            expected = objectives.fair(turned, clusters[own], first)
        case "supervised":
            same = objectives.same_labels(pairs.labels, pairs.labels[own])
            expected = objectives.supervised(turned, same, first)
        case "reweight-by-text":
            cosines = similarity_to_images(pairs.vectors, own, 4).T
            expected = objectives.reweight_negatives(turned, cosines, 1.0, first)
        case _:  # a kernel compares images, so each is there once
            gram = kernels.rbf(kernel_of[:, 0]) * kernels.delta(kernel_of[:, 1])
            expected = objectives.y_aware(scores[:4].T, gram)
    torch.testing.assert_close(found, expected)


def test_hard_negatives_of_each_sentence_are_near_that_sentence() -> None:
    scores, pairs, texts, _ = batch("hardneg-cclk", images=4, extra=(2, 0, 2))
    found = objective("hardneg-cclk", ridge=0.3)(scores, pairs, GAMMA_SQ, texts).losses
    second = texts[[5, 1, 4, 3]]  # images 0 and 2 have a second sentence, 2 a third
    third = texts[[0, 1, 6, 3]]
    for rows, z in (([0, 1, 2, 3], texts[:4]), ([5, 4], second), ([6], third)):
        expected = objectives.cclk_hard_negative(
            scores[rows], z, 0.3, positive=pairs.image_of[rows]
        )
        torch.testing.assert_close(found[rows], expected)


def test_similarity_to_an_image_is_that_to_its_nearest_sentence() -> None:
    vectors = F.normalize(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), dim=1)
    found = similarity_to_images(vectors, torch.tensor([0, 1, 1]), 2)
    half = 0.5**0.5
    torch.testing.assert_close(found, torch.tensor([[1.0, half], [0.0, 1.0], [half, 1.0]]))


def test_anchors_without_negatives_are_counted() -> None:
    scores, pairs, texts, _ = batch("remove-by-text")
    given = objective("remove-by-text", threshold=-1.0)
    result = given(scores.detach(), pairs, GAMMA_SQ, texts)  # a validation batch is only counted
    assert result.measures()[1] == len(texts)
    assert re.search("remove-by-text leaves no anchor .* objective.threshold", result.advice)
    alone = Facts(pairs.image_of, pairs.eta, metadata=torch.arange(8.0)[:, None])
    result = objective("fair-info-nce")(scores, alone, GAMMA_SQ, texts)
    assert result.measures()[1] == len(texts)
    assert re.search("fair-info-nce leaves no anchor .* objective.clusters", result.advice)


def test_metadata_that_are_all_alike_or_that_the_kernel_cannot_compare() -> None:
    scores, pairs, texts, _ = batch("y-aware")
    alike = Facts(pairs.image_of, pairs.eta, metadata=torch.zeros(8, 2))
    given = objective("conditional-alignment-uniformity")
    with pytest.raises(WorkError, match="not defined on a batch: all candidates .* raise training"):
        given(scores, alike, GAMMA_SQ, texts)
    assert torch.isfinite(given(scores.detach(), alike, GAMMA_SQ, texts).losses).all()
    with pytest.raises(WorkError, match="fair-cclk is not defined on a batch: z is all zeros"):
        objective("fair-cclk", kernel="cosine")(scores, alike, GAMMA_SQ, texts)


def test_resampled_negatives_are_the_same_after_resuming(
    options: list[str], tmp_path: Path
) -> None:
    chosen = [*options, "training.steps=5", "training.warmup=0"]
    chosen += ["objective.name=resample-by-text", "objective.keep=2", "objective.beta=3"]
    check_stopped_run(chosen, tmp_path, [3])


def test_an_objective_that_fits_no_data_is_refused_before_decoding(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.training.image_text.DecodedCache.fill", None)
    wrong = ["objective.name=fair-cclk", "objective.condition=[age,weight]"]
    with pytest.raises(DataError, match="no column 'weight'"):
        train(load_config(None, [*options, *wrong]))


def test_a_step_without_any_negative_stops_the_run(options: list[str]) -> None:
    none = ["objective.name=remove-by-text", "objective.threshold=-1"]
    with pytest.raises(WorkError, match="leaves no anchor of this step a negative"):
        train(load_config(None, [*options, *none]))
