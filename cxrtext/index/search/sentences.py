"""Sentences that fit an image, ranked by how much better they fit it than the other images.

A contrastive loss compares images for one sentence, never sentences for one image.  So a sentence's
level of scores over all images is arbitrary, and ranking by score puts sentences first that score
high in every image.  Their lift does not depend on this level: with s the score and γ² the learned
scale, ``γ² s(x, t) − log mean_b exp(γ² s(b, t))`` over images b of the archive estimates
``log p(x | t) / p(x)``, the pointwise mutual information, in nats.  Source: van den Oord, Li and
Vinyals 2018, section 2.3 (what InfoNCE learns); Smith et al. 2017 (inverted softmax).
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.features.scoring import exact_scores
from cxrtext.index.search.hits import SentenceHit
from cxrtext.index.search.index import Index
from cxrtext.index.search.selection import sentences_of
from cxrtext.index.store.snapshot import Snapshot
from cxrtext.index.store.vectors import rows_of
from cxrtext.models.regions import unpack
from cxrtext.pausing import Pausing

SENTENCES_AT_ONCE = 4096
BACKGROUND = 128  # images of the archive to compare a sentence with
FEWEST = 16  # with fewer images, rank sentences by their scores
COMPARED_AT_ONCE = 256  # sentences to score with the background in one piece of work
_SCATTER = np.uint64(0x9E3779B97F4A7C15)

Numbers = NDArray[np.int64]
Background = tuple[int, ...]
"""The numbers of the chosen images."""


class Usual:
    """Scores of sentences in images at large, which are chosen from the archive itself.

    Computed values are kept, even if the work is stopped early.
    """

    def __init__(self) -> None:
        self._kept: tuple[Background, Numbers, Tensor]
        self._kept = (), np.empty(0, dtype=np.int64), torch.empty(0)

    def of(self, index: Index, snapshot: Snapshot) -> Pausing[Tensor | None]:
        """The logarithmic mean of γ² s for every sentence [s], in nats; None in a small archive."""
        background = choose_background(snapshot)
        if len(background) < FEWEST:
            return None
        numbers, kept = snapshot.sentence_numbers, self._kept
        before = kept[1:] if kept[0] == background else (numbers[:0], torch.empty(0))
        values, missing = _known(numbers, *before)
        if not len(missing):
            return values
        regions = background_regions(snapshot, background)
        try:
            for at in np.array_split(missing, -(-len(missing) // COMPARED_AT_ONCE)):
                values[at] = _usual(index, regions, snapshot.texts[at])
                yield
        finally:
            there = ~values.isnan()
            self._kept = background, numbers[there.numpy()], values[there]
        return values


def choose_background(snapshot: Snapshot, count: int = BACKGROUND) -> Background:
    """Choose images that represent the whole archive, by their numbers alone.

    The choice is like a random draw made once, so little changes while images come and go.
    """
    numbers = snapshot.numbers[snapshot.live]
    # Scatter the images' numbers; the lowest keys are chosen first.
    keys = numbers.astype(np.uint64) * _SCATTER
    return tuple(numbers[np.sort(np.argsort(keys, kind="stable")[:count])].tolist())


def background_regions(snapshot: Snapshot, background: Background) -> Tensor:
    """Regions of the chosen images, [b, N, D]."""
    places = snapshot.places_of(np.array(background, dtype=np.int64))
    return unpack(rows_of(snapshot.arrays["regions"], places))


def _known(numbers: Numbers, before: Numbers, values: Tensor) -> tuple[Tensor, Numbers]:
    """Values [s], NaN if unknown, and the places of the unknown ones."""
    all_values = torch.full((len(numbers),), math.nan)
    _, now, then = np.intersect1d(numbers, before, assume_unique=True, return_indices=True)
    all_values[now] = values[then]
    return all_values, np.setdiff1d(np.arange(len(numbers)), now, assume_unique=True)


@torch.inference_mode()
def _usual(index: Index, regions: Tensor, texts: Tensor) -> Tensor:
    scaled = index.model.gamma_sq.item() * exact_scores(index.model, regions, texts)
    return torch.logsumexp(scaled, dim=1) - math.log(scaled.shape[1])


@torch.inference_mode()
def image_scores(index: Index, snapshot: Snapshot, regions: Tensor) -> Pausing[Tensor]:
    """Scores [s] of all sentences of an index with an image's regions [N, D]; with pauses."""
    image = regions[None].float()
    parts = []
    for texts in snapshot.texts.split(SENTENCES_AT_ONCE):
        parts.append(exact_scores(index.model, image, texts)[:, 0])
        yield
    return torch.cat(parts) if parts else torch.empty(0)


def best_sentences(
    index: Index,
    snapshot: Snapshot,
    scores: Tensor,
    usual: Tensor | None,
    k: int,
    *,
    where: str | None = None,
    min_score: float = -math.inf,
) -> Pausing[list[SentenceHit]]:
    """The k best sentences of a snapshot, best first; work that pauses.

    Args:
        scores: Of each sentence, [s].
        usual: From :class:`Usual`, [s], to rank by lift; None ranks by score.
    """
    said = None if where is None else (yield from sentences_of(index.catalogue, snapshot, where))
    lifts = None if usual is None else index.model.gamma_sq.item() * scores - usual
    order = np.argsort(-(scores if lifts is None else lifts).numpy(), kind="stable")
    hits: list[SentenceHit] = []
    for at in order[scores.numpy()[order] >= min_score]:
        if len(hits) == k:
            break
        number = int(snapshot.sentence_numbers[at])
        if said is None or number in said:
            row = index.catalogue.sentence(number)
            if row is not None:
                lift = None if lifts is None else float(lifts[at])
                hits.append(SentenceHit(row[0], float(scores[at]), row[1], lift))
            yield
    return hits
