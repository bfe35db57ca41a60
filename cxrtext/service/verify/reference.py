"""Scores of sentences in reference images, the basis of support and of heatmap colors."""

import hashlib
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index import Archive
from cxrtext.index.features.scoring import exact_scores
from cxrtext.index.search.sentences import background_regions, choose_background
from cxrtext.index.store.snapshot import Snapshot
from cxrtext.models import ImageTextModel
from cxrtext.models.reference import MAX_IMAGES, Reference, load_reference
from cxrtext.models.regions import pack
from cxrtext.pausing import Pausing
from cxrtext.service.cache import Remembered

Scores = NDArray[np.float32]

REMEMBERED = 4096
"""Sentences to remember, by a digest, not by their text; with 512 images each this is 8 MiB."""

SCORED_AT_ONCE = 16
"""Reference images; limits memory, and the time between two pauses."""

COLD, HOT = 75.0, 99.0
"""Percentiles of the reference images' best region: where the color of a sentence's heatmap begins,
and where it is full."""

LEAST_SPAN = 0.1
"""The least difference between the two, up to a score of 1: "The lungs are clear." has nearly the
same best region everywhere."""

Scale = tuple[float, float]


class Compared(NamedTuple):
    """A sentence's scores in the reference images."""

    scores: Scores  # in rising order
    scale: Scale  # where the color of its heatmap begins and is full, the same for every image


class ReferenceScores:
    """Compares sentences with reference images, and remembers them; threads may share one."""

    def __init__(self, model: ImageTextModel, reference: Reference, size: int = REMEMBERED) -> None:
        self.reference = reference
        self.model = model
        self._known: Remembered[bytes, Compared] = Remembered(size)

    def of(self, sentences: Sequence[str], texts: Tensor) -> Pausing[list[Compared]]:
        """Scores of each of S sentences, embeddings [S, D], with pauses."""
        keys = [_key(sentence) for sentence in sentences]
        compared = self._known.use(keys)
        missing = {key: i for i, key in enumerate(keys) if key not in compared}
        if missing:
            new = yield from self._compare(texts[list(missing.values())])
            made = dict(zip(missing, new, strict=True))
            compared |= made
            self._known.keep(made)
        return [compared[key] for key in keys]

    def _compare(self, texts: Tensor) -> Pausing[list[Compared]]:
        own = texts.float().cpu()
        scores, peaks = [], []
        for start in range(0, len(self.reference), SCORED_AT_ONCE):
            regions = self.reference.regions(start, start + SCORED_AT_ONCE)
            scores.append(exact_scores(self.model, regions, texts))
            with torch.inference_mode():
                peaks.append(self.model.maps(regions, own).amax(dim=-1))
            yield
        rows = np.sort(torch.cat(scores, dim=1).numpy(), axis=1)
        cold, hot = np.percentile(torch.cat(peaks, dim=1).numpy(), (COLD, HOT), axis=1).tolist()
        scales = [(c, min(max(h, c + LEAST_SPAN), 1.0)) for c, h in zip(cold, hot, strict=True)]
        return [Compared(*one) for one in zip(rows, scales, strict=True)]


class References:
    """The reference of a model: the checkpoint's, else images of its archive, else none.

    It is made once; an archive's is made again when the archive changes.
    """

    def __init__(self, model: ImageTextModel, archive: Archive | None) -> None:
        self._model, self.archive = model, archive
        self._lock = threading.Lock()
        self._made: tuple[ReferenceScores | None, Snapshot | None] | None = None

    def now(self) -> ReferenceScores | None:
        """The reference as it is now (CheckpointError)."""
        with self._lock:
            if self._made is not None and self._made[0] is not None and self._made[1] is None:
                return self._made[0]
            snapshot = None if self.archive is None else self.archive.snapshot
            if self._made is None or snapshot is not self._made[1]:
                self._made = self._make(snapshot)
            return self._made[0]

    def _make(self, snapshot: Snapshot | None) -> tuple[ReferenceScores | None, Snapshot | None]:
        model = self._model
        own = load_reference(model.folder, model) if model.folder is not None else None
        if own is not None:
            return ReferenceScores(model, own), None
        reference = None if snapshot is None else index_reference(snapshot)
        return None if reference is None else ReferenceScores(model, reference), snapshot


def _key(sentence: str) -> bytes:
    return hashlib.blake2b(sentence.encode(), digest_size=16).digest()


def percentile(score: float, others: Scores) -> float:
    """The percentage of ``others``, in rising order, below a score; equal ones count half."""
    below = int(np.searchsorted(others, np.float32(score), side="left"))
    upto = int(np.searchsorted(others, np.float32(score), side="right"))
    return 50.0 * (below + upto) / len(others)


def index_reference(snapshot: Snapshot, count: int = MAX_IMAGES) -> Reference | None:
    """Images of an archive as a reference for checkpoints without one; None without images."""
    if not snapshot.images:
        return None
    regions = background_regions(snapshot, choose_background(snapshot, count))
    return Reference(pack(regions, "int8"), "index")
