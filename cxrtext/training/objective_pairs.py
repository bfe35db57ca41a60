"""What an objective is given of a batch beside its scores, and what it gives back."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Pairs:
    """S sentences and B images, S >= B; the first B sentences belong to images 0 to B − 1.

    Args:
        image_of: [S], the image (column of the scores) that each sentence belongs to.
        eta: [S], class probability of each sentence.
        labels: [B, F], boolean, the findings of each image's study.
        vectors: [S, d], unit text vectors, for the similarity of texts.
        metadata: [B, M], float32: standardised numbers, and categories as whole numbers.
    """

    image_of: Tensor
    eta: Tensor
    labels: Tensor | None = None
    vectors: Tensor | None = None
    metadata: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What an objective makes of a batch.

    Args:
        losses: One loss an anchor, in nats, to be averaged: [S], or [S + B] where the objective is
            symmetric, weighted so that both directions count the same.
        floored: Share of anchors at a floor of a debiased loss; 0 for other losses.
        without_negatives: Anchors of which every negative was removed.
    """

    losses: Tensor
    floored: float = 0.0
    without_negatives: int = 0
