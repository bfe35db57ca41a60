import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cxrtext.objectives import class_probability, debiased, hard_negative, info_nce
from cxrtext.objectives.debiasing import debiased_terms, hard_negative_terms
from cxrtext.objectives.scores import split_rows
from tests.objectives.objective_cases import draw_scores


def floored(scores: Tensor, eta: float, gamma_sq: float) -> Tensor:
    return debiased_terms(split_rows(scores, None), eta, gamma_sq)[1]


def draw(anchors: int, candidates: int, scale: float = 3.0, seed: int = 0) -> Tensor:
    return draw_scores(max(anchors, candidates), scale, seed)[:anchors, :candidates].clone()


def test_missing_extra_positives_are_not_counted() -> None:
    scores, extra = draw(4, 4), draw(4, 3, seed=1)
    hidden = extra.clone()
    hidden[:, 2] = -math.inf
    expected = debiased(scores, 0.1, 3.0, extra=extra[:, :2])
    assert torch.allclose(debiased(scores, 0.1, 3.0, extra=hidden), expected)


def test_an_infinite_negative_is_not_hidden_by_the_floor() -> None:
    scores = draw(3, 3)
    scores[0, 1] = math.inf
    assert torch.isinf(debiased(scores, 0.1, 3.0)[0])


def test_a_missing_candidate_leaves_the_gradient_a_number() -> None:
    scores = draw(4, 4).requires_grad_()
    hidden = scores.masked_fill(torch.eye(4).roll(1, 1).bool(), -math.inf)
    hidden = hidden.masked_fill(torch.tensor([[False], [True], [False], [False]]), -math.inf)
    hidden = torch.where(torch.eye(4).bool(), scores, hidden)  # row 1 keeps its positive alone
    losses = debiased(hidden, 0.1, 3.0) + info_nce(hidden)
    assert torch.isfinite(*torch.autograd.grad(losses.sum(), scores)).all()


def test_the_floor_holds_where_the_correction_takes_all_negatives() -> None:
    scores = torch.full((3, 3), -1.0, dtype=torch.float64).fill_diagonal_(3.0)
    found = debiased(scores, 0.5, 3.0)
    floor = 2 * math.exp(-3.0)
    assert found.tolist() == pytest.approx([-math.log(math.exp(3) / (math.exp(3) + floor))] * 3)
    assert floored(scores, 0.5, 3.0).all()
    assert not floored(draw(3, 3, scale=0.1), 0.05, 3.0).any()
    scores[1, 0] = scores[1, 2] = -math.inf  # without negatives nothing is floored
    assert floored(scores, 0.5, 3.0).tolist() == [True, False, True]
    assert debiased(scores, 0.5, 3.0)[1] == 0


def test_no_gradient_reaches_gamma_through_the_floor() -> None:
    gamma_sq = torch.tensor(3.0, requires_grad=True)
    cosines = torch.full((3, 3), -0.5).fill_diagonal_(1.0)
    losses = debiased(gamma_sq * cosines, 0.5, gamma_sq)
    # d/dγ² of log(1 + 2 e^(floor − γ² · 1)) with the floor held fixed
    share = 2 * math.exp(-6.0) / (1 + 2 * math.exp(-6.0))
    assert float(*torch.autograd.grad(losses.sum(), gamma_sq)) == pytest.approx(
        -3 * share, rel=1e-4
    )


def test_a_well_aligned_pair_keeps_its_small_loss_in_float32() -> None:
    exact = torch.full((4, 4), -5.0, dtype=torch.float64).fill_diagonal_(14.0)
    assert torch.allclose(info_nce(exact.float()).double(), info_nce(exact), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: info_nce(torch.zeros(3)), "anchors, candidates"),
        (lambda: info_nce(torch.zeros(3, 2)), "pass positive="),
        (lambda: info_nce(torch.zeros(3, 3), torch.zeros(2, dtype=torch.long)), r"\[3\]"),
        (lambda: debiased(torch.zeros(3, 3), 1.0, 1.0), "eta"),
        (lambda: debiased(torch.zeros(3, 3), 0.1, 1.0, extra=torch.zeros(2, 2)), "extra"),
        (lambda: debiased(torch.zeros(3, 3), torch.zeros(2), 1.0), "eta must be a number or"),
        (lambda: debiased(torch.zeros(3, 3), math.nan, 1.0), "eta"),
        (lambda: hard_negative(torch.zeros(3, 3), 1.0, 1.0, 1.0), "tau_plus"),
        (lambda: hard_negative(torch.zeros(3, 3), 0.1, math.inf, 1.0), "beta"),
        (lambda: hard_negative(torch.zeros(3, 3), 0.1, 1.0, torch.ones(2)), "gamma_sq"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_floored_anchors_are_told_and_a_lonely_anchor_is_not_one() -> None:
    def floored_hard(given: Tensor, tau_plus: float) -> list[bool]:
        return hard_negative_terms(split_rows(given, None), tau_plus, 1.0, 3.0)[1].tolist()

    scores = torch.full((3, 3), -1.0).fill_diagonal_(3.0)
    assert floored_hard(scores, 0.5) == [True] * 3
    assert floored_hard(scores[:2, :2], 0.5) == [True] * 2  # a single negative counts
    assert floored_hard(draw_scores(3, 0.1), 0.05) == [False] * 3
    scores[1, 0] = scores[1, 2] = -math.inf
    assert floored_hard(scores, 0.5) == [True, False, True]
    assert hard_negative(scores, 0.5, 1.0, 3.0)[1] == 0


def test_class_probabilities_by_hand_rise_with_likelihood_and_stay_above_0() -> None:
    log_p = torch.tensor([0.0, -1.0, -20.0], dtype=torch.float64)
    expected = [0.2, 0.2 * math.exp(-0.35), 0.2 * math.exp(-7.0)]
    assert class_probability(log_p).tolist() == pytest.approx(expected)
    eta = class_probability(torch.linspace(-100, 0, 50))
    assert (eta.diff() > 0).all()
    assert float(eta.max()) == pytest.approx(0.2)
    for dtype in (torch.float32, torch.float64):
        assert float(class_probability(torch.tensor([-1e6], dtype=dtype))) > 0
    constant = class_probability(torch.tensor([-3.0, -50.0]), a=0.05, k=0)
    assert constant.tolist() == pytest.approx([0.05, 0.05])


@pytest.mark.parametrize(
    ("log_p", "a", "k"),
    [(0.5, 0.2, 0.35), (math.nan, 0.2, 0.35), (-1.0, 1.0, 0.35), (-1.0, 0.0, 0.35), (-1, 0.2, -1)],
)
def test_wrong_class_probabilities(log_p: float, a: float, k: float) -> None:
    with pytest.raises(ValueError, match="must"):
        class_probability(torch.tensor([log_p]), a, k)
