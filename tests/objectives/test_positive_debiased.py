import math
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

from cxrtext.objectives import positive_debiased
from cxrtext.objectives.debiasing import positive_debiased_terms
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores

Aggregate = Literal["loss", "group"]
AGGREGATES: list[Aggregate] = ["loss", "group"]


def draw(rows: int, columns: int, scale: float, seed: int) -> Tensor:
    return draw_scores(max(rows, columns), scale, seed)[:rows, :columns].clone()


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("extras", [1, 3])
@pytest.mark.parametrize(("count", "tau_plus"), [(4, 0.1), (30, 0.1), (18, 0.1), (5, 0.8)])
def test_it_equals_the_loop(aggregate: Aggregate, extras: int, count: int, tau_plus: float) -> None:
    positive, negative = draw(6, extras, 2.0, 0), draw(6, count, 2.0, 1)
    found = positive_debiased(positive, negative, 2.0, tau_plus, 2.0, aggregate)
    expected = loops.positive_debiased(positive, negative, 2.0, tau_plus, 2.0, aggregate)
    assert found.tolist() == pytest.approx(expected)


def test_the_floor_holds_where_all_of_p_is_taken_away_but_not_with_many_negatives() -> None:
    positive = torch.full((2, 1), -3.0)
    negative = torch.full((2, 4), 2.9)
    found = positive_debiased(positive, negative, -3.0, 0.1, 3.0)
    # N τ⁺ P⁻ over τ⁺ e^{−γ²}
    expected = math.log1p(4 * math.exp(2.9 + 3.0))
    assert found.tolist() == pytest.approx([expected] * 2)
    assert positive_debiased_terms(positive, negative, -3.0, 0.1, 3.0)[1].all()
    pair, others = torch.tensor([[0.0, 6.0]]), torch.tensor([[-1.0, 1.0, 4.0]])
    for columns, expected_floored in (([0], True), ([1], False), ([0, 1], True)):
        terms = positive_debiased_terms(pair[:, columns], others, -3.0, 0.1, 3.0)
        assert terms[1].tolist() == [expected_floored]
    many = torch.full((2, 40), 3.0)
    assert not positive_debiased_terms(positive, many, -3.0, 0.1, 3.0)[1].any()
    gamma_sq = torch.tensor(3.0, requires_grad=True)
    losses = positive_debiased(positive.requires_grad_(), negative, -3.0, 0.1, gamma_sq)
    losses.sum().backward()
    assert positive.grad is not None
    assert not positive.grad.any()
    assert gamma_sq.grad is None


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_missing_scores_are_not_counted(aggregate: Aggregate) -> None:
    positive, negative = draw(3, 2, 2.0, 0), draw(3, 6, 2.0, 1)
    hidden_positive, hidden_negative = positive.clone(), negative.clone()
    hidden_positive[:, 1] = -math.inf
    hidden_negative[:, 4:] = -math.inf
    found = positive_debiased(hidden_positive, hidden_negative, 2.0, 0.1, 2.0, aggregate)
    expected = positive_debiased(positive[:, :1], negative[:, :4], 2.0, 0.1, 2.0, aggregate)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_anchor_without_negatives_has_loss_0(aggregate: Aggregate) -> None:
    negative = draw(2, 3, 2.0, 1)
    negative[1] = -math.inf
    positive = draw(2, 2, 2.0, 0).requires_grad_()
    found = positive_debiased(positive, negative, 2.0, 0.1, 2.0, aggregate)
    assert found[1] == 0
    assert torch.isfinite(*torch.autograd.grad(found.sum(), positive)).all()


ONE = torch.zeros(2, 1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: positive_debiased(torch.zeros(2, 0), ONE, 1.0, 0.1, 1.0), "positive must be"),
        (lambda: positive_debiased(ONE, torch.zeros(3, 4), 1.0, 0.1, 1.0), "negative must be"),
        (lambda: positive_debiased(ONE, ONE, torch.ones(3), 0.1, 1.0), "self_score"),
        (lambda: positive_debiased(ONE, ONE, 1.0, 0.0, 1.0), "tau_plus"),
        (lambda: positive_debiased(ONE, ONE, 1.0, 0.1, 1.0, "mean"), "aggregate"),  # type: ignore[arg-type]
        (lambda: positive_debiased(ONE - math.inf, ONE, 1.0, 0.1, 1.0), "anchor 0 has no positive"),
    ],
)
def test_wrong_arguments_of_positive_debiased(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
