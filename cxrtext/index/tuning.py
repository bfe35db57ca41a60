"""Measuring a search on an archive's own sentences, and choosing its depth."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.files import sha256
from cxrtext.index.features.candidates import Tuning, build_structure, is_deep, nearest_places
from cxrtext.index.features.language import typical_sentences
from cxrtext.index.labels import prompts_of_json
from cxrtext.index.search.query import Query
from cxrtext.index.search.ranking import Effort, exact_order
from cxrtext.index.store.catalogue import Catalogue, set_meta
from cxrtext.index.store.snapshot import Snapshot, Structure, take_snapshot
from cxrtext.index.store.vectors import vector_files
from cxrtext.index.store.writer import sweep
from cxrtext.models import ImageTextModel

TARGET_RECALL = 0.99  # recall@10 of the fast search that is tuned for
RECALL_AT = 10
QUERIES = 50
MIN_QUERIES = 5
MEASURE_SECONDS = 120.0

FIRST_DEPTH, FIRST_EFFORT = 100, 8
LIKENESS_SAMPLE = 200
MIN_LIKENESS = 20  # images below which nothing can be said of what is usual
OTHERS = 9  # one in so many typical sentences is measured with where the archive has none
STALE = 0.1  # share of images that a structure may not know before it is made anew
SMALL = 50_000


def _exact_answers(
    snapshot: Snapshot, model: ImageTextModel, queries: Tensor
) -> tuple[list[set[int]], float]:
    """Places of the ten best images of each sentence embedding [Q, D], by the exact search.

    And the mean share of the images that were scored to prove it.  Of a large archive only as many
    queries are asked as :data:`MEASURE_SECONDS` allow, and :data:`MIN_QUERIES` at least.
    """
    begun = time.monotonic()
    best: list[set[int]] = []
    scored = 0.0
    places = snapshot.live
    for text in queries:
        if len(best) >= MIN_QUERIES and time.monotonic() - begun > MEASURE_SECONDS:
            break
        effort = Effort()
        order = exact_order(snapshot, model, Query(texts=text[None]), places, effort)
        best.append({place for _, (_, place) in zip(range(RECALL_AT), order, strict=False)})
        scored += effort.scored / max(1, len(places))
    return best, scored / max(1, len(best))


def _recall_of(
    snapshot: Snapshot, structure: Structure, queries: Tensor, exact: list[set[int]]
) -> float:
    """Share of the exact best images of queries that are among a structure's candidates."""
    live = snapshot.numbers[: structure.places] >= 0
    allowed = None if live.all() else live
    found = wanted = 0
    for text, best in zip(queries, exact, strict=False):
        known = {place for place in best if place < structure.places}
        vector = structure.rotation.query(snapshot.language.weights(text[None])[0].numpy())
        near = nearest_places(structure.index, vector, structure.tuning, allowed)
        found += len(known & set(near.tolist()))
        wanted += len(known)
    return found / wanted if wanted else 1.0


def _tune(
    snapshot: Snapshot, model: ImageTextModel, structure: Structure, queries: Tensor
) -> Tuning:
    """The least depth and effort at which candidates hold a share of the exact ten best."""
    exact, reranked = _exact_answers(snapshot, model, queries)
    novelty = float(snapshot.language.novelty(queries).max())
    tuning = replace(structure.tuning, depth=FIRST_DEPTH, effort=FIRST_EFFORT, novelty=novelty)
    while True:
        recall = _recall_of(snapshot, replace(structure, tuning=tuning), queries, exact)
        if recall >= TARGET_RECALL or is_deep(tuning.depth, structure.index.ntotal):
            return replace(tuning, recall_at_10=recall, reranked=reranked, queries=len(exact))
        tuning = replace(tuning, depth=2 * tuning.depth, effort=2 * tuning.effort)


def usual_likeness(means: NDArray[Any], live: NDArray[np.int64]) -> float:
    """Cosine that all but one in a hundred images have with the image most like them.

    ``means`` are mean regions [places, D]; the images that are there have the places ``live``.
    """
    if len(live) < MIN_LIKENESS:
        return -1.0
    chosen = np.sort(np.random.default_rng(0).permutation(live)[:LIKENESS_SAMPLE])
    queries = means[chosen]
    best = np.full(len(chosen), -1.0, dtype=np.float32)
    for part in np.array_split(live, 1 + len(live) // 16_384):
        cosines = queries @ means[part].T
        cosines[chosen[:, None] == part[None]] = -1.0  # itself
        best = np.maximum(best, cosines.max(axis=1))
    return float(np.quantile(best, 0.01))


def _sample_queries(snapshot: Snapshot, model: ImageTextModel) -> Tensor:
    """Sentences to measure with: of the archive, else what its prompts say of findings."""
    texts = snapshot.texts
    if not len(texts):
        prompts = prompts_of_json(snapshot.meta["prompts"]).values()
        phrases = [phrase for sides in prompts for phrase in sides.positive]
        return model.embed_sentences([*phrases, *typical_sentences()[::OTHERS]]).cpu()
    chosen = np.random.default_rng(0).permutation(len(texts))[:QUERIES]
    return texts[torch.from_numpy(chosen)]


def refresh_structure(
    folder: Path, catalogue: Catalogue, model: ImageTextModel, *, force: bool = False
) -> None:
    """Derive and tune the FAISS structure anew, where it knows too few images, or by ``force``."""
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
    serial = int(meta.get("structures", 0)) + 1
    name = f"profiles.{int(meta['generation']):06d}.{serial:06d}.faiss"
    kind, digest, rotation = build_structure(vectors, folder / name)

    def note(tuning: Tuning, **more: float) -> None:
        detail = json.dumps({**asdict(tuning), "turn": rotation.as_dict()})
        with catalogue.transaction(write=True) as database:
            database.execute(
                "INSERT OR REPLACE INTO structures VALUES ('profiles', ?, ?, ?, ?)",
                (name, digest, places, detail),
            )
            set_meta(database, {"structures": serial, **more})

    note(Tuning(kind, FIRST_DEPTH, FIRST_EFFORT))
    snapshot = take_snapshot(folder, catalogue)
    assert snapshot.structure is not None  # noqa: S101 - noted above
    tuning = _tune(snapshot, model, snapshot.structure, _sample_queries(snapshot, model))
    note(tuning, usual_likeness=usual_likeness(snapshot.arrays["means"], snapshot.live))
    sweep(folder, catalogue)
