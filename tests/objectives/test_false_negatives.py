import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cxrtext.objectives import (
    fair,
    info_nce,
    remove_by_text,
    remove_negatives,
    resample_negatives,
    reweight_negatives,
    same_labels,
    supervised,
    weakly_supervised,
    without_negatives,
)
from cxrtext.training.objectives.remove_by_text import Objective as ByText
from cxrtext.training.objectives.shared.objective import Direction
from tests.objectives.objective_cases import draw_scores


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_label_sets_that_meet() -> None:
    labels = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    expected = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert same_labels(labels).tolist() == expected
    assert same_labels(labels[:2], labels).tolist() == expected[:2]
    assert same_labels(labels.bool()).tolist() == expected
    assert same_labels(labels).dtype == torch.bool


def test_uncertain_and_blank_labels_are_no_members() -> None:
    labels = torch.tensor([[-1.0, 1.0], [-1.0, math.nan], [math.nan, 1.0]])
    assert same_labels(labels).tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 1]]


def test_the_threshold_is_exclusive() -> None:
    similarity = torch.tensor([[1.0, 0.5, 0.25]])
    assert remove_by_text(similarity, 0.5).tolist() == [[True, False, False]]
    scores, eta = torch.zeros(2, 2), torch.full((2,), 0.1)
    known = {"similarity": torch.tensor([[1.0, 0.5], [0.5, 1.0]])}
    given = Direction(scores, torch.arange(2), eta, torch.tensor(1.0), known)
    alone = ByText(name="remove-by-text", threshold=0.5).losses(given).without_negatives
    assert alone is not None
    assert alone.tolist() == [False, False]


def test_a_row_without_negatives_has_loss_0_and_is_told() -> None:
    scores = draw_scores(4, 3.0).requires_grad_()
    same = torch.zeros(4, 4, dtype=torch.bool)
    same[2] = True
    losses = remove_negatives(scores, same)
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert losses[2] == 0
    assert torch.isfinite(gradient).all()
    assert not gradient[2].any()
    assert without_negatives(scores, same=same).tolist() == [False, False, True, False]
    assert not without_negatives(scores).any()


def test_draws_are_without_replacement_and_leave_the_positive_alone() -> None:
    scores, similarity = draw_scores(8, 1.0).requires_grad_(), draw_scores(8, 1.0, seed=1)
    for seed in range(20):
        losses = resample_negatives(scores, similarity, 3, 2.0, seeded(seed))
        (gradient,) = torch.autograd.grad(losses[0], scores)
        assert gradient[0, 1:].count_nonzero() == 3  # a drawn column has a gradient


def drawn_often(scores: Tensor, cosine: Tensor, keep: int, beta: float) -> Tensor:
    """``log`` of the sum of ``e^score`` of the negatives that each of many equal rows drew."""
    rows = 20_000
    first = torch.zeros(rows, dtype=torch.long)
    given = scores.expand(rows, -1), cosine.expand(rows, -1)
    return resample_negatives(*given, keep, beta, seeded(), positive=first).expm1().log()


def test_two_draws_are_made_one_after_the_other() -> None:
    """Inclusion probabilities of successive draws, by hand."""
    beta, cosine = 3.0, torch.tensor([0.0, 0.0, 0.4, 0.8])
    scores = torch.tensor([0.0, 1.0, 4.0, 8.0])
    sums = drawn_often(scores, cosine, 2, beta)
    weights = [math.exp(-beta * float(c)) for c in cosine[1:]]
    total = sum(weights)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = float(torch.logsumexp(scores[[i + 1, j + 1]], 0))
        share = float((sums - pair).abs().lt(0.01).float().mean())
        w, v = weights[i], weights[j]
        expected = w / total * v / (total - w) + v / total * w / (total - v)
        assert share == pytest.approx(expected, abs=0.015)


def test_keeping_all_is_info_nce_and_missing_candidates_stay_away() -> None:
    scores = draw_scores(6, 14.0)
    scores[0, 3] = scores[4, 1] = -math.inf
    found = resample_negatives(scores, draw_scores(6, 1.0), 10, 5.0, seeded())
    torch.testing.assert_close(found, info_nce(scores))
    few = resample_negatives(scores, draw_scores(6, 1.0), 4, 5.0, seeded())
    torch.testing.assert_close(few[0], info_nce(scores)[0])


SQUARE = torch.zeros(3, 3)
GENERATOR = seeded()


def test_fair_contrasts_within_the_cluster_alone() -> None:
    scores = draw_scores(7, 3.0)
    clusters = torch.tensor([1, 0, 1, 0, 1, 4, 0])
    found = fair(scores, clusters)
    for value in (0, 1):
        inside = (clusters == value).nonzero().flatten()
        torch.testing.assert_close(found[inside], info_nce(scores[inside][:, inside]))
    assert found[5] == 0
    apart = clusters[:, None] != clusters
    assert without_negatives(scores, same=apart).tolist() == (clusters == 4).tolist()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: remove_negatives(SQUARE, SQUARE), "boolean"),
        (lambda: remove_by_text(SQUARE, 1.5), "threshold"),
        (lambda: remove_by_text(SQUARE / 0, 0.5), "similarity is not finite in row 0"),
        (lambda: reweight_negatives(SQUARE, torch.zeros(2, 2), 1.0), "similarity"),
        (lambda: reweight_negatives(SQUARE, SQUARE, -1.0), "beta"),
        (lambda: resample_negatives(SQUARE, SQUARE, 0, 1.0, GENERATOR), "keep"),
        (lambda: same_labels(torch.zeros(3, 2), torch.zeros(3, 4)), "labels"),
        (lambda: info_nce(SQUARE.fill_diagonal_(0).long()), "floating"),
        (lambda: info_nce(SQUARE, torch.tensor([0, 1, -1])), r"positive\[2\] is -1"),
        (lambda: info_nce(SQUARE, torch.tensor([0.0, 1.0, 2.0])), "int64"),
        (lambda: info_nce(torch.full((3, 3), -math.inf)), "positive of row 0 is -inf"),
        (lambda: supervised(SQUARE - math.inf, SQUARE.bool()), "anchor 0 has no positive"),
        (lambda: weakly_supervised(SQUARE, torch.zeros(2, dtype=torch.long)), "clusters"),
        (lambda: fair(SQUARE, torch.zeros(3)), "integers"),
    ],
)
def test_wrong_arguments_of_removal(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
