"""Alignment and uniformity from scores.  Source: Wang and Isola 2020, section 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cxrtext.config import Weight
from cxrtext.training.objectives.shared import objective

if TYPE_CHECKING:
    from torch import Tensor

T = 2.0


class Objective(objective.Objective):
    """Has no direction, so it cannot be symmetric."""

    weight: Weight = 1.0

    def __call__(self, d: objective.Direction) -> objective.Terms:
        assert d.texts is not None  # noqa: S101 - training gives them
        return objective.Terms(on_sphere(d.scores, d.positive, d.gamma_sq, d.texts, self.weight))


def on_sphere(
    scores: Tensor, image_of: Tensor, gamma_sq: Tensor, texts: Tensor, weight: float
) -> Tensor:
    """``‖x − x⁺‖² + λ log E e^{−t‖x − x'‖²}``, t = 2, for sentences and their images.

    A score divided by γ² is a cosine, whatever the similarity, so ``‖x − y‖² = 2 − 2 s/γ²``; an
    image has no single vector.  So uniformity is the mean of the uniformity among sentences and
    that between sentences and images, which replaces that among images; both leave out pairs with
    the same image.  γ² cancels and is not learned.

    From scores [S, B], scaled by γ², the image of each sentence [S], unit vectors [S, D] and the
    weight λ, gives the alignment of each sentence plus the weighted uniformity of all, [S].

    Source: Wang and Isola 2020 (alignment and uniformity), section 4; the form for scores is ours.
    """
    import torch

    squared = 2 - 2 * scores.float() / gamma_sq
    own = image_of[:, None] == torch.arange(scores.shape[1], device=scores.device)
    alignment = squared.gather(1, image_of[:, None]).squeeze(1)
    with torch.autocast(texts.device.type, enabled=False):
        among = 2 - 2 * texts.float() @ texts.float().T
    uniformity = (_log_mean(among, image_of[:, None] == image_of) + _log_mean(squared, own)) / 2
    return alignment + weight * uniformity


def _log_mean(squared: Tensor, related: Tensor) -> Tensor:
    """``log E e^{−t d²}`` over pairs that are not related; 0 if there are none."""
    import torch

    count = (~related).sum()
    none = count == 0
    logits = (-T * squared).masked_fill(related & ~none, -torch.inf)
    # In float64, rounded once.
    log_count = count.clamp(min=1).double().log().to(squared.dtype)
    return torch.where(none, 0.0, torch.logsumexp(logits.flatten(), dim=0) - log_count)
