"""What an index derives of all its images together: its FAISS structure, and what is usual."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.files import sha256
from cxrtext.index.features.candidates import build_structure, is_large
from cxrtext.index.store.catalogue import Catalogue, set_meta
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.vectors import vector_files
from cxrtext.index.store.writer import sweep

LIKENESS_SAMPLE = 200
MIN_LIKENESS = 20  # images below which nothing can be said of what is usual
STALE = 0.1  # share of images that may come until all is derived anew
SMALL = 50_000  # images up to which it is derived anew whenever one came


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


def wants_structure(catalogue: Catalogue) -> bool:
    """Whether an index is so large that a search looks for candidates."""
    meta = catalogue.meta()
    sketches = vector_files(catalogue.path.parent, meta)["sketch"]
    return is_large(int(meta["places"]), sketches.row_bytes)


def refresh_structure(folder: Path, catalogue: Catalogue, *, force: bool = False) -> None:
    """Derive both anew where too many images came since, or by ``force``."""
    meta = catalogue.meta()
    places, wanted = int(meta["places"]), wants_structure(catalogue)
    noted = catalogue.database.execute(
        "SELECT file, digest FROM structures WHERE name = 'profiles'"
    ).fetchone()
    came = places - int(meta.get("derived_places", -1))
    if not force and (came == 0 or (places > SMALL and 0 < came <= STALE * places)):
        is_there = noted is not None and (folder / noted[0]).is_file()
        if is_there == wanted and (not wanted or sha256(folder / noted[0]) == noted[1]):
            return
    serial = int(meta.get("structures", 0)) + 1
    rows = []
    if wanted:
        name = f"profiles.{int(meta['generation']):06d}.{serial:06d}.faiss"
        profiles = vector_files(folder, meta)["profiles"].open(places)
        digest, rotation = build_structure(profiles, folder / name)
        rows = [("profiles", name, digest, places, json.dumps({"turn": rotation.as_dict()}))]
    with catalogue.transaction(write=True) as database:
        database.execute("DELETE FROM structures")
        database.executemany("INSERT INTO structures VALUES (?, ?, ?, ?, ?)", rows)
    snapshot = take_snapshot(folder, catalogue)
    likeness = usual_likeness(snapshot.arrays["means"], snapshot.live)
    with catalogue.transaction(write=True) as database:
        noted_now = {"structures": serial, "derived_places": places, "usual_likeness": likeness}
        set_meta(database, noted_now)
    sweep(folder, catalogue)
