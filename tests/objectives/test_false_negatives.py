import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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
from tests.objectives import reference_loops as loops
from tests.objectives.objective_cases import draw_scores


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_label_sets_that_meet() -> None:
    labels = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    expected = [
        [True, True, False, False],
        [True, True, False, False],
        [False, False, False, False],
        [False, False, False, True],
    ]
    assert same_labels(labels).tolist() == expected
    assert same_labels(labels[:2], labels).tolist() == expected[:2]
    assert same_labels(labels.bool()).tolist() == expected


def test_uncertain_and_blank_labels_are_no_members() -> None:
    labels = torch.tensor([[-1.0, 1.0], [-1.0, math.nan], [math.nan, 1.0]])
    assert same_labels(labels).tolist() == [
        [True, False, True],
        [False, False, False],
        [True, False, True],
    ]


def test_the_threshold_is_exclusive() -> None:
    similarity = torch.tensor([[1.0, 0.5, 0.25]])
    assert remove_by_text(similarity, 0.5).tolist() == [[True, False, False]]


@pytest.mark.parametrize("positive", [None, [8, 0, 3, 3]])
def test_removed_negatives_equal_the_loop(positive: list[int] | None) -> None:
    scores = draw_scores(9, 3.0)[:4]
    scores[1, 5] = -math.inf
    same = draw_scores(9, 1.0, seed=1)[:4] > 0
    found = remove_negatives(scores, same, None if positive is None else torch.tensor(positive))
    assert found.tolist() == pytest.approx(loops.remove_negatives(scores, same, positive))


def test_a_row_without_negatives_has_loss_0_and_is_told() -> None:
    scores = draw_scores(4, 3.0).requires_grad_()
    same = torch.zeros(4, 4, dtype=torch.bool)
    same[2] = True
    losses = remove_negatives(scores, same)
    losses.sum().backward()
    assert losses[2] == 0
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert not scores.grad[2].any()
    assert without_negatives(scores, same=same).tolist() == [False, False, True, False]
    assert not without_negatives(scores).any()


def test_without_anything_to_remove_it_is_info_nce() -> None:
    scores = draw_scores(6, 14.0)
    nothing = torch.zeros(6, 6, dtype=torch.bool)
    torch.testing.assert_close(remove_negatives(scores, nothing), info_nce(scores))


@pytest.mark.parametrize("beta", [0.0, 1.5])
@pytest.mark.parametrize("positive", [None, [8, 0, 3, 3]])
def test_reweighted_negatives_equal_the_loop(beta: float, positive: list[int] | None) -> None:
    scores, similarity = draw_scores(9, 3.0)[:4], draw_scores(9, 1.0, seed=1)[:4]
    scores[1, 5] = -math.inf
    columns = None if positive is None else torch.tensor(positive)
    found = reweight_negatives(scores, similarity, beta, columns)
    expected = loops.reweight_negatives(scores, similarity, beta, positive)
    assert found.tolist() == pytest.approx(expected)


def test_equal_weights_are_info_nce() -> None:
    scores = draw_scores(6, 14.0)
    found = reweight_negatives(scores, draw_scores(6, 1.0), 0.0)
    torch.testing.assert_close(found, info_nce(scores))
    alike = reweight_negatives(scores, torch.full((6, 6), 0.3), 5.0)
    torch.testing.assert_close(alike, info_nce(scores))


@given(beta=st.floats(0, 50), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_no_weighting_leaves_the_range_of_the_negatives(beta: float, seed: int) -> None:
    """A mean with any weights lies between the least and the greatest negative."""
    scores = draw_scores(6, 20.0, seed)
    found = reweight_negatives(scores, draw_scores(6, 1.0, seed + 1), beta)
    off = scores[~torch.eye(6, dtype=torch.bool)].reshape(6, 5)
    relative = off - scores.diagonal()[:, None]
    least = torch.log1p(5 * relative.amin(1).exp())
    greatest = torch.log1p(5 * relative.amax(1).exp())
    assert (found >= least * (1 - 1e-9)).all()
    assert (found <= greatest * (1 + 1e-9)).all()


def drawn_columns(scores: Tensor, similarity: Tensor, keep: int, beta: float, seed: int) -> Tensor:
    """Which columns of the first row were drawn: their scores have a gradient."""
    leaf = scores.clone().requires_grad_()
    resample_negatives(leaf, similarity, keep, beta, seeded(seed))[0].backward()
    assert leaf.grad is not None
    return leaf.grad[0, 1:] != 0


def test_draws_are_without_replacement_and_leave_the_positive_alone() -> None:
    scores, similarity = draw_scores(8, 1.0), draw_scores(8, 1.0, seed=1)
    for seed in range(20):
        assert int(drawn_columns(scores, similarity, 3, 2.0, seed).sum()) == 3


def test_the_first_draw_has_the_stated_probabilities() -> None:
    beta, rows = 2.0, 20_000
    cosine = torch.tensor([0.0, -0.5, 0.0, 0.5, 1.0])
    scores = torch.arange(5.0).expand(rows, 5)
    losses = resample_negatives(
        scores,
        cosine.expand(rows, 5),
        1,
        beta,
        seeded(),
        positive=torch.zeros(rows, dtype=torch.long),
    )
    found = [float((losses.expm1().log() - j).abs().lt(0.1).float().mean()) for j in range(1, 5)]
    weights = [math.exp(-beta * float(c)) for c in cosine[1:]]
    expected = [w / sum(weights) for w in weights]
    assert found == pytest.approx(expected, abs=0.015)


def test_two_draws_are_made_one_after_the_other() -> None:
    """Inclusion probabilities of successive draws, by hand."""
    beta, rows = 3.0, 20_000
    cosine = torch.tensor([0.0, 0.0, 0.4, 0.8])
    scores = torch.tensor([0.0, 1.0, 4.0, 8.0]).expand(rows, 4)
    losses = resample_negatives(
        scores,
        cosine.expand(rows, 4),
        2,
        beta,
        seeded(),
        positive=torch.zeros(rows, dtype=torch.long),
    )
    weights = [math.exp(-beta * float(c)) for c in cosine[1:]]
    total = sum(weights)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = math.log(math.exp(float(scores[0, i + 1])) + math.exp(float(scores[0, j + 1])))
        share = float((losses.expm1().log() - pair).abs().lt(0.01).float().mean())
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


def test_the_same_generator_draws_the_same() -> None:
    scores, similarity = draw_scores(8, 3.0), draw_scores(8, 1.0)
    first = resample_negatives(scores, similarity, 2, 1.0, seeded(3))
    assert torch.equal(first, resample_negatives(scores, similarity, 2, 1.0, seeded(3)))
    assert not torch.equal(first, resample_negatives(scores, similarity, 2, 1.0, seeded(4)))


SQUARE = torch.zeros(3, 3)
GENERATOR = seeded()


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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: remove_negatives(SQUARE, torch.zeros(3, 2, dtype=torch.bool)), "boolean"),
        (lambda: remove_negatives(SQUARE, SQUARE), "boolean"),
        (lambda: remove_by_text(SQUARE, 1.5), "threshold"),
        (lambda: remove_by_text(SQUARE / 0, 0.5), "similarity is not finite in row 0"),
        (lambda: reweight_negatives(SQUARE, torch.zeros(2, 2), 1.0), "similarity"),
        (lambda: reweight_negatives(SQUARE, SQUARE, -1.0), "beta"),
        (lambda: resample_negatives(SQUARE, SQUARE, 0, 1.0, GENERATOR), "keep"),
        (lambda: resample_negatives(SQUARE, SQUARE, 1, -1.0, GENERATOR), "beta"),
        (lambda: resample_negatives(SQUARE, SQUARE / 0, 1, 1.0, GENERATOR), "not finite"),
        (lambda: same_labels(torch.zeros(3)), "labels"),
        (lambda: same_labels(torch.zeros(3, 2), torch.zeros(3, 4)), "labels"),
        (lambda: info_nce(SQUARE.fill_diagonal_(0).long()), "floating"),
        (lambda: info_nce(SQUARE, torch.tensor([0, 1, 3])), r"positive\[2\] is 3"),
        (lambda: info_nce(SQUARE, torch.tensor([0, 1, -1])), r"positive\[2\] is -1"),
        (lambda: info_nce(SQUARE, torch.tensor([0.0, 1.0, 2.0])), "int64"),
        (lambda: info_nce(torch.full((3, 3), -math.inf)), "positive of row 0 is -inf"),
        (lambda: supervised(SQUARE, torch.zeros(2, 3, dtype=torch.bool)), "boolean"),
        (lambda: supervised(SQUARE - math.inf, SQUARE.bool()), "anchor 0 has no positive"),
        (lambda: weakly_supervised(SQUARE, torch.zeros(2, dtype=torch.long)), "clusters"),
        (lambda: fair(SQUARE, torch.zeros(3)), "integers"),
    ],
)
def test_wrong_arguments_of_removal(call: object, says: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()
