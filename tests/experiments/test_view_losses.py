from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext import objectives
from cxrtext.config import objective_class, read_objective
from cxrtext.experiments.simclr.losses import Known, ViewSettings, view_losses
from cxrtext.objectives.contrastive import score_views, view_accuracy
from cxrtext.training.objectives.shared.metadata import Kind
from cxrtext.training.objectives.shared.objective import Terms, as_objective
from tests.objectives import reference_loops as loops

GAMMA = 5.0


def embeddings(views: int = 2, images: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(views)
    center = torch.randn(images, 8, generator=generator)
    z = center + 0.6 * torch.randn(views, images, 8, generator=generator)
    return F.normalize(z, dim=-1)


def evaluate(
    z: Tensor, name: str, known: Known | None = None, kinds: tuple[Kind, ...] = (), **given: Any
) -> Terms:
    keys = ("condition", "kernel", "eta", "tau_plus", "ridge", "beta", "weight")
    chosen = {"name": name, **{k: given.pop(k) for k in keys if k in given}}
    taken = objective_class(name).model_fields
    section = as_objective(read_objective({k: v for k, v in chosen.items() if k in taken}))
    given |= {"batch": z.shape[1], "positives": len(z) - 1, "gamma_sq": GAMMA}
    settings = ViewSettings(section, "lenet5", width=1, head=(8,), steps=1, lr=0.1, **given)
    gamma_sq = torch.tensor(GAMMA)
    scores = score_views(z, gamma_sq)
    return view_losses(settings, kinds, scores, z, known or Known(), gamma_sq)


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
    losses = evaluate(z, "info-nce").losses
    assert torch.allclose(losses, expected, atol=1e-5)
    (ours,) = torch.autograd.grad(losses.mean(), z, retain_graph=True)
    (theirs,) = torch.autograd.grad(expected.mean(), z)
    assert torch.allclose(ours, theirs, atol=1e-6)
    z = F.normalize(torch.ones(2, 128, 4), dim=-1)  # 254 negatives at batch 128
    losses = evaluate(z, "info-nce").losses
    assert losses.exp().tolist() == pytest.approx([255] * 256, rel=1e-4)


@pytest.mark.parametrize("views", [2, 3])
def test_debiased_with_one_and_with_true_probabilities(views: int) -> None:
    z, eta = embeddings(views), torch.linspace(0.05, 0.3, 6)
    for name, known, own in (
        ("dcl-eta", Known(), [0.1] * 6),
        ("dcl-eta-true", Known(eta=eta), eta.tolist()),
    ):
        found = evaluate(z, name, known, eta=0.1).losses
        turns = Plain(z).turns()
        wanted = [loops.debiased(s, own * views, GAMMA, positive=p) for s, p in turns]
        assert found.numpy() == pytest.approx(np.mean(wanted, axis=0), abs=1e-4)


def test_grouped_debiased_takes_the_mean_of_its_positives() -> None:
    z = embeddings(3)
    found, plain = evaluate(z, "dcl-eta", eta=0.1, aggregate="group").losses, Plain(z)
    wanted = [loops.debiased(s, [0.1] * 18, GAMMA, plain.positives, p) for s, p in plain.turns()]
    assert found.numpy() == pytest.approx(np.mean(wanted, axis=0), abs=1e-4)


@pytest.mark.parametrize("aggregate", ["loss", "group"])
@pytest.mark.parametrize("views", [2, 3])
def test_positive_debiased(views: int, aggregate: str) -> None:
    z = embeddings(views)
    found, plain = evaluate(z, "positive-debiased", tau_plus=0.3, aggregate=aggregate), Plain(z)
    wanted = loops.positive_debiased(plain.positives, plain.negatives, GAMMA, 0.3, GAMMA, aggregate)
    assert found.losses.numpy() == pytest.approx(wanted, abs=1e-4)


def test_negatives_of_the_same_class_are_left_out() -> None:
    z, labels = embeddings(), torch.tensor([0, 1, 0, 2, 0, 1])
    known = Known(labels=labels)
    found = evaluate(z, "info-nce", known, without_same_class=True).losses
    [(scores, fellow)] = Plain(z).turns()
    classes = labels.repeat(2)
    wanted = loops.remove_negatives(scores, classes[:, None] == classes, fellow)
    assert found.numpy() == pytest.approx(wanted, abs=1e-4)
    alone = Known(labels=torch.zeros(6, dtype=torch.long))
    terms = evaluate(z, "info-nce", alone, without_same_class=True)
    assert not terms.losses.any()
    assert terms.without_negatives is not None
    assert bool(terms.without_negatives.all())


def test_supervised_has_every_view_of_the_class_as_a_positive() -> None:
    z, labels = embeddings(), torch.tensor([0, 1, 0, 2, 0, 1])
    found = evaluate(z, "supervised", Known(labels=labels)).losses
    plain, classes = Plain(z), labels.repeat(2)
    others = plain.scores.fill_diagonal_(-torch.inf)
    wanted = loops.supervised(others, classes[:, None] == classes, plain.fellows[0])
    assert found.numpy() == pytest.approx(wanted, abs=1e-4)


def test_alignment_and_uniformity_is_of_the_embeddings() -> None:
    z = embeddings()
    expected = objectives.alignment_uniformity(z[0], z[1], weight=0.5)
    assert torch.equal(evaluate(z, "alignment-uniformity", weight=0.5).losses, expected[None])


def alignment_and_uniformity(scores: Tensor, kernel: Tensor) -> Tensor:
    aligned = objectives.conditional_alignment(scores, kernel)
    return aligned + 0.7 * objectives.conditional_uniformity(scores, kernel)


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("y-aware", objectives.y_aware),
        ("fair-cclk", partial(objectives.cclk_fair, ridge=0.1)),
        ("weaksup-cclk", partial(objectives.cclk_weakly_supervised, ridge=0.1)),
        ("conditional-alignment-uniformity", alignment_and_uniformity),
    ],
)
def test_objectives_with_a_kernel_see_one_turn_of_views(name: str, objective: Any) -> None:
    z, metadata = embeddings(), torch.tensor([[-1.0, -0.5, 0.0, 0.3, 0.9, 1.5]]).T
    given = {"condition": ("age",), "weight": 0.7}
    found = evaluate(z, name, Known(metadata=metadata), ("number",), **given).losses
    kernel = objectives.kernels.rbf(metadata)
    block = GAMMA * z[0] @ z[1].T
    expected = torch.cat([objective(block, kernel), objective(block.T, kernel)])
    assert torch.allclose(found, expected, atol=1e-5)


def test_objectives_with_clusters_see_one_turn_of_views() -> None:
    z, clusters = embeddings(), torch.tensor([0, 1, 0, 2, 1, 0])
    known = Known(metadata=clusters[:, None].float())
    block = GAMMA * z[0] @ z[1].T
    terms = evaluate(z, "fair-info-nce", known, ("category",), condition=("site",))
    expected = torch.cat([objectives.fair(s, clusters) for s in (block, block.T)])
    assert torch.allclose(terms.losses, expected, atol=1e-5)
    assert terms.without_negatives is not None
    assert terms.without_negatives.tolist() == [False, False, False, True, False, False] * 2
    terms = evaluate(z, "weaksup-info-nce", known, ("category",), condition=("site",))
    expected = torch.cat([objectives.weakly_supervised(s, clusters) for s in (block, block.T)])
    assert torch.allclose(terms.losses, expected, atol=1e-5)


def test_hard_negatives_by_kernel_take_the_anchors_own_embeddings() -> None:
    z = embeddings()
    found = evaluate(z, "hardneg-cclk", ridge=0.5).losses
    block = GAMMA * z[0] @ z[1].T
    expected = [
        objectives.cclk_hard_negative(scores, own, 0.5)
        for scores, own in ((block, z[0]), (block.T, z[1]))
    ]
    assert torch.allclose(found, torch.cat(expected), atol=1e-5)


def test_accuracy_by_hand() -> None:
    z = F.normalize(torch.eye(4)[None].repeat(2, 1, 1), dim=-1)
    assert float(view_accuracy(score_views(z, torch.tensor(GAMMA)), 2)) == 1
    turned = torch.stack([z[0], z[0].roll(1, dims=0)])
    assert float(view_accuracy(score_views(turned, torch.tensor(GAMMA)), 2)) == 0
