import math

import pytest
import torch

from cxrtext.objectives import debiased, hard_negative, info_nce
from cxrtext.objectives.debiasing import hard_negative_terms
from cxrtext.objectives.scores import split_rows
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores


@pytest.mark.parametrize("tau_plus", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("positive", [None, [8, 0, 3, 3]])
def test_it_equals_the_loop(tau_plus: float, beta: float, positive: list[int] | None) -> None:
    scores = draw_scores(9, 3.0)[:4]
    scores[1, 5] = scores[2, 0] = -math.inf
    columns = None if positive is None else torch.tensor(positive)
    found = hard_negative(scores, tau_plus, beta, 3.0, columns)
    expected = loops.hard_negative(scores, tau_plus, beta, 3.0, positive)
    assert found.tolist() == pytest.approx(expected)


def test_without_concentration_it_is_the_debiased_loss() -> None:
    scores = draw_scores(8, 14.0)
    torch.testing.assert_close(hard_negative(scores, 0.1, 0.0, 14.0), debiased(scores, 0.1, 14.0))


def test_strong_concentration_leaves_the_hardest_negative() -> None:
    scores = draw_scores(8, 14.0)
    hardest = scores.clone().fill_diagonal_(-math.inf).amax(dim=1)
    found = hard_negative(scores, 0.0, 500.0, 14.0)
    torch.testing.assert_close(found, torch.log1p(7 * (hardest - scores.diagonal()).exp()))


def test_it_is_above_info_nce() -> None:
    scores = draw_scores(8, 14.0)
    assert (hard_negative(scores, 0.0, 0.5, 14.0) >= info_nce(scores)).all()


def floored(scores: torch.Tensor, tau_plus: float, beta: float, gamma_sq: float) -> torch.Tensor:
    return hard_negative_terms(split_rows(scores, None), tau_plus, beta, gamma_sq)[1]


def test_floored_anchors_are_told_and_a_lonely_anchor_is_not_one() -> None:
    scores = torch.full((3, 3), -1.0).fill_diagonal_(3.0)
    assert floored(scores, 0.5, 1.0, 3.0).all()
    assert not floored(draw_scores(3, 0.1), 0.05, 1.0, 3.0).any()
    scores[1, 0] = scores[1, 2] = -math.inf
    assert floored(scores, 0.5, 1.0, 3.0).tolist() == [True, False, True]
    assert hard_negative(scores, 0.5, 1.0, 3.0)[1] == 0


def test_gradients_with_missing_candidates_and_no_concentration() -> None:
    scores = draw_scores(4, 3.0)
    scores[0, 2] = scores[1, 0] = scores[1, 2] = scores[1, 3] = -math.inf
    for beta in (0.0, 1.0):
        leaf = scores.clone().requires_grad_()
        hard_negative(leaf, 0.1, beta, 3.0).sum().backward()
        assert leaf.grad is not None
        assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize(
    ("tau_plus", "beta", "gamma_sq", "says"),
    [
        (1.0, 1.0, 1.0, "tau_plus"),
        (-0.1, 1.0, 1.0, "tau_plus"),
        (math.nan, 1.0, 1.0, "tau_plus"),
        (0.1, -1.0, 1.0, "beta"),
        (0.1, math.inf, 1.0, "beta"),
        (0.1, 1.0, torch.ones(2), "gamma_sq"),
    ],
)
def test_wrong_arguments_of_hard_negatives(
    tau_plus: float, beta: float, gamma_sq: float, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        hard_negative(torch.zeros(3, 3), tau_plus, beta, gamma_sq)
