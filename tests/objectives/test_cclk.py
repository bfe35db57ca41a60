import math

import pytest
import torch
from torch import Tensor

from cxrtext.objectives import (
    cclk_fair,
    cclk_hard_negative,
    cclk_weakly_supervised,
    info_nce,
    kernels,
)
from cxrtext.objectives.conditional import cclk_terms, conditional_weights
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores

AGE = torch.tensor([20.0, 35.0, 36.0, 50.0, 51.0, 52.0, 70.0, 80.0, 81.0], dtype=torch.float64)
GRAM = kernels.rbf(AGE, 5.0)


@pytest.mark.parametrize("positive", [None, [8, 0, 3, 3]])
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
def test_cclk_equals_the_loops(positive: list[int] | None, ridge: float) -> None:
    scores = draw_scores(9, 3.0)[:4]
    scores[1, 5] = scores[2, 1] = -math.inf
    columns = None if positive is None else torch.tensor(positive)
    found = cclk_weakly_supervised(scores, GRAM, ridge, columns)
    expected = loops.cclk_weakly_supervised(scores, GRAM, ridge, positive)
    assert found.tolist() == pytest.approx(expected)
    found = cclk_fair(scores, GRAM, ridge, columns)
    assert found.tolist() == pytest.approx(loops.cclk_fair(scores, GRAM, ridge, positive))


def test_the_weights_solve_the_system() -> None:
    weights = conditional_weights(GRAM, 0.3)
    torch.testing.assert_close((GRAM + 0.3 * torch.eye(9, dtype=torch.float64)) @ weights, GRAM)


def test_weakly_supervised_without_likeness_is_info_nce() -> None:
    """K_Z = I and a small ridge: C = K / (1 + λ)."""
    scores = draw_scores(9, 3.0)
    found = cclk_weakly_supervised(scores, torch.eye(9), 1e-9)
    torch.testing.assert_close(found, info_nce(scores))


def test_one_value_of_z_samples_from_everything() -> None:
    """K_Z of ones: C_ii is the mean of the row, so fair contrast is with that mean."""
    scores = draw_scores(9, 3.0)
    found = cclk_fair(scores, torch.ones(9, 9, dtype=torch.float64), 1e-9)
    mean = scores.exp().mean(dim=1)
    torch.testing.assert_close(found, torch.log1p(8 * mean / scores.diagonal().exp()))


def test_categories_average_within_the_category() -> None:
    """With δ and a small ridge, W is 1/n_c inside a category and 0 outside."""
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    same = (labels[:, None] == labels).double()
    weights = conditional_weights(kernels.delta(labels), 1e-9)
    torch.testing.assert_close(weights, same / same.sum(dim=1), rtol=1e-6, atol=1e-6)


def test_hard_negatives_take_the_embeddings_as_z() -> None:
    scores, embeddings = draw_scores(9, 3.0), draw_scores(9, 1.0, seed=2)
    for kernel in (kernels.rbf, kernels.cosine, kernels.linear, kernels.polynomial):
        found = cclk_hard_negative(scores, embeddings, 0.1, kernel)
        torch.testing.assert_close(found, cclk_fair(scores, kernel(embeddings), 0.1))
    assert torch.equal(
        cclk_hard_negative(scores, embeddings, 0.1),
        cclk_hard_negative(scores, embeddings, 0.1, kernels.rbf),
    )


def test_no_gradient_reaches_the_embeddings_or_the_kernel() -> None:
    scores = draw_scores(6, 3.0).requires_grad_()
    embeddings = draw_scores(6, 1.0, seed=2).requires_grad_()
    cclk_hard_negative(scores, embeddings, 0.1).sum().backward()
    cclk_fair(scores, kernels.rbf(embeddings), 0.1).sum().backward()
    assert embeddings.grad is None
    assert scores.grad is not None


def floored_by_loop(scores: Tensor, gram: Tensor, ridge: float) -> list[bool]:
    weights = torch.linalg.inv(gram + ridge * torch.eye(len(gram))) @ gram
    return [
        sum(math.exp(s) * float(weights[j, i]) for j, s in enumerate(row)) <= 1e-8
        for i, row in enumerate(scores.tolist())
    ]


def test_some_anchors_are_floored_at_gamma_14() -> None:
    """The weights have both signs, so the estimate can fall below 0; the floor then holds."""
    scores = draw_scores(9, 14.0)
    flags = cclk_terms(scores, conditional_weights(GRAM, 0.1), torch.arange(9), fair=True)[1]
    assert flags.tolist() == floored_by_loop(scores, GRAM, 0.1)
    assert 0 < int(flags.sum()) < 9
    leaf = scores.clone().requires_grad_()
    losses = cclk_fair(leaf, GRAM, 0.1)
    losses.sum().backward()
    expected = torch.log1p(8 * 1e-8 / scores.diagonal().exp())
    torch.testing.assert_close(losses[flags], expected[flags])
    assert leaf.grad is not None
    off = leaf.grad.fill_diagonal_(0.0)[flags]
    assert not off.any()


def test_a_lonely_anchor_has_loss_0_in_fair_contrast() -> None:
    scores = draw_scores(3, 3.0)
    scores[1, 0] = scores[1, 2] = -math.inf
    leaf = scores.requires_grad_()
    losses = cclk_fair(leaf, torch.eye(3), 0.1) + cclk_weakly_supervised(leaf, torch.eye(3), 0.1)
    losses.sum().backward()
    assert losses[1] == 0
    assert leaf.grad is not None
    assert torch.isfinite(leaf.grad).all()


def test_the_solution_is_as_good_in_float32_with_a_nearly_singular_kernel() -> None:
    gram = kernels.rbf(AGE.float(), 500.0)
    scores = draw_scores(9, 14.0)
    found = cclk_fair(scores.float(), gram, 1e-4)
    assert found.tolist() == pytest.approx(loops.cclk_fair(scores, gram, 1e-4), rel=1e-5)


SQUARE = torch.zeros(3, 3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cclk_fair(SQUARE, torch.eye(3), 0.0), "ridge"),
        (lambda: cclk_weakly_supervised(SQUARE, torch.eye(3), -1.0), "ridge"),
        (lambda: cclk_fair(SQUARE, torch.eye(3), math.nan), "ridge"),
        (lambda: cclk_fair(SQUARE, torch.eye(2), 0.1), "kernel must be"),
        (lambda: cclk_weakly_supervised(SQUARE, torch.eye(3) * math.nan, 0.1), "not finite"),
        (lambda: cclk_hard_negative(SQUARE, SQUARE / 0, 0.1), "z is not finite"),
        (lambda: cclk_hard_negative(SQUARE, torch.zeros(4, 2), 0.1), "kernel must be"),
    ],
)
def test_wrong_arguments_of_cclk(call: object, says: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()
