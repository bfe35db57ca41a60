"""Images of an index by falling score, one at a time, as many as are asked for."""

import heapq
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.query import Query
from cxrtext.index.state import Numbers, State
from cxrtext.index.vectors import fetch, rows_of
from cxrtext.models import ImageTextModel

BOUND_BYTES = 2**19
"""Sketches whose bounds are computed at once: they stay in a processor's cache."""

LEAST_A_THREAD = 2000
"""Images whose bounds are worth a thread of their own."""

FIRST_BLOCK, LARGEST_BLOCK = 64, 1024
"""Images scored at once; the block doubles while no end is in sight."""

AHEAD = 16
"""Pieces of sketches that are being read from the disk while one is worked on."""

Scored = tuple[float, int]
"""Score and place."""


@dataclass(slots=True)
class Effort:
    """What a search took.

    Args:
        images: Images that the filters leave.
        scored: Images scored exactly.
        exact: Whether the order is proven to be that of all exact scores.
    """

    images: int = 0
    scored: int = 0
    exact: bool = True


@torch.inference_mode()
def exact_order(
    state: State, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """Images in the exact order of their scores; equal ones in the order of their places.

    Images are scored in the order of their upper bounds.  One whose score is above the bound of
    every image not yet scored is the next best.
    """
    upper = _upper_bounds(state, model, query, places)
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
            block = min(2 * block, LARGEST_BLOCK)
            if query.has_sentences:  # the next ones are read while these are scored
                fetch(state.arrays["regions"], np.sort(places[order[begun : begun + block]]))
            for scored in zip(scores_of(state, model, query, chosen), chosen, strict=True):
                heapq.heappush(heap, (-float(scored[0]), int(scored[1])))
            effort.scored += len(chosen)


def _upper_bounds(
    state: State, model: ImageTextModel, query: Query, places: Numbers
) -> NDArray[np.float32]:
    workers = min(torch.get_num_threads(), 1 + len(places) // LEAST_A_THREAD)
    if workers == 1:
        return _bounds_of(state, model, query, places)
    shares = np.array_split(places, workers)
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate(
            list(pool.map(lambda share: _bounds_of(state, model, query, share), shares))
        )


def _bounds_of(
    state: State, model: ImageTextModel, query: Query, places: Numbers
) -> NDArray[np.float32]:
    sketches = state.arrays["sketch"]
    wants = query.has_sentences and model.spec.aggregator != "global"
    looked_at = sketches if wants else state.arrays["means"]
    row_bytes = looked_at.dtype.itemsize * int(np.prod(looked_at.shape[1:]))
    rows = max(1, BOUND_BYTES // row_bytes)
    parts = []
    fetch(looked_at, places[: AHEAD * rows])
    for start in range(0, len(places), rows):
        part = places[start : start + rows]
        fetch(looked_at, places[start + AHEAD * rows : start + (AHEAD + 1) * rows])
        given = rows_at(sketches, part) if wants else torch.empty(0)
        means = rows_at(state.arrays["means"], part)
        parts.append(query.upper(model, given, means, state.language.basis).numpy())
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)


def rows_at(array: NDArray[np.float16] | NDArray[np.float32], places: Numbers) -> Tensor:
    """Rows at rising places, in float32; as one piece where they lie together."""
    first, last = int(places[0]), int(places[-1]) + 1
    chosen = array[first:last] if last - first == len(places) else array[places]
    return torch.from_numpy(np.array(chosen)).float()


def scores_of(
    state: State, model: ImageTextModel, query: Query, places: Numbers
) -> NDArray[np.float32]:
    """Scores of the images at rising places, by the model."""
    means = rows_at(state.arrays["means"], places)
    packed = rows_of(state.arrays["regions"], places) if query.has_sentences else None
    scores: NDArray[np.float32] = query.exact(model, packed, means).numpy()
    return scores
