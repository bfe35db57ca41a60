"""Every objective with arguments drawn for it, beside its loop: for tests and benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext import objectives
from cxrtext.objectives import kernels
from tests.objectives import reference_loops as loops


@dataclass(frozen=True)
class Case:
    """``ours`` and ``loop`` are functions of a square score matrix.

    Args:
        signed: Whether the loss can be 0 or less, so that its error is measured against 1 at least.
    """

    ours: Callable[[Tensor], Tensor]
    loop: Callable[[Tensor], list[float]]
    signed: bool = False


def both(
    ours: Callable[..., Tensor],
    loop: Callable[..., list[float]],
    *arguments: Any,
    signed: bool = False,
) -> Case:
    """A case whose function and loop take the same after the scores."""
    return Case(lambda s: ours(s, *arguments), lambda s: loop(s, *arguments), signed)


def draw_scores(n: int, scale: float, seed: int = 0) -> Tensor:
    """Uniform scores in ±scale, exact in float32, as float64 [n, n]."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(n, n, generator=generator)
    return (scale * (2 * uniform - 1)).double()


def worst_error(case: Case, scores: Tensor) -> float:
    """Largest relative error of float32 against the float64 loop; below 1e-30 a loss is 0."""
    found: list[float] = case.ours(scores.float()).detach().double().flatten().tolist()
    expected = case.loop(scores)
    least = 1.0 if case.signed else 1e-30
    pairs = zip(found, expected, strict=True)
    return max(abs(a - b) / max(abs(b), least) for a, b in pairs)


def _unit(scores: Tensor) -> Tensor:
    return F.normalize(scores if scores.dtype == torch.float64 else scores.float(), dim=1)


def cases(n: int, gamma_sq: float, seed: int = 0) -> dict[str, Case]:
    """Name -> case, for score matrices [n, n] of at least 8 rows, scaled by γ²."""
    generator = torch.Generator().manual_seed(seed)
    eta = 0.2 * torch.rand(n, generator=generator)
    age = 90 * torch.rand(n, generator=generator)
    sex = torch.randint(2, (n,), generator=generator)
    labels = torch.randint(2, (n, 5), generator=generator) * torch.randint(
        2, (n, 5), generator=generator
    )
    embeddings = F.normalize(torch.randn(n, 16, generator=generator), dim=1)
    cosines = embeddings @ embeddings.T
    clusters = (age / 30).long()
    gram = kernels.rbf(age, 8.0) * kernels.delta(sex)
    same = objectives.same_labels(labels)
    near = objectives.remove_by_text(cosines, 0.2)
    together = clusters[:, None] == clusters
    hard_gram = kernels.rbf(embeddings)

    def resampled(scores: Tensor) -> Tensor:
        drawn = torch.Generator().manual_seed(0)
        return objectives.resample_negatives(scores, cosines, n, 4.0, drawn)

    def grouped(aggregate: Literal["loss", "group"]) -> Case:
        rest = gamma_sq, 0.1, gamma_sq, aggregate
        return Case(
            lambda s: objectives.positive_debiased(s[:, :2], s[:, 2:], *rest),
            lambda s: loops.positive_debiased(s[:, :2], s[:, 2:], *rest),
        )

    found = {
        name: both(getattr(objectives, function), getattr(loops, function), *arguments)
        for name, function, arguments in (
            ("info-nce", "info_nce", ()),
            ("dcl-eta", "debiased", ([0.05] * n, gamma_sq)),
            ("dcl-eta-lm", "debiased", (eta.tolist(), gamma_sq)),
            ("remove-by-labels", "remove_negatives", (same,)),
            ("remove-by-text", "remove_negatives", (near,)),
            ("reweight-by-text", "reweight_negatives", (cosines, 4.0)),
            ("hard-negative", "hard_negative", (0.1, 0.5, gamma_sq)),
            ("supervised", "supervised", (same,)),
            ("weaksup-cclk", "cclk_weakly_supervised", (gram, 0.1)),
            ("fair-cclk", "cclk_fair", (gram, 0.1)),
        )
    }
    return found | {
        "resample-by-text": Case(resampled, loops.info_nce),
        "positive-debiased": grouped("loss"),
        "positive-debiased (group)": grouped("group"),
        "alignment-uniformity": Case(
            lambda s: objectives.alignment_uniformity(_unit(s), _unit(s.T)),
            lambda s: loops.alignment_uniformity(_unit(s), _unit(s.T), 2.0, 2.0, 1.0),
            signed=True,
        ),
        "y-aware": both(objectives.y_aware, loops.y_aware, gram, signed=True),
        "conditional-alignment": both(
            objectives.conditional_alignment, loops.conditional_alignment, gram, signed=True
        ),
        "conditional-uniformity": both(
            objectives.conditional_uniformity, loops.conditional_uniformity, gram, 1.0, signed=True
        ),
        "weaksup-info-nce": Case(
            lambda s: objectives.weakly_supervised(s, clusters),
            lambda s: loops.supervised(s, together),
        ),
        "fair-info-nce": Case(
            lambda s: objectives.fair(s, clusters), lambda s: loops.remove_negatives(s, ~together)
        ),
        "hardneg-cclk": Case(
            lambda s: objectives.cclk_hard_negative(s, embeddings, 0.1),
            lambda s: loops.cclk_fair(s, hard_gram, 0.1),
        ),
    }
