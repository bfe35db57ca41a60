"""Each objective, four ways: loops, gradcheck, cold temperature, autocast (limits: by family)."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.objectives import kernels
from tests.grids import grid
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import cases, draw_scores, worst_error

NAMES = sorted(cases(8, 14.0))
COLD = 2e-5
"""Largest relative error of float32 that any objective may have."""


def aligned(n: int, scale: float, seed: int = 0) -> Tensor:
    """Scores of a trained model: high on the diagonal."""
    scores = draw_scores(n, 0.5 * scale, seed)
    return scores.float().fill_diagonal_(0.9 * scale).double()


def test_the_public_surface() -> None:
    contract = """
        class_probability info_nce debiased remove_negatives resample_negatives reweight_negatives
        hard_negative positive_debiased supervised alignment_uniformity y_aware
        conditional_alignment conditional_uniformity weakly_supervised fair cclk_weakly_supervised
        cclk_fair cclk_hard_negative kernels remove_by_text same_labels without_negatives
    """
    assert set(objectives.__all__) == set(contract.split())
    assert all(hasattr(objectives, name) for name in objectives.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_float64_equals_the_loop(name: str) -> None:
    case = cases(12, 3.0)[name]
    scores = draw_scores(12, 3.0)
    found = case.ours(scores)
    assert found.flatten().tolist() == pytest.approx(case.loop(scores), rel=1e-6)
    assert found.dtype == torch.float64
    scalar = {"alignment-uniformity", "conditional-uniformity"}
    assert found.shape == (() if name in scalar else (12,))  # one loss an anchor


AGE = torch.tensor([20.0, 35.0, 36.0, 50.0, 51.0, 52.0, 70.0, 80.0, 81.0], dtype=torch.float64)
GRAM = kernels.rbf(AGE, 5.0)
SAME = draw_scores(9, 1.0, seed=1)[:4]
CLUSTERS = torch.arange(9) % 3


def of_clusters(loop: Callable[..., list[float]], *, same: bool) -> Callable[..., list[float]]:
    """A loop that marks who is, or is not, of the cluster of the anchor's positive."""

    def found(scores: Tensor, clusters: Tensor, positive: list[int] | None = None) -> list[float]:
        own = clusters[range(len(scores)) if positive is None else positive]
        return loop(scores, (own[:, None] == clusters) == same, positive)

    return found


GIVEN: dict[str, tuple[Callable[..., Tensor], Callable[..., list[float]], tuple[Any, ...]]] = {
    "info-nce": (objectives.info_nce, loops.info_nce, ()),
    **{
        f"debiased {eta}": (
            objectives.debiased, loops.debiased, ([eta * (i + 1) / 4 for i in range(4)], 3.0)
        )
        for eta in (0.0, 0.05, 0.3)
    },
    "debiased, extra": (
        objectives.debiased, loops.debiased, ([0.1] * 4, 3.0, draw_scores(9, 3.0, seed=2)[:4, :3])
    ),
    "remove": (objectives.remove_negatives, loops.remove_negatives, (SAME > 0,)),
    "reweight, alike": (objectives.reweight_negatives, loops.reweight_negatives, (SAME, 0.0)),
    "reweight": (objectives.reweight_negatives, loops.reweight_negatives, (SAME, 1.5)),
    "supervised": (objectives.supervised, loops.supervised, (SAME > 0,)),
    "weaksup-info-nce": (
        objectives.weakly_supervised, of_clusters(loops.supervised, same=True), (CLUSTERS,)
    ),
    "fair-info-nce": (
        objectives.fair, of_clusters(loops.remove_negatives, same=False), (CLUSTERS,)
    ),
    **{
        f"hard-negative {tau}, {beta}": (
            objectives.hard_negative, loops.hard_negative, (tau, beta, 3.0)
        )
        for tau in (0.0, 0.1, 0.4)
        for beta in (0.0, 0.5, 2.0)
    },
    "y-aware": (objectives.y_aware, loops.y_aware, (GRAM,)),
    "alignment": (objectives.conditional_alignment, loops.conditional_alignment, (GRAM,)),
    "uniformity": (objectives.conditional_uniformity, loops.conditional_uniformity, (GRAM, 1.0)),
    **{
        f"{name}-cclk {ridge}": (ours, loop, (GRAM, ridge))
        for name, ours, loop in (
            ("weaksup", objectives.cclk_weakly_supervised, loops.cclk_weakly_supervised),
            ("fair", objectives.cclk_fair, loops.cclk_fair),
        )
        for ridge in (1e-3, 0.1, 10.0)
    },
}  # fmt: skip
"""An objective, its loop, and what both take between the scores and the columns of positives."""


@grid(1, name=list(GIVEN), positive=[[8, 0, 3, 3], None])
def test_fewer_anchors_than_candidates_of_which_some_are_missing(
    name: str, positive: list[int] | None
) -> None:
    ours, loop, arguments = GIVEN[name]
    scores = draw_scores(9, 3.0)[:4]
    scores[1, 5] = scores[2, 1] = -math.inf
    columns = None if positive is None else torch.tensor(positive)
    found = ours(scores, *arguments, positive=columns).flatten().tolist()
    assert found == pytest.approx(loop(scores, *arguments, positive=positive))


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    case = cases(8, 3.0)[name]
    scores = draw_scores(8, 3.0).requires_grad_()
    assert torch.autograd.gradcheck(case.ours, (scores,))


@grid(name=NAMES, draw=[draw_scores, aligned])
def test_float32_is_near_the_loop_and_its_gradient_a_number(
    name: str, draw: Callable[[int, float, int], Tensor]
) -> None:
    for seed, scale in enumerate((1.0, 14.0, 200.0)):
        case, scores = cases(16, scale, seed)[name], draw(16, scale, seed)
        assert worst_error(case, scores) < COLD
        single = scores.float().requires_grad_()
        losses = case.ours(single)
        assert torch.isfinite(losses).all()
        assert torch.isfinite(*torch.autograd.grad(losses.sum(), single)).all()


@grid(1, name=NAMES, scale=[200.0, 14.0])
def test_float32_gradients_are_near_those_of_float64(name: str, scale: float) -> None:
    case = cases(16, scale)[name]
    exact = draw_scores(16, scale).requires_grad_()
    single = exact.detach().float().requires_grad_()
    (expected,) = torch.autograd.grad(case.ours(exact).sum(), exact)
    (found,) = torch.autograd.grad(case.ours(single).sum(), single)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


@grid(1, name=NAMES, half=[torch.bfloat16, torch.float16], scale=[200.0, 14.0])
def test_autocast_changes_nothing(name: str, half: torch.dtype, scale: float) -> None:
    case = cases(16, scale)[name]
    scores = draw_scores(16, scale).to(half)
    single = scores.float().requires_grad_()
    outside = case.ours(single)
    given = scores.clone().requires_grad_()
    with torch.autocast("cpu", half):
        inside = case.ours(given)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, outside, rtol=1e-6, atol=0)
    (found,) = torch.autograd.grad(inside.sum(), given)
    torch.testing.assert_close(found, torch.autograd.grad(outside.sum(), single)[0].to(half))


@pytest.mark.parametrize("name", NAMES)
def test_a_score_that_is_not_a_number_is_not_hidden(name: str) -> None:
    scores = draw_scores(9, 14.0)
    scores[3] = torch.nan
    assert torch.isnan(cases(9, 14.0)[name].ours(scores).sum())
