"""The sentences of an archive by falling score."""

import math
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from cxrtext.index.catalogue import Catalogue
from cxrtext.index.hits import SentenceHit
from cxrtext.index.scoring import exact_scores
from cxrtext.index.selection import said_where
from cxrtext.index.state import State
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing

BLOCK = 4096


class SentenceOptions(TypedDict, total=False):
    """Which sentences are looked for.

    Args:
        where: A filter of images (see :mod:`cxrtext.index.where`); sentences of their studies.
        offset: Hits to skip, for the next page.
        min_score: Leave out what scores less.
    """

    where: str | None
    offset: int
    min_score: float


@torch.inference_mode()
def sentence_scores(state: State, model: ImageTextModel, regions: Tensor) -> Pausing[Tensor]:
    """Scores of every sentence of an index with an image of regions [N, D], [s]; with pauses."""
    image = regions[None].float()
    parts = []
    for part in state.texts.split(BLOCK):
        parts.append(exact_scores(model, image, part)[:, 0])
        yield
    return torch.cat(parts) if parts else torch.empty(0)


def best_sentences(
    state: State,
    catalogue: Catalogue,
    scores: Tensor,
    k: int,
    *,
    where: str | None = None,
    offset: int = 0,
    min_score: float = -math.inf,
) -> Pausing[list[SentenceHit]]:
    """A page of the sentences by falling score; work that pauses.

    Args:
        state: The view that the scores are of.
        catalogue: Open.
        scores: [s].
        k: Hits a page, at least 1.
        where: A filter of images; only what their studies say.
        offset: Hits to skip.
        min_score: Where to stop.

    Raises:
        DataError: The filter is wrong.
        ValueError: ``k`` or ``offset`` is out of range.
    """
    if k < 1 or offset < 0:
        raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
    said = None if where is None else (yield from said_where(catalogue, state, where))
    hits: list[SentenceHit] = []
    for at in np.argsort(-scores.numpy(), kind="stable"):
        number, score = int(state.sentence_numbers[at]), float(scores[at])
        if len(hits) == offset + k or score < min_score:
            break
        if said is None or number in said:
            found = catalogue.sentence(number)
            if found is not None:
                hits.append(SentenceHit(found[0], score, found[1]))
            yield
    return hits[offset:]
