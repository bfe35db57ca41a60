"""Images of an index by falling score, one at a time, as many as needed."""

import heapq
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.features.candidates import DEPTH, nearest_places
from cxrtext.index.search.query import Query
from cxrtext.index.store.snapshot import Numbers, Snapshot, Structure
from cxrtext.index.store.vectors import fetch
from cxrtext.models import ImageTextModel

BOUND_BYTES = 2**20  # sketches to compute bounds of at once, which fit a processor's cache
MIN_A_THREAD = 2000  # the fewest images per thread for bounds
MIN_SCORED_A_THREAD = 128  # the fewest images per thread for scores

FIRST_BLOCK, MAX_BLOCK = 64, 1024
"""Images scored at once; the block doubles until enough are found."""

SORTED, MORE = 16_384, 8
"""How many bounds to sort first, and the multiple of what is needed when these run out."""

AHEAD = 16  # pieces of sketches to read ahead from the disk
Scored = tuple[float, int]  # score and place
Floats = NDArray[np.float32]


@dataclass(slots=True)
class Effort:
    scored: int = 0  # images scored exactly
    exact: bool = True  # whether the order is proven to be the exact one


@torch.inference_mode()
def exact_order(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """Images in the exact order of their scores; equal ones in the order of their places.

    Images are scored in the order of their upper bounds.  An image that scores above the bounds of
    all images not yet scored is the next best.
    """
    upper = _upper_bounds(snapshot, model, query, places)
    order = highest(upper, SORTED)
    best: list[tuple[float, int, Iterator[Scored]]] = []  # each block's best, and its rest
    block, begun = FIRST_BLOCK, 0
    regions = snapshot.arrays["regions"]
    if query.has_sentences:
        fetch(regions, np.sort(places[order[:block]]))
    while best or begun < len(upper):
        limit = float(upper[order[begun]]) if begun < len(upper) else -np.inf
        while best and -best[0][0] > limit:
            score, place, left = heapq.heappop(best)
            _push(best, left)
            yield -score, place
        if begun < len(upper):
            if len(order) < min(begun + 4 * block, len(upper)):
                order = highest(upper, MORE * (begun + block))
            chosen = np.sort(places[order[begun : begun + block]])
            begun += len(chosen)
            block = min(2 * block, MAX_BLOCK)
            if query.has_sentences:  # read the next ones while these are scored
                fetch(regions, np.sort(places[order[begun : begun + block]]))
            _push(best, _scored(snapshot, model, query, chosen, effort))


def _push(best: list[tuple[float, int, Iterator[Scored]]], block: Iterator[Scored]) -> None:
    for score, place in block:
        heapq.heappush(best, (-score, place, block))
        return


def highest(upper: Floats, count: int) -> Numbers:
    """Positions of the ``count`` highest bounds, highest first, and of ties with the lowest.

    A larger ``count`` begins with the same positions.
    """
    if count < len(upper):
        least = np.partition(upper, len(upper) - count)[len(upper) - count]
        places = np.flatnonzero(upper >= least)
    else:
        places = np.arange(len(upper))
    return places[np.argsort(-upper[places], kind="stable")]


def _upper_bounds(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers
) -> Floats:
    workers = torch.get_num_threads()
    return _in_threads(
        lambda some: _bounds_of(snapshot, model, query, some), places, workers, MIN_A_THREAD
    )


def _in_threads(
    work: Callable[[Numbers], Floats], places: Numbers, workers: int, least: int
) -> Floats:
    """One number per place, computed by threads for at least ``least`` places each."""
    workers = min(workers, 1 + len(places) // least)
    if workers == 1:
        return work(places)
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate(list(pool.map(work, np.array_split(places, workers))))


@torch.inference_mode()
def _bounds_of(snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers) -> Floats:
    sketches = snapshot.arrays["sketch"]
    wants = query.has_sentences and model.spec.aggregator != "global"
    looked_at = sketches if wants else snapshot.arrays["means"]
    row_bytes = looked_at.dtype.itemsize * int(np.prod(looked_at.shape[1:]))
    rows = min(max(1, BOUND_BYTES // row_bytes), len(places))
    read = _Reader(sketches, rows) if wants else None
    upper = query.upper(model, snapshot.language.basis)
    bounds = np.empty(len(places), dtype=np.float32)
    fetch(looked_at, places[: AHEAD * rows])
    for start in range(0, len(places), max(1, rows)):
        part = places[start : start + rows]
        fetch(looked_at, places[start + AHEAD * rows : start + (AHEAD + 1) * rows])
        given = torch.empty(0) if read is None else read.at(part)
        bounds[start : start + rows] = upper(given, _means_at(snapshot, model, query, part)).numpy()
    return bounds


class _Reader:
    """Rows of a mapped file in float32, in the same memory each time.

    Freed and reallocated memory comes page by page from the system, which takes longer than the
    bounds.
    """

    def __init__(self, array: NDArray[Any], most: int) -> None:
        self._array = np.asarray(array)
        self._kept = np.empty((most, *array.shape[1:]), array.dtype)
        self._rows = torch.empty(self._kept.shape)

    def at(self, places: Numbers) -> Tensor:
        """At most ``most`` rows, at rising places; they are valid until the next call."""
        first, last = int(places[0]), int(places[-1]) + 1
        kept = self._kept[: len(places)]
        if last - first == len(places):
            np.copyto(kept, self._array[first:last])
        else:  # only "clip" writes directly to the given memory; no place is outside
            np.take(self._array, places, axis=0, out=kept, mode="clip")
        return self._rows[: len(places)].copy_(torch.from_numpy(kept))


def rows_at(array: NDArray[np.float16] | NDArray[np.float32], places: Numbers) -> Tensor:
    """Rows at rising places, in float32; read as one piece if they are adjacent."""
    first, last = int(places[0]), int(places[-1]) + 1
    together = last - first == len(places)
    return torch.from_numpy(np.array(array[first:last]) if together else array[places]).float()


def _means_at(snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers) -> Tensor:
    """Mean regions at rising places; empty ones if the query does not use them."""
    if query.image is None and model.spec.aggregator != "global":
        return torch.empty(len(places), 0)
    return rows_at(snapshot.arrays["means"], places)


def scores_of(snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers) -> Floats:
    if query.has_sentences:
        fetch(snapshot.arrays["regions"], places)
    return _fetched_scores(snapshot, model, query, places)


def _fetched_scores(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers
) -> Floats:
    """Scores of the images at rising places, whose regions have been fetched."""
    workers = torch.get_num_threads() if model.device.type == "cpu" else 1

    def scores(some: Numbers) -> Floats:
        means = _means_at(snapshot, model, query, some)
        packed = snapshot.arrays["regions"][some] if query.has_sentences else None
        found: Floats = query.exact(model, packed, means).numpy()
        return found

    return _in_threads(scores, places, workers, MIN_SCORED_A_THREAD)


SCANNED = 16_384  # profiles read at once


@torch.inference_mode()
def fast_order(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """First the candidates by the profiles, by falling score, then all others in exact order."""
    structure = snapshot.structure
    if structure is None or query.texts is None:
        raise ValueError("the fast search needs a structure and a text")
    left = np.zeros(len(snapshot.numbers), dtype=bool)
    left[places] = True
    if query.is_one_product:
        chosen = _named_by_structure(snapshot, structure, query.texts, left)
    else:
        chosen = _named_by_scan(snapshot, query, places)
    # If a filter leaves few images, cells may give too few candidates: then look at all images.
    if len(chosen) >= min(DEPTH, len(places)):
        effort.exact = len(chosen) == len(places)
        left[chosen] = False
        fetch(snapshot.arrays["regions"], chosen)
        yield from _scored(snapshot, model, query, chosen, effort)
    yield from exact_order(snapshot, model, query, np.flatnonzero(left), effort)


def _scored(
    snapshot: Snapshot, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """Score a few images, with their regions fetched, and give them by falling score."""
    scores = _fetched_scores(snapshot, model, query, places)
    effort.scored += len(places)
    for i in np.argsort(-scores, kind="stable"):
        yield float(scores[i]), int(places[i])


def _named_by_structure(
    snapshot: Snapshot, structure: Structure, texts: Tensor, left: NDArray[np.bool_]
) -> Numbers:
    """The images among those left whose profiles fit best, in rising order."""
    weights = snapshot.language.weights(texts).mean(dim=0)
    known = left[: structure.places]
    selection = None if known.all() else known
    vector = structure.rotation.query(weights.numpy())
    nearest = nearest_places(structure.index, vector, selection)
    # Images added after the structure was made.
    tail = structure.places + np.flatnonzero(left[structure.places :])
    if len(tail) > DEPTH:
        near = rows_at(snapshot.arrays["profiles"], tail) @ weights
        tail = tail[near.topk(DEPTH).indices.sort().values.numpy()]
    return np.concatenate([nearest, tail])


def _named_by_scan(snapshot: Snapshot, query: Query, places: Numbers) -> Numbers:
    """The images among these that score highest by their profiles, in rising order."""
    if len(places) <= DEPTH:
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
    chosen: Numbers = places[near.topk(DEPTH).indices.sort().values.numpy()]
    return chosen
