import math

import pytest
import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.objectives import kernels, symmetric
from tests.objectives.objective_cases import draw_scores


def test_both_directions_of_info_nce() -> None:
    scores = draw_scores(6, 14.0)
    expected = (objectives.info_nce(scores) + objectives.info_nce(scores.T)) / 2
    torch.testing.assert_close(symmetric(objectives.info_nce)(scores), expected)


def test_an_image_takes_the_eta_of_its_sentence() -> None:
    scores, eta = draw_scores(6, 3.0), torch.linspace(0, 0.2, 6).double()
    both = symmetric(objectives.debiased)
    expected = (objectives.debiased(scores, eta, 3.0) + objectives.debiased(scores.T, eta, 3.0)) / 2
    torch.testing.assert_close(both(scores, eta, 3.0), expected)
    torch.testing.assert_close(both(scores, eta=eta, gamma_sq=3.0), expected)


def test_matrices_of_pairs_are_transposed() -> None:
    scores, similarity = draw_scores(6, 3.0), draw_scores(6, 1.0, seed=1)
    weighted = objectives.reweight_negatives
    expected = (weighted(scores, similarity, 2.0) + weighted(scores.T, similarity.T, 2.0)) / 2
    torch.testing.assert_close(symmetric(weighted)(scores, similarity, 2.0), expected)
    same = similarity > 0
    removed = objectives.remove_negatives
    expected = (removed(scores, same) + removed(scores.T, same.T)) / 2
    torch.testing.assert_close(symmetric(removed)(scores, same=same), expected)


def by_hand(scores: Tensor, positive: list[int]) -> list[float]:
    """Sentences against images, and each sentence's image against the sentences of others."""
    losses = []
    for i, image in enumerate(positive):
        row = sum(math.exp(s) for j, s in enumerate(scores[i].tolist()) if j != image)
        others = [k for k, other in enumerate(positive) if other != image]
        column = sum(math.exp(float(scores[k, image])) for k in others)
        own = math.exp(float(scores[i, image]))
        losses.append((math.log1p(row / own) + math.log1p(column / own)) / 2)
    return losses


def test_several_sentences_of_an_image_are_no_negatives_of_it() -> None:
    scores, positive = draw_scores(6, 3.0), [4, 0, 0, 2, 4, 1]
    found = symmetric(objectives.info_nce)(scores, positive=torch.tensor(positive))
    assert found.tolist() == pytest.approx(by_hand(scores, positive))
    by_position = symmetric(objectives.info_nce)(scores, torch.tensor(positive))
    assert torch.equal(by_position, found)


def test_more_images_than_sentences() -> None:
    scores = draw_scores(7, 3.0)[:4]
    found = symmetric(objectives.info_nce)(scores)
    assert found.tolist() == pytest.approx(by_hand(scores, [0, 1, 2, 3]))


def test_kernels_clusters_and_embeddings_follow_the_order_of_the_anchors() -> None:
    """With a permuted batch, each pair keeps its loss."""
    scores, z = draw_scores(6, 3.0), draw_scores(6, 1.0, seed=1)[:, :2]
    clusters = torch.tensor([0, 0, 1, 1, 0, 1])
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = scores[:, order]
    positive = order.argsort()
    gram = kernels.rbf(z)
    plain = [
        symmetric(objectives.y_aware)(scores, gram),
        symmetric(objectives.cclk_fair)(scores, gram, 0.1),
        symmetric(objectives.cclk_hard_negative)(scores, z, 0.1),
        symmetric(objectives.fair)(scores, clusters),
        symmetric(objectives.conditional_uniformity)(scores, gram),
    ]
    moved = [
        symmetric(objectives.y_aware)(shuffled, kernels.rbf(z[order]), positive=positive),
        symmetric(objectives.cclk_fair)(shuffled, kernels.rbf(z[order]), 0.1, positive),
        symmetric(objectives.cclk_hard_negative)(shuffled, z[order], 0.1, positive=positive),
        symmetric(objectives.fair)(shuffled, clusters[order], positive),
        symmetric(objectives.conditional_uniformity)(
            shuffled, kernels.rbf(z[order]), positive=positive
        ),
    ]
    for before, after in zip(plain, moved, strict=True):
        torch.testing.assert_close(before, after)


def test_gradients_reach_the_scores_in_both_directions() -> None:
    scores = draw_scores(5, 3.0).requires_grad_()
    positive = torch.tensor([1, 1, 0, 4, 2])
    both = symmetric(objectives.debiased)
    assert torch.autograd.gradcheck(lambda s: both(s, 0.1, 3.0, positive=positive), (scores,))


def test_objectives_of_ones_own() -> None:
    scores = draw_scores(5, 3.0)
    found = symmetric(lambda s: objectives.info_nce(s))(scores)
    torch.testing.assert_close(found, symmetric(objectives.info_nce)(scores))


def test_extra_positives_have_one_direction() -> None:
    scores = draw_scores(4, 3.0)
    with pytest.raises(ValueError, match="extra"):
        symmetric(objectives.debiased)(scores, 0.1, 3.0, extra=scores[:, :2])
