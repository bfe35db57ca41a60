import math

import pytest
import torch

from cxrtext.objectives import (
    fair,
    info_nce,
    same_labels,
    supervised,
    weakly_supervised,
    without_negatives,
)
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores


@pytest.mark.parametrize("positive", [None, [8, 0, 3, 3]])
def test_supervised_equals_the_loop(positive: list[int] | None) -> None:
    scores = draw_scores(9, 3.0)[:4]
    scores[1, 5] = scores[2, 0] = -math.inf
    same = draw_scores(9, 1.0, seed=1)[:4] > 0
    found = supervised(scores, same, None if positive is None else torch.tensor(positive))
    assert found.tolist() == pytest.approx(loops.supervised(scores, same, positive))


def test_labels_that_are_all_different_give_info_nce() -> None:
    scores = draw_scores(8, 14.0)
    nobody = torch.zeros(8, 8, dtype=torch.bool)
    torch.testing.assert_close(supervised(scores, nobody), info_nce(scores))
    torch.testing.assert_close(supervised(scores, torch.eye(8).bool()), info_nce(scores))
    torch.testing.assert_close(weakly_supervised(scores, torch.arange(8)), info_nce(scores))


def test_the_views_of_a_batch_without_each_anchor_itself() -> None:
    """SimCLR's layout: an anchor is no candidate of its own."""
    scores = draw_scores(6, 3.0).fill_diagonal_(-math.inf)
    labels = torch.tensor([0, 1, 0, 0, 1, 0])
    same = labels[:, None] == labels
    expected = loops.supervised(scores, same & ~torch.eye(6, dtype=torch.bool))
    assert supervised(scores, same).tolist() == pytest.approx(expected)


def test_a_confident_anchor_keeps_its_small_loss_in_float32() -> None:
    exact = torch.full((4, 4), -14.0, dtype=torch.float64).fill_diagonal_(14.0)
    found = supervised(exact.float(), torch.eye(4).bool()).double()
    expected = torch.tensor(loops.supervised(exact, torch.eye(4)), dtype=torch.float64)
    assert float(expected[0]) == pytest.approx(3 * math.exp(-28))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


def test_weakly_supervised_is_the_mean_over_the_cluster() -> None:
    scores = draw_scores(6, 3.0)
    clusters = torch.tensor([2, 0, 2, 0, 5, 2])
    found = weakly_supervised(scores, clusters)
    for i in range(6):
        # each candidate of the cluster as the positive, against all the others
        terms = [
            info_nce(scores[i : i + 1], torch.tensor([p]))
            for p in range(6)
            if clusters[p] == clusters[i]
        ]
        assert float(found[i]) == pytest.approx(float(torch.cat(terms).mean()))


def test_weakly_supervised_reads_the_cluster_of_the_positive() -> None:
    scores = draw_scores(9, 3.0)[:4]
    clusters, positive = torch.arange(9) % 3, torch.tensor([8, 0, 3, 3])
    same = clusters[positive][:, None] == clusters
    torch.testing.assert_close(
        weakly_supervised(scores, clusters, positive), supervised(scores, same, positive)
    )


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


def test_one_cluster_is_info_nce() -> None:
    scores = draw_scores(5, 14.0)
    torch.testing.assert_close(fair(scores, torch.zeros(5, dtype=torch.long)), info_nce(scores))


def test_fair_with_given_positives() -> None:
    scores = draw_scores(9, 3.0)[:4]
    clusters, positive = torch.arange(9) % 3, [8, 0, 3, 3]
    columns = torch.tensor(positive)
    apart = clusters[columns][:, None] != clusters
    expected = loops.remove_negatives(scores, apart, positive)
    assert fair(scores, clusters, columns).tolist() == pytest.approx(expected)


def test_an_anchor_without_labels_keeps_its_own_image() -> None:
    labels = torch.tensor([[1, 0], [0, 0], [1, 1]])
    scores = draw_scores(3, 3.0)
    found = supervised(scores, same_labels(labels))
    torch.testing.assert_close(found[1], info_nce(scores)[1])


SQUARE = torch.zeros(3, 3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: supervised(SQUARE, torch.zeros(2, 3, dtype=torch.bool)), "boolean"),
        (lambda: supervised(SQUARE - math.inf, SQUARE.bool()), "anchor 0 has no positive"),
        (lambda: weakly_supervised(SQUARE, torch.zeros(2, dtype=torch.long)), "clusters"),
        (lambda: fair(SQUARE, torch.zeros(3)), "integers"),
    ],
)
def test_wrong_arguments_of_supervision(call: object, says: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()
