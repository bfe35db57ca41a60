import math

import pytest
import torch

from cxrtext.objectives import (
    alignment_uniformity,
    conditional_alignment,
    conditional_uniformity,
    info_nce,
    kernels,
    y_aware,
)
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores

AGE = torch.tensor([20.0, 35.0, 36.0, 50.0, 51.0, 52.0, 70.0, 80.0, 81.0], dtype=torch.float64)
GRAM = kernels.rbf(AGE, 5.0)


@pytest.mark.parametrize("positive", [None, [8, 0, 3, 3]])
def test_conditional_objectives_equal_the_loops(positive: list[int] | None) -> None:
    scores = draw_scores(9, 3.0)[:4]
    scores[1, 5] = scores[2, 0] = -math.inf
    columns = None if positive is None else torch.tensor(positive)
    found = y_aware(scores, GRAM, columns)
    assert found.tolist() == pytest.approx(loops.y_aware(scores, GRAM, positive))
    found = conditional_alignment(scores, GRAM, columns)
    assert found.tolist() == pytest.approx(loops.conditional_alignment(scores, GRAM, positive))
    found = conditional_uniformity(scores, GRAM, positive=columns)
    expected = loops.conditional_uniformity(scores, GRAM, 1.0, positive)
    assert float(found) == pytest.approx(expected[0])


def test_y_aware_is_alignment_and_global_uniformity() -> None:
    """Eq. 2 of the paper."""
    scores = draw_scores(9, 14.0)
    uniformity = torch.logsumexp(scores, dim=1) - math.log(9)
    torch.testing.assert_close(
        y_aware(scores, GRAM), conditional_alignment(scores, GRAM) + uniformity
    )


def test_a_narrow_kernel_gives_info_nce_minus_log_b() -> None:
    scores = draw_scores(9, 14.0)
    narrow = kernels.rbf(AGE, 1e-3)
    torch.testing.assert_close(y_aware(scores, narrow), info_nce(scores) - math.log(9))
    torch.testing.assert_close(conditional_alignment(scores, narrow), -scores.diagonal())


def test_a_wide_kernel_aligns_with_all_alike() -> None:
    scores = draw_scores(9, 14.0)
    wide = kernels.rbf(AGE, 1e6)
    torch.testing.assert_close(conditional_alignment(scores, wide), -scores.mean(dim=1))


def test_conditional_uniformity_repels_other_classes_alone() -> None:
    """With δ, a pair of the same class gets no gradient."""
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    scores = draw_scores(6, 3.0).requires_grad_()
    conditional_uniformity(scores, kernels.delta(labels)).backward()
    assert scores.grad is not None
    assert torch.equal(scores.grad != 0, labels[:, None] != labels)
    assert float(scores.grad.sum()) == pytest.approx(1.0)


def test_a_kernel_that_is_0_gives_global_uniformity() -> None:
    """Off the diagonal; the diagonal, of weight 1, is not repelled."""
    scores = draw_scores(6, 3.0)
    found = conditional_uniformity(scores, torch.eye(6))
    off = scores.fill_diagonal_(-math.inf).flatten()
    assert float(found) == pytest.approx(float(torch.logsumexp(off, 0)) - math.log(30))


def test_a_supremum_of_its_own() -> None:
    z = draw_scores(9, 1.0, seed=3)[:, :3]
    gram, scores = kernels.polynomial(z), draw_scores(9, 3.0)
    with pytest.raises(ValueError, match="above the supremum 1"):
        conditional_uniformity(scores, gram)
    found = conditional_uniformity(scores, gram, supremum=64.0)
    assert float(found) == pytest.approx(loops.conditional_uniformity(scores, gram, 64.0)[0])


def test_cosines_that_exceed_1_by_rounding_are_taken() -> None:
    gram = kernels.cosine(draw_scores(40, 1.0, seed=5)[:, :3].float())
    gram = gram + 3e-7
    assert torch.isfinite(conditional_uniformity(draw_scores(40, 3.0).float(), gram))


def test_alike_metadata_cannot_be_repelled() -> None:
    scores = draw_scores(4, 3.0)
    for gram in (torch.ones(4, 4), kernels.rbf(torch.full((4,), 63.0))):
        with pytest.raises(ValueError, match="all candidates of anchor 0 have its metadata"):
            conditional_uniformity(scores, gram)
    assert torch.isfinite(y_aware(scores, torch.ones(4, 4))).all()


SQUARE = torch.zeros(3, 3)
MISSING = torch.eye(3).index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(math.nan))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: y_aware(SQUARE, torch.eye(2)), r"kernel must be \[3, 3\]"),
        (lambda: y_aware(SQUARE, MISSING), "kernel is not finite in row 1"),
        (lambda: conditional_alignment(SQUARE, MISSING), "kernel is not finite in row 1"),
        (lambda: conditional_uniformity(SQUARE, MISSING), "kernel is not finite in row 1"),
        (lambda: y_aware(SQUARE, -torch.eye(3)), "do not sum to more than 0"),
        (lambda: conditional_alignment(SQUARE, SQUARE), "do not sum to more than 0"),
        (lambda: conditional_uniformity(SQUARE, torch.eye(3), 0.0), "supremum"),
        (lambda: alignment_uniformity(SQUARE, torch.zeros(2, 3)), "alike"),
        (lambda: alignment_uniformity(SQUARE[:1], SQUARE[:1]), "at least 2"),
        (lambda: alignment_uniformity(SQUARE, SQUARE, alpha=0.0), "alpha"),
        (lambda: alignment_uniformity(SQUARE, SQUARE, t=-1.0), "alpha and t"),
    ],
)
def test_wrong_arguments_of_conditional_objectives(call: object, says: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()


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
