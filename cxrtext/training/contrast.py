"""From embeddings to losses: all sentences of the batch against all of its images."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.models import ImageTextModel
from cxrtext.training.batch import Batch, span
from cxrtext.training.distributed import Processes
from cxrtext.training.gather import gather_same, gather_shared
from cxrtext.training.objective_pairs import Pairs, Result

Objective = Callable[[Tensor, Pairs, Tensor, Tensor, torch.Generator], Result]
"""Scores [S, B] scaled by γ², pairs, γ², texts [S, D], and a source of draws."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored batch.

    Args:
        scores: [S, B], scaled by γ².
        gamma_sq: γ².
        texts: [S, D], unit vectors.
    """

    scores: Tensor
    gamma_sq: Tensor
    texts: Tensor


def score_batch(
    model: ImageTextModel, regions: Tensor, texts: Tensor, batch: Batch, processes: Processes
) -> Scored:
    """Score all sentences of a batch against all of its images.

    With several processes each scores all sentences against its own images, which is the work that
    counts; then the columns are put together, so that every process has the whole matrix and can
    compute any objective on it exactly.  Sentences travel, not regions: they are N times smaller.

    Args:
        model: Gives the similarity and γ².
        regions: [b, N, D], of this process's images.
        texts: [u, D], of this process's distinct sentences.
        batch: The batch.
        processes: The processes among which it is divided.
    """
    gamma_sq, rank, world = model.gamma_sq, processes.rank, processes.world
    if world == 1:
        said = _rows(texts, batch.text_of)
        return Scored(gamma_sq * model.scores(regions, said), gamma_sq, said)
    shares = [span(batch.distinct, r, world) for r in range(world)]
    sizes = [share.stop - share.start for share in shares]
    everyone = _rows(gather_shared(texts, sizes, rank), batch.text_of)
    columns = gamma_sq * model.scores(regions, everyone)  # [S, b]
    scores = gather_same(columns.T.contiguous(), [len(regions)] * world, rank).T
    # γ² in the loss itself is seen by every process: each answers for its part of the gradient.
    constant = gamma_sq.detach()
    return Scored(
        scores,
        constant + (gamma_sq - constant) / world,
        _rows(gather_same(texts, sizes, rank), batch.text_of),
    )


def _rows(texts: Tensor, text_of: Tensor) -> Tensor:
    # A look-up and not an index, whose gradient several threads sum in the order they come in: with
    # it no run of two threads could be repeated.
    return F.embedding(text_of, texts)


def accuracy(scores: Tensor, image_of: Tensor) -> Tensor:
    """Share of sentences whose own image scores highest."""
    return (scores.detach().argmax(dim=1) == image_of).float().mean()
