"""Alignment and uniformity of sentences and images, from their scores."""

import math

import torch
from torch import Tensor

T = 2.0
"""The uniformity's t."""


def losses_on_sphere(
    scores: Tensor, image_of: Tensor, gamma_sq: Tensor, texts: Tensor, weight: float
) -> Tensor:
    """``‖x − x⁺‖² + λ log E e^{−t‖x − x'‖²}``, t = 2, of sentences and their images.

    A score over γ² is a cosine, whatever the similarity, so ``‖x − y‖² = 2 − 2 s/γ²``; an image
    has no one vector.  Hence uniformity is the mean of that among sentences and that between
    sentences and images, which stands for that among images; both leave out pairs of one study's
    image.  γ² cancels and is not learned.

    Args:
        scores: [S, B], scaled by γ².
        image_of: [S], the image of each sentence.
        gamma_sq: γ².
        texts: [S, D], unit vectors.
        weight: λ.

    Returns:
        [S], alignment of each sentence plus the weighted uniformity of all.

    Source: Wang and Isola 2020 (alignment and uniformity), section 4; the form for scores is ours.
    """
    squared = 2 - 2 * scores.float() / gamma_sq
    own = image_of[:, None] == torch.arange(scores.shape[1], device=scores.device)
    alignment = squared.gather(1, image_of[:, None]).squeeze(1)
    with torch.autocast(texts.device.type, enabled=False):
        among = 2 - 2 * texts.float() @ texts.float().T
    related = image_of[:, None] == image_of
    uniformity = (_log_mean(among, related) + _log_mean(squared, own)) / 2
    return alignment + weight * uniformity


def _log_mean(squared: Tensor, related: Tensor) -> Tensor:
    """``log E e^{−t d²}`` over pairs that are not related; 0 where there is none."""
    count = int((~related).sum())
    if count == 0:
        return squared.new_zeros(())
    logits = (-T * squared).masked_fill(related, -torch.inf)
    return torch.logsumexp(logits.flatten(), dim=0) - math.log(count)
