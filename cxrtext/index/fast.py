"""Images that profiles name, by falling score: a short cut past most of a large archive."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.candidates import Tuning, is_deep, nearest_places
from cxrtext.index.query import Query
from cxrtext.index.ranking import Effort, Scored, exact_order, rows_at, scores_of
from cxrtext.index.state import Numbers, State, Structure
from cxrtext.models import ImageTextModel

DEEPER = 4
"""By how much the fast search deepens when its candidates are used up, or the sentence is unlike
the landmarks."""

UNBOUNDED = 256
"""Candidates that are scored without asking their bounds first."""

MOST_EFFORT = 2**16

SCANNED = 16_384
"""Profiles that are read at once."""


@torch.inference_mode()
def fast_order(
    state: State, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """Images in the order of their scores among the candidates that profiles name.

    When the candidates are used up, more are looked for, and at last all that are left.
    """
    structure = state.structure
    if structure is None or query.texts is None:
        raise ValueError("the fast search wants a structure and a text")
    effort.exact = False
    left = np.zeros(len(state.numbers), dtype=bool)
    left[places] = True
    tuning = structure.tuning
    said = [part for part in (query.texts, query.without) if part is not None]
    if float(state.language.novelty(torch.cat(said)).max()) > tuning.novelty:
        tuning = _deeper(tuning)
    while left.any():
        if query.is_one_product:
            chosen = _named_by_structure(state, structure, query.texts, left, tuning)
        else:
            chosen = _named_by_scan(state, query, np.flatnonzero(left), tuning.depth)
        left[chosen] = False
        # A graph or cells that a filter leaves little of may name nothing at first.
        if len(chosen) > UNBOUNDED:
            yield from exact_order(state, model, query, chosen, effort)
        elif len(chosen):
            yield from _scored(state, model, query, chosen, effort)
        if is_deep(tuning.depth, len(left)):
            break
        tuning = _deeper(tuning)
    yield from exact_order(state, model, query, np.flatnonzero(left), effort)


def _scored(
    state: State, model: ImageTextModel, query: Query, places: Numbers, effort: Effort
) -> Iterator[Scored]:
    """A few images by falling score, each of them scored."""
    scores = scores_of(state, model, query, places)
    effort.scored += len(places)
    for i in np.argsort(-scores, kind="stable"):
        yield float(scores[i]), int(places[i])


def _deeper(tuning: Tuning) -> Tuning:
    return replace(
        tuning, depth=tuning.depth * DEEPER, effort=min(tuning.effort * DEEPER, MOST_EFFORT)
    )


def _named_by_structure(
    state: State, structure: Structure, texts: Tensor, left: NDArray[np.bool_], tuning: Tuning
) -> Numbers:
    """Of the images that are left, those whose profiles fit best; in rising order."""
    weights = state.language.weights(texts).mean(dim=0)
    known = left[: structure.places]
    selection = None if known.all() else known
    vector = structure.turn.query(weights.numpy())
    found = nearest_places(structure.index, vector, tuning, selection)
    # Images added after the structure was made.
    tail = structure.places + np.flatnonzero(left[structure.places :])
    if len(tail) > tuning.depth:
        near = rows_at(state.arrays["profiles"], tail) @ weights
        tail = tail[near.topk(tuning.depth).indices.sort().values.numpy()]
    return np.concatenate([found, tail])


def _named_by_scan(state: State, query: Query, places: Numbers, count: int) -> Numbers:
    """Of some images, those that score highest by their profiles; in rising order."""
    if len(places) <= count:
        return places
    near = torch.cat(
        [
            query.near(
                state.language,
                rows_at(state.arrays["profiles"], part),
                None if query.image is None else rows_at(state.arrays["means"], part),
            )
            for part in np.array_split(places, 1 + len(places) // SCANNED)
        ]
    )
    chosen: Numbers = places[near.topk(count).indices.sort().values.numpy()]
    return chosen
