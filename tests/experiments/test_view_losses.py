from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext import objectives
from cxrtext.experiments.view_losses import Known, ViewSettings, floored, view_losses
from tests.objectives import reference_loops as loops

GAMMA = 5.0


def embeddings(views: int = 2, images: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(views)
    center = torch.randn(images, 8, generator=generator)
    z = center + 0.6 * torch.randn(views, images, 8, generator=generator)
    return F.normalize(z, dim=-1)


def evaluate(z: Tensor, name: str, known: Known | None = None, **given: Any) -> Tensor:
    shared = {k: given.pop(k) for k in ("aggregate", "without_same_class") if k in given}
    objective = {"name": name, **given}
    settings = ViewSettings(
        objective, "lenet5", 1, (8,), 1, len(z[0]), 0.1, GAMMA, len(z) - 1, **shared
    )
    return view_losses(settings, z, known or known_of(z))


def known_of(z: Tensor, **known: Any) -> Known:
    """Of six images, two of a class."""
    labels = torch.tensor([0, 1, 0, 2, 0, 1]) if len(z[0]) == 6 else torch.arange(len(z[0]))
    return Known(**{"labels": labels, "metadata": labels[:, None].float(), **known})


class Plain:
    """Scores of every view with every other, in double precision."""

    def __init__(self, z: Tensor) -> None:
        views, images = z.shape[:2]
        flat, rows = z.detach().double().flatten(0, 1), torch.arange(views * images)
        self.scores = GAMMA * flat @ flat.T
        self.same = rows[:, None] % images == rows % images
        self.fellows = [((rows + turn * images) % len(rows)).tolist() for turn in range(1, views)]
        self.positives = torch.stack([self.scores[rows, f] for f in self.fellows], dim=1)
        self.negatives = self.scores[~self.same].view(len(rows), -1)

    def turns(self) -> Iterator[tuple[Tensor, list[int]]]:
        """Each fellow as the positive in turn, beside the views of other images."""
        for fellow in self.fellows:
            kept = self.scores.masked_fill(self.same, -torch.inf)
            rows = range(len(kept))
            kept[rows, fellow] = self.scores[rows, fellow]
            yield kept, fellow


def test_info_nce_is_simclr_s_loss() -> None:
    z = embeddings().requires_grad_()
    flat = z.flatten(0, 1)
    logits = GAMMA * flat @ flat.T - 1e9 * torch.eye(12)
    target = torch.cat([torch.arange(6, 12), torch.arange(6)])
    expected = F.cross_entropy(logits, target, reduction="none")
    losses = evaluate(z, "info-nce")
    assert torch.allclose(losses, expected, atol=1e-5)
    (ours,) = torch.autograd.grad(losses.mean(), z, retain_graph=True)
    (theirs,) = torch.autograd.grad(expected.mean(), z)
    assert torch.allclose(ours, theirs, atol=1e-6)
    z = F.normalize(torch.ones(2, 128, 4), dim=-1)  # 254 negatives at batch 128
    losses = evaluate(z, "info-nce")
    assert losses.exp().tolist() == pytest.approx([255] * 256, rel=1e-4)


@pytest.mark.parametrize("views", [2, 3])
def test_debiased_with_one_and_with_true_probabilities(views: int) -> None:
    z, eta = embeddings(views), torch.linspace(0.05, 0.3, 6)
    for name, given, own in (
        ("dcl-eta", {"eta": 0.1}, [0.1] * 6),
        ("dcl-eta-true", {}, eta.tolist()),
    ):
        found = evaluate(z, name, known_of(z, eta=eta), **given)
        turns = Plain(z).turns()
        wanted = [loops.debiased(s, own * views, GAMMA, positive=p) for s, p in turns]
        assert found.numpy() == pytest.approx(np.mean(wanted, axis=0), abs=1e-4)


def test_grouped_debiased_takes_the_mean_of_its_positives() -> None:
    z = embeddings(3)
    found, plain = evaluate(z, "dcl-eta", eta=0.1, aggregate="group"), Plain(z)
    wanted = [loops.debiased(s, [0.1] * 18, GAMMA, plain.positives, p) for s, p in plain.turns()]
    assert found.numpy() == pytest.approx(np.mean(wanted, axis=0), abs=1e-4)


@pytest.mark.parametrize("aggregate", ["loss", "group"])
@pytest.mark.parametrize("views", [2, 3])
def test_positive_debiased(views: int, aggregate: str) -> None:
    z = embeddings(views)
    found, plain = evaluate(z, "positive-debiased", tau_plus=0.3, aggregate=aggregate), Plain(z)
    wanted = loops.positive_debiased(plain.positives, plain.negatives, GAMMA, 0.3, GAMMA, aggregate)
    assert found.numpy() == pytest.approx(wanted, abs=1e-4)


def test_negatives_of_the_same_class_are_left_out() -> None:
    z = embeddings()
    found = evaluate(z, "info-nce", without_same_class=True)
    [(scores, fellow)] = Plain(z).turns()
    classes = known_of(z).labels.repeat(2)
    wanted = loops.remove_negatives(scores, classes[:, None] == classes, fellow)
    assert found.numpy() == pytest.approx(wanted, abs=1e-4)


def test_supervised_has_every_view_of_the_class_as_a_positive() -> None:
    z = embeddings()
    found, plain, classes = evaluate(z, "supervised"), Plain(z), known_of(z).labels.repeat(2)
    others = plain.scores.fill_diagonal_(-torch.inf)
    wanted = loops.supervised(others, classes[:, None] == classes, plain.fellows[0])
    assert found.numpy() == pytest.approx(wanted, abs=1e-4)


def test_alignment_and_uniformity_is_of_the_embeddings() -> None:
    z = embeddings()
    assert torch.equal(evaluate(z, "alignment-uniformity"), objectives.alignment_uniformity(*z))


def alignment_and_uniformity(scores: Tensor, kernel: Tensor) -> Tensor:
    aligned = objectives.conditional_alignment(scores, kernel)
    return aligned + objectives.conditional_uniformity(scores, kernel)


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("y-aware", objectives.y_aware),
        ("fair-cclk", partial(objectives.cclk_fair, ridge=0.1)),
        ("conditional-alignment-uniformity", alignment_and_uniformity),
    ],
)
@pytest.mark.parametrize("categories", [True, False])
def test_objectives_with_a_kernel_see_one_turn_of_views(
    name: str, objective: Any, categories: bool
) -> None:
    z, metadata = embeddings(), torch.tensor([[-1.0, -0.5, 0.0, 0.3, 0.9, 0.9]]).T
    found = evaluate(z, name, known_of(z, metadata=metadata, categories=categories))
    compare = objectives.kernels.delta if categories else objectives.kernels.rbf
    block = GAMMA * z[0] @ z[1].T
    expected = torch.cat([objective(s, compare(metadata)) for s in (block, block.T)])
    assert torch.allclose(found, expected, atol=1e-5)


def test_objectives_with_clusters_see_one_turn_of_views() -> None:
    z, clusters = embeddings(), torch.tensor([0, 1, 0, 2, 1, 0])
    block = GAMMA * z[0] @ z[1].T
    found = evaluate(z, "fair-info-nce", known_of(z, metadata=clusters[:, None].float()))
    expected = torch.cat([objectives.fair(s, clusters) for s in (block, block.T)])
    assert torch.allclose(found, expected, atol=1e-5)


def test_hard_negatives_by_kernel_take_the_anchors_own_embeddings() -> None:
    z = embeddings()
    found = evaluate(z, "hardneg-cclk", kernel="linear")
    block = GAMMA * z[0] @ z[1].T
    expected = [
        objectives.cclk_hard_negative(scores, view, 0.1, objectives.kernels.linear)
        for scores, view in ((block, z[0]), (block.T, z[1]))
    ]
    assert torch.allclose(found, torch.cat(expected), atol=1e-5)


def test_the_share_of_floored_anchors() -> None:
    z = F.normalize(torch.eye(6)[None] + 1e-3, dim=-1).repeat(2, 1, 1)
    z[:, 4:] = z[:, :1]  # three images alike: their negatives are taken away
    settings = ViewSettings({"name": "dcl-eta", "eta": 0.3}, "lenet5", 1, (8,), 1, 6, 0.1, GAMMA)
    losses = view_losses(settings, z, known_of(z))
    assert floored(settings, losses, z) == 0.5  # of the others
