"""How well an image supports sentences: the percentile of a score among other images."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.quantised import pooled, unpack
from cxrtext.index.scoring import exact_scores
from cxrtext.index.state import State
from cxrtext.index.vectors import rows_of
from cxrtext.models import ImageTextModel
from cxrtext.models.quantised import pack
from cxrtext.models.reference import MOST, Reference
from cxrtext.pausing import Pausing, finish

Scores = NDArray[np.float32]

REMEMBERED = 4096
"""Sentences whose reference scores are kept; of 512 images each this is 8 MiB."""

SCORED_AT_ONCE = 16
"""Reference images; bounds memory, and the time between two pauses."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class ReferenceScores:
    """Scores of sentences with reference images, remembered; threads may share one.

    Args:
        model: The model.
        reference: The images.
        size: How many sentences to keep; of each its digest, not its text.
    """

    def __init__(self, model: ImageTextModel, reference: Reference, size: int = REMEMBERED) -> None:
        self.reference = reference
        self._model = model
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Scores] = OrderedDict()

    def of(self, sentences: Sequence[str], texts: Tensor, side: int) -> list[Scores]:
        """Scores of each sentence with every reference image, in rising order.

        Args:
            sentences: S of them.
            texts: [S, D], their embeddings.
            side: Regions along a side of the image that is asked about.  Where the reference has
                more, they are pooled to as many, for a score depends on it.
        """
        return finish(self.of_pausing(sentences, texts, side))

    def of_pausing(
        self, sentences: Sequence[str], texts: Tensor, side: int
    ) -> Pausing[list[Scores]]:
        """As :meth:`of`, with pauses."""
        keys = [_key(sentence, side) for sentence in sentences]
        with self._lock:
            missing = {key: i for i, key in enumerate(keys) if key not in self._known}
            found = {key: self._known[key] for key in keys if key not in missing}
            for key in found:
                self._known.move_to_end(key)
        if missing:
            scored = yield from self._score(texts[list(missing.values())], side)
            found |= zip(missing, scored, strict=True)
            with self._lock:
                self._known.update(zip(missing, scored, strict=True))
                while len(self._known) > self._size:
                    self._known.popitem(last=False)
        return [found[key] for key in keys]

    def _score(self, texts: Tensor, side: int) -> Pausing[Scores]:
        parts = []
        for start in range(0, len(self.reference), SCORED_AT_ONCE):
            regions = at_side(self.reference.regions(start, start + SCORED_AT_ONCE), side)
            parts.append(exact_scores(self._model, regions, texts))
            yield
        scores: Scores = np.sort(torch.cat(parts, dim=1).numpy(), axis=1)
        return scores


def _key(sentence: str, side: int) -> bytes:
    return hashlib.blake2b(f"{side}:{sentence}".encode(), digest_size=16).digest()


def at_side(regions: Tensor, side: int) -> Tensor:
    """Regions [B, N, D] of a grid with at most ``side`` regions along a side, pooled if need be."""
    own = math.isqrt(regions.shape[1])
    return regions if own <= side else pooled(regions, math.ceil(own / side))


def percentile(score: float, others: Scores) -> float:
    """Per cent of scores that are below one; equal ones count half.

    Args:
        score: The score.
        others: In rising order, at least one.
    """
    below = int(np.searchsorted(others, np.float32(score), side="left"))
    upto = int(np.searchsorted(others, np.float32(score), side="right"))
    return 50.0 * (below + upto) / len(others)


def index_reference(states: Sequence[State], count: int = MOST) -> Reference | None:
    """Images of an index as a reference, for checkpoints that have none of their own.

    Which ones depends on their numbers, as if drawn at random once and for all, so that a
    percentile changes little while images come and go.

    Args:
        states: Of the index, or of several.
        count: Most images.

    Returns:
        The reference; None where there is no image.
    """
    drawn = [
        (int(key), which, int(place))
        for which, state in enumerate(states)
        for places in [np.flatnonzero(state.numbers >= 0)]
        for key, place in zip(_keys(state.numbers[places], which), places, strict=True)
    ]
    chosen = sorted(drawn)[:count]
    if not chosen:
        return None
    parts = []
    for which, state in enumerate(states):
        places = sorted(place for _, index, place in chosen if index == which)
        if places:
            parts.append(unpack(rows_of(state.arrays["regions"], np.array(places))))
    side = min(math.isqrt(part.shape[1]) for part in parts)
    rows = [pack(at_side(part, side), "int8") for part in parts]
    return Reference(np.concatenate(rows), "index")


def _keys(numbers: NDArray[np.int64], which: int) -> NDArray[np.uint64]:
    keys: NDArray[np.uint64] = (
        numbers.astype(np.uint64) * np.uint64(64) + np.uint64(which)
    ) * _SPREAD
    return keys
