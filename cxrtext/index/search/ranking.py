"""Images of an index by falling score, one at a time, as many as are asked for."""

import heapq
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.features.candidates import Tuning, is_deep, nearest_places
from cxrtext.index.search.query import Query
from cxrtext.index.store.snapshot import Numbers, Snapshot, Structure
from cxrtext.index.store.vectors import fetch, rows_of
from cxrtext.models import ImageTextModel

BOUND_BYTES = 2**19  # sketches whose bounds are computed at once: they stay in a processor's cache
MIN_A_THREAD = 2000  # images whose bounds are worth a thread of their own

FIRST_BLOCK, MAX_BLOCK = 64, 1024
"""Images scored at once; the block doubles while no end is in sight."""

AHEAD = 16  # pieces of sketches that are being read from the disk while one is worked on
Scored = tuple[float, int]  # score and place


@dataclass(slots=True)
class Effort:
    """What a search took."""

    scored: int = 0  # images scored exactly
    exact: bool = True  # whether the order is proven to be that of all exact scores


@torch.inference_mode()
def exact_order(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """Images in the exact order of their scores; equal ones in the order of their places.

    Images are scored in the order of their upper bounds.  One whose score is above the bound of
    every image not yet scored is the next best.
    """
    upper = _upper_bounds(snapshot, model, query, places)
    order = np.argsort(-upper, kind="stable")
    heap: list[tuple[float, int]] = []
    block, begun = FIRST_BLOCK, 0
    while heap or begun < len(order):
        limit = float(upper[order[begun]]) if begun < len(order) else -np.inf
        while heap and -heap[0][0] > limit:
            score, place = heapq.heappop(heap)
            yield -score, place
        if begun < len(order):
            chosen = np.sort(places[order[begun : begun + block]])
            begun += len(chosen)
            block = min(2 * block, MAX_BLOCK)
            if query.has_sentences:  # the next ones are read while these are scored
                fetch(snapshot.arrays["regions"], np.sort(places[order[begun : begun + block]]))
            for scored in zip(scores_of(snapshot, model, query, chosen), chosen, strict=True):
                heapq.heappush(heap, (-float(scored[0]), int(scored[1])))
            effort.scored += len(chosen)


def _upper_bounds(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers
) -> NDArray[np.float32]:
    workers = min(torch.get_num_threads(), 1 + len(places) // MIN_A_THREAD)
    if workers == 1:
        return _bounds_of(snapshot, model, query, places)
    shares = np.array_split(places, workers)
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate(
            list(pool.map(lambda share: _bounds_of(snapshot, model, query, share), shares))
        )


def _bounds_of(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers
) -> NDArray[np.float32]:
    sketches = snapshot.arrays["sketch"]
    wants = query.has_sentences and model.spec.aggregator != "global"
    looked_at = sketches if wants else snapshot.arrays["means"]
    row_bytes = looked_at.dtype.itemsize * int(np.prod(looked_at.shape[1:]))
    rows = max(1, BOUND_BYTES // row_bytes)
    parts = []
    fetch(looked_at, places[: AHEAD * rows])
    for start in range(0, len(places), rows):
        part = places[start : start + rows]
        fetch(looked_at, places[start + AHEAD * rows : start + (AHEAD + 1) * rows])
        given = rows_at(sketches, part) if wants else torch.empty(0)
        means = _means_at(snapshot, model, query, part)
        parts.append(query.upper(model, given, means, snapshot.language.basis).numpy())
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)


def rows_at(array: NDArray[np.float16] | NDArray[np.float32], places: Numbers) -> Tensor:
    """Rows at rising places, in float32; as one piece where they lie together."""
    first, last = int(places[0]), int(places[-1]) + 1
    together = last - first == len(places)
    return torch.from_numpy(np.array(array[first:last]) if together else array[places]).float()


def _means_at(snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers) -> Tensor:
    """Mean regions at rising places; empty ones where the query does not look at them."""
    if query.image is None and model.spec.aggregator != "global":
        return torch.empty(len(places), 0)
    return rows_at(snapshot.arrays["means"], places)


def scores_of(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers
) -> NDArray[np.float32]:
    """Scores of the images at rising places, by the model."""
    means = _means_at(snapshot, model, query, places)
    packed = rows_of(snapshot.arrays["regions"], places) if query.has_sentences else None
    scores: NDArray[np.float32] = query.exact(model, packed, means).numpy()
    return scores


DEEPER = 4
"""By how much the fast search deepens when its candidates are used up, or the sentence is unlike
the inducing points."""

UNBOUNDED = 256  # candidates that are scored without asking their bounds first

MAX_EFFORT = 2**16

SCANNED = 16_384  # profiles that are read at once


@torch.inference_mode()
def fast_order(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """Images in the order of their scores among the candidates that profiles name.

    When the candidates are used up, more are looked for, and at last all that are left.
    """
    structure = snapshot.structure
    if structure is None or query.texts is None:
        raise ValueError("the fast search wants a structure and a text")
    effort.exact = False
    left = np.zeros(len(snapshot.numbers), dtype=bool)
    left[places] = True
    tuning = structure.tuning
    said = [part for part in (query.texts, query.without) if part is not None]
    if float(snapshot.language.novelty(torch.cat(said)).max()) > tuning.novelty:
        tuning = _deeper(tuning)
    while left.any():
        if query.is_one_product:
            chosen = _named_by_structure(snapshot, structure, query.texts, left, tuning)
        else:
            chosen = _named_by_scan(snapshot, query, np.flatnonzero(left), tuning.depth)
        left[chosen] = False
        # A graph or cells that a filter leaves little of may name nothing at first.
        if len(chosen) > UNBOUNDED:
            yield from exact_order(snapshot, model, query, chosen, effort)
        elif len(chosen):
            yield from _scored(snapshot, model, query, chosen, effort)
        if is_deep(tuning.depth, len(left)):
            break
        tuning = _deeper(tuning)
    yield from exact_order(snapshot, model, query, np.flatnonzero(left), effort)


def _scored(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """A few images by falling score, each of them scored."""
    scores = scores_of(snapshot, model, query, places)
    effort.scored += len(places)
    for i in np.argsort(-scores, kind="stable"):
        yield float(scores[i]), int(places[i])


def _deeper(tuning: Tuning) -> Tuning:
    return replace(
        tuning, depth=tuning.depth * DEEPER, effort=min(tuning.effort * DEEPER, MAX_EFFORT)
    )


def _named_by_structure(
    snapshot: Snapshot, structure: Structure, texts: Tensor, left: NDArray[np.bool_], tuning: Tuning
) -> Numbers:
    """Of the images that are left, those whose profiles fit best; in rising order."""
    weights = snapshot.language.weights(texts).mean(dim=0)
    known = left[: structure.places]
    selection = None if known.all() else known
    vector = structure.rotation.query(weights.numpy())
    found = nearest_places(structure.index, vector, tuning, selection)
    # Images added after the structure was made.
    tail = structure.places + np.flatnonzero(left[structure.places :])
    if len(tail) > tuning.depth:
        near = rows_at(snapshot.arrays["profiles"], tail) @ weights
        tail = tail[near.topk(tuning.depth).indices.sort().values.numpy()]
    return np.concatenate([found, tail])


def _named_by_scan(snapshot: Snapshot, query: Query, places: Numbers, count: int) -> Numbers:
    """Of some images, those that score highest by their profiles; in rising order."""
    if len(places) <= count:
        return places
    near = torch.cat(
        [
            query.near(
                snapshot.language,
                rows_at(snapshot.arrays["profiles"], part),
                None if query.image is None else rows_at(snapshot.arrays["means"], part),
            )
            for part in np.array_split(places, 1 + len(places) // SCANNED)
        ]
    )
    chosen: Numbers = places[near.topk(count).indices.sort().values.numpy()]
    return chosen
