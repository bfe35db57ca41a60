import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise
from torch import Tensor

from cxrtext.objectives import (
    alignment_uniformity,
    cclk_fair,
    cclk_hard_negative,
    conditional_alignment,
    conditional_uniformity,
    kernels,
    y_aware,
)
from cxrtext.objectives.conditional import cclk_terms, conditional_weights
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores
from tests.objectives.test_every_objective import AGE, GRAM


def test_y_aware_is_alignment_and_global_uniformity() -> None:
    """Eq. 2 of the paper."""
    scores = draw_scores(9, 14.0)
    uniformity = torch.logsumexp(scores, dim=1) - math.log(9)
    torch.testing.assert_close(
        y_aware(scores, GRAM), conditional_alignment(scores, GRAM) + uniformity
    )


def test_conditional_uniformity_repels_other_classes_alone() -> None:
    """With δ, a pair of the same class gets no gradient."""
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    scores = draw_scores(6, 3.0).requires_grad_()
    (found,) = torch.autograd.grad(conditional_uniformity(scores, kernels.delta(labels)), scores)
    assert torch.equal(found != 0, labels[:, None] != labels)
    assert float(found.sum()) == pytest.approx(1.0)


def test_a_supremum_of_its_own() -> None:
    z = draw_scores(9, 1.0, seed=3)[:, :3]
    gram, scores = kernels.polynomial(z), draw_scores(9, 3.0)
    with pytest.raises(ValueError, match="above the supremum 1"):
        conditional_uniformity(scores, gram)
    found = conditional_uniformity(scores, gram, supremum=64.0)
    assert float(found) == pytest.approx(loops.conditional_uniformity(scores, gram, 64.0)[0])


def test_alike_metadata_cannot_be_repelled() -> None:
    scores = draw_scores(4, 3.0)
    for gram in (torch.ones(4, 4), kernels.rbf(torch.full((4,), 63.0))):
        with pytest.raises(ValueError, match="all candidates of anchor 0 have its metadata"):
            conditional_uniformity(scores, gram)
    assert torch.isfinite(y_aware(scores, torch.ones(4, 4))).all()


SQUARE = torch.zeros(3, 3)
MISSING = torch.eye(3).index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(math.nan))


def unit(rows: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(draw_scores(rows, 1.0, seed)[:, :4], dim=1)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("t", [0.5, 2.0])
def test_alignment_and_uniformity_equal_the_loop(alpha: float, t: float) -> None:
    x, y = unit(7, 0), unit(7, 1)
    found = float(alignment_uniformity(x, y, alpha, t, 0.7))
    assert found == pytest.approx(loops.alignment_uniformity(x, y, alpha, t, 0.7)[0])


def test_alignment_is_0_for_equal_views_and_the_gradient_is_a_number() -> None:
    x = unit(5, 0).requires_grad_()
    found = alignment_uniformity(x, x, weight=0.0)
    assert float(found.detach()) == 0
    for alpha in (1.0, 2.0):
        alignment_uniformity(x, x.detach().clone(), alpha=alpha).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_uniformity_by_hand() -> None:
    """Two opposite points: one pair at distance 2."""
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert float(alignment_uniformity(x, x, t=2.0)) == pytest.approx(-8.0)
    assert float(alignment_uniformity(x, x.flip(0), t=2.0)) == pytest.approx(4.0 - 8.0)


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


def test_some_anchors_are_floored_at_gamma_14() -> None:
    """The weights have both signs, so the estimate can fall below 0; the floor then holds."""
    scores = draw_scores(9, 14.0)
    flags = cclk_terms(scores, conditional_weights(GRAM, 0.1), torch.arange(9), fair=True)[1]
    estimates = scores.exp() @ torch.linalg.inv(GRAM + 0.1 * torch.eye(9)) @ GRAM
    assert torch.equal(flags, estimates.diagonal() <= 1e-8)
    assert 0 < int(flags.sum()) < 9
    leaf = scores.clone().requires_grad_()
    losses = cclk_fair(leaf, GRAM, 0.1)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    expected = torch.log1p(8 * 1e-8 / scores.diagonal().exp())
    torch.testing.assert_close(losses[flags], expected[flags])
    assert not gradient.fill_diagonal_(0.0)[flags].any()


def test_the_solution_is_as_good_in_float32_with_a_nearly_singular_kernel() -> None:
    gram = kernels.rbf(AGE.float(), 500.0)
    scores = draw_scores(9, 14.0)
    found = cclk_fair(scores.float(), gram, 1e-4)
    assert found.tolist() == pytest.approx(loops.cclk_fair(scores, gram, 1e-4), rel=1e-5)


Kernel = Callable[[Tensor], Tensor]
PEERS: dict[Kernel, Callable[[Any], Any]] = {
    kernels.rbf: partial(pairwise.rbf_kernel, gamma=0.5),
    kernels.laplacian: partial(pairwise.laplacian_kernel, gamma=1),
    kernels.linear: pairwise.linear_kernel,
    kernels.cosine: pairwise.cosine_similarity,
    kernels.polynomial: partial(pairwise.polynomial_kernel, gamma=1),
    kernels.delta: lambda z: (z[:, None] == z).all(-1),
}


@pytest.mark.parametrize("kernel", PEERS)
@pytest.mark.parametrize("columns", [1, 4])
def test_kernels_equal_those_of_scikit_learn(kernel: Kernel, columns: int) -> None:
    z = draw_scores(8, 1.0)[:, :columns]
    z[5] = z[2]
    np.testing.assert_allclose(kernel(z), PEERS[kernel](z.numpy()), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", PEERS)
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_autocast_does_not_coarsen_kernels(kernel: Kernel, half: torch.dtype) -> None:
    z = draw_scores(8, 1.0)[:, :4].float()
    outside = kernel(z)
    with torch.autocast("cpu", half):
        inside = kernel(z)
        of_half = kernel(z.to(half))
    assert inside.dtype == of_half.dtype == torch.float32
    assert torch.equal(inside, outside)
    torch.testing.assert_close(of_half, kernel(z.to(half).float()))


def test_a_vector_is_one_attribute_and_equal_values_have_likeness_1_exactly() -> None:
    age = torch.tensor([20, 35, 36])
    assert torch.equal(kernels.rbf(age, 5.0), kernels.rbf(age[:, None].float(), 5.0))
    assert float(kernels.rbf(age, 5.0)[0, 1]) == pytest.approx(math.exp(-(15**2) / 50))
    assert float(kernels.laplacian(age, 5.0)[0, 1]) == pytest.approx(math.exp(-3))
    for kernel in (kernels.rbf, kernels.laplacian):
        assert torch.equal(kernel(torch.full((4,), 63.3)), torch.ones(4, 4))


Z = torch.zeros(3)
WITHOUT_ONE = torch.tensor([1.0, math.nan, 2.0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: y_aware(SQUARE, torch.eye(2)), r"kernel must be \[3, 3\]"),
        (lambda: y_aware(SQUARE, MISSING), "kernel is not finite in row 1"),
        (lambda: y_aware(SQUARE, -torch.eye(3)), "do not sum to more than 0"),
        (lambda: conditional_uniformity(SQUARE, torch.eye(3), 0.0), "supremum"),
        (lambda: alignment_uniformity(SQUARE, torch.zeros(2, 3)), "alike"),
        (lambda: alignment_uniformity(SQUARE[:1], SQUARE[:1]), "at least 2"),
        (lambda: alignment_uniformity(SQUARE, SQUARE, t=-1.0), "alpha and t"),
        (lambda: cclk_fair(SQUARE, torch.eye(3), 0.0), "ridge"),
        (lambda: cclk_fair(SQUARE, torch.eye(2), 0.1), "kernel must be"),
        (lambda: cclk_hard_negative(SQUARE, SQUARE / 0, 0.1), "z is not finite"),
        (lambda: kernels.rbf(Z, 0.0), "sigma"),
        (lambda: kernels.rbf(torch.zeros(2, 2, 2)), "z must be"),
        (lambda: kernels.cosine(Z), "zeros in row 0"),
        (lambda: kernels.polynomial(Z, 0), "degree"),
        (lambda: kernels.product(torch.eye(2), torch.eye(3)), "alike"),
        *((lambda kernel=kernel: kernel(WITHOUT_ONE), "not finite in row 1") for kernel in PEERS),
    ],
)
def test_wrong_arguments_of_conditional_objectives(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
