"""Measuring a search on an archive's own sentences, and choosing its depth."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.files import sha256
from cxrtext.index.candidates import (
    Tuning,
    build_structure,
    choose_kind,
    is_deep,
    nearest_places,
)
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.layout import vector_files
from cxrtext.index.query import Query
from cxrtext.index.ranking import Effort, exact_order
from cxrtext.index.search import Index
from cxrtext.index.state import Structure
from cxrtext.index.turned import Turn
from cxrtext.index.typical import typical_sentences
from cxrtext.index.writer import set_meta, sweep
from cxrtext.models import ImageTextModel

TARGET_RECALL = 0.99
RECALL_AT = 10
QUERIES = 50
LEAST_QUERIES = 5
MEASURE_SECONDS = 120.0

FIRST_DEPTH, FIRST_EFFORT = 100, 8
LIKENESS_SAMPLE = 200
LEAST_LIKENESS = 20
"""Images below which nothing can be said of what is usual."""

OTHERS = 9
"""One in so many typical sentences is measured with where the archive has none."""

STALE = 0.1
"""Share of images that a structure may not know before it is made anew."""
SMALL = 50_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Exact results of queries.

    Args:
        best: Places of the best images of each query.
        reranked: Mean share of the images that were scored to prove it.
    """

    best: list[set[int]]
    reranked: float


def measure_exact(index: Index, queries: Tensor, k: int = RECALL_AT) -> Measured:
    """The k best images of sentence embeddings [Q, D], by the exact search.

    Of a large archive only as many queries are asked as :data:`MEASURE_SECONDS` allow, and
    :data:`LEAST_QUERIES` at least.
    """
    begun = time.monotonic()
    best: list[set[int]] = []
    scored = 0.0
    state = index.state
    places = np.flatnonzero(state.numbers >= 0)
    for text in queries:
        if len(best) >= LEAST_QUERIES and time.monotonic() - begun > MEASURE_SECONDS:
            break
        effort = Effort()
        order = exact_order(state, index.model, Query(texts=text[None]), places, effort)
        best.append({place for _, (_, place) in zip(range(k), order, strict=False)})
        scored += effort.scored / max(1, len(places))
    return Measured(best, scored / max(1, len(best)))


def measure_recall(index: Index, queries: Tensor, k: int = RECALL_AT) -> float:
    """Share of the exact k best images that are among the candidates of the fast search.

    Args:
        index: An open index with a structure.
        queries: [Q, D], sentence embeddings.
        k: How many are looked at.
    """
    state = index.state
    if state.structure is None:
        return 1.0
    measured = measure_exact(index, queries, k)
    return _recall(index, state.structure, queries, measured)


def _recall(index: Index, structure: Structure, queries: Tensor, measured: Measured) -> float:
    live = index.state.numbers[: structure.places] >= 0
    allowed = None if live.all() else live
    found = wanted = 0
    for text, best in zip(queries, measured.best, strict=False):
        known = {place for place in best if place < structure.places}
        vector = structure.turn.query(index.state.language.weights(text[None])[0].numpy())
        near = nearest_places(structure.index, vector, structure.tuning, allowed)
        found += len(known & set(near.tolist()))
        wanted += len(known)
    return found / wanted if wanted else 1.0


def tune(index: Index, structure: Structure, queries: Tensor, target: float) -> Tuning:
    """The least depth and effort at which candidates hold a share of the exact ten best."""
    measured = measure_exact(index, queries)
    novelty = float(index.state.language.novelty(queries).max())
    tuning = replace(structure.tuning, depth=FIRST_DEPTH, effort=FIRST_EFFORT, novelty=novelty)
    while True:
        tried = replace(structure, tuning=tuning)
        recall = _recall(index, tried, queries, measured)
        if recall >= target or is_deep(tuning.depth, structure.index.ntotal):
            return replace(
                tuning,
                recall_at_10=recall,
                reranked=measured.reranked,
                queries=len(measured.best),
            )
        tuning = replace(tuning, depth=2 * tuning.depth, effort=2 * tuning.effort)


def usual_likeness(means: NDArray[Any], live: NDArray[np.int64]) -> float:
    """Cosine that all but one in a hundred images have with the image most like them.

    Args:
        means: [places, D], mean regions.
        live: Places of images that are there.
    """
    if len(live) < LEAST_LIKENESS:
        return -1.0
    chosen = np.sort(np.random.default_rng(0).permutation(live)[:LIKENESS_SAMPLE])
    queries = means[chosen]
    best = np.full(len(chosen), -1.0, dtype=np.float32)
    for part in np.array_split(live, 1 + len(live) // 16_384):
        cosines = queries @ means[part].T
        cosines[chosen[:, None] == part[None]] = -1.0  # itself
        best = np.maximum(best, cosines.max(axis=1))
    return float(np.quantile(best, 0.01))


def sample_queries(index: Index, model: ImageTextModel, phrases: list[str]) -> Tensor:
    """Sentences to measure with: of the archive, else the phrases given."""
    texts = index.state.texts
    if not len(texts):
        return model.embed_sentences([*phrases, *typical_sentences()[::OTHERS]]).cpu()
    chosen = np.random.default_rng(0).permutation(len(texts))[:QUERIES]
    return texts[torch.from_numpy(chosen)]


def refresh_structure(
    folder: Path,
    catalogue: Catalogue,
    model: ImageTextModel,
    phrases: list[str],
    *,
    kind: str = "auto",
    target: float = TARGET_RECALL,
    force: bool = False,
) -> None:
    """Derive and tune the FAISS structure anew, where it knows too few of the images.

    Args:
        folder: The index's folder.
        catalogue: Open for writing.
        model: The model.
        phrases: What is measured with where the archive has no sentences.
        kind: One of :data:`cxrtext.index.candidates.KINDS`, or "auto" by size.
        target: Recall@10 of the fast search that is tuned for, in (0, 1].
        force: Whether to derive it in any case.
    """
    meta = catalogue.meta()
    places = int(meta["places"])
    noted = catalogue.database.execute(
        "SELECT file, digest, places FROM structures WHERE name = 'profiles'"
    ).fetchone()
    if noted and not force:
        unknown = places - noted[2]
        whole = (folder / noted[0]).is_file() and sha256(folder / noted[0]) == noted[1]
        if whole and (not unknown or (places > SMALL and unknown <= STALE * places)):
            return
    vectors = vector_files(folder, meta)["profiles"].open(places)
    kind = choose_kind(len(vectors), kind)
    serial = int(meta.get("structures", 0)) + 1
    name = f"profiles.{int(meta['generation']):06d}.{serial:06d}.faiss"
    digest, turn = build_structure(vectors, folder / name, kind)
    _note(catalogue, name, digest, places, Tuning(kind, FIRST_DEPTH, FIRST_EFFORT), turn, serial)
    index = Index(folder, model, catalogue)
    structure = index.state.structure
    assert structure is not None  # noqa: S101 - noted above
    tuning = tune(index, structure, sample_queries(index, model, phrases), target)
    _note(catalogue, name, digest, places, tuning, turn, serial)
    state = index.state
    likeness = usual_likeness(state.arrays["means"], np.flatnonzero(state.numbers >= 0))
    with catalogue.transaction(write=True) as database:
        set_meta(database, {"usual_likeness": likeness})
    sweep(folder, catalogue)


def _note(
    catalogue: Catalogue,
    name: str,
    digest: str,
    places: int,
    tuning: Tuning,
    turn: Turn,
    serial: int,
) -> None:
    with catalogue.transaction(write=True) as database:
        database.execute(
            "INSERT OR REPLACE INTO structures VALUES ('profiles', ?, ?, ?, ?)",
            (name, digest, places, json.dumps({**tuning.as_dict(), "turn": turn.as_dict()})),
        )
        set_meta(database, {"structures": serial})
