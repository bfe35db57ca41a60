"""Deleting, compacting, rebuilding and moving an index."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError, DataError
from cxrtext.index.catalogue import CATALOGUE, Catalogue
from cxrtext.index.changes import delete_studies
from cxrtext.index.check import check_index
from cxrtext.index.derived import image_rows
from cxrtext.index.language import LANDMARKS, Language
from cxrtext.index.layout import OF_IMAGES, SENTENCES, vector_files
from cxrtext.index.opening import model_of
from cxrtext.index.state import State, read_state
from cxrtext.index.summary import IndexSummary, write_summary
from cxrtext.index.tune import TARGET_RECALL, refresh_structure
from cxrtext.index.vectors import rows_of
from cxrtext.index.writer import append_rows, note_segments, set_meta, sweep, writing
from cxrtext.models import ImageTextModel

CHUNK_BYTES = 32 * 2**20

Segments = list[tuple[str, int, int, int]]


def delete(folder: Path, studies: list[str], *, wait_s: float = 0.0) -> int:
    """Delete studies, all of them or none; what they held is found no more.

    Their vectors stay in the files, unread, until the index is compacted.

    Returns:
        The number of images deleted.

    Raises:
        DataError: A study is not in the index, or another process writes.
    """
    with writing(folder, wait_s=wait_s) as catalogue:
        count = delete_studies(catalogue, studies)
        write_summary(folder, catalogue)
    return count


def move_root(folder: Path, new: Path, old: str | None = None, *, wait_s: float = 0.0) -> None:
    """Note that a manifest's folder, to which image paths are relative, lies elsewhere now.

    Raises:
        DataError: There are several such folders and none is named, or the named one is not known.
    """
    with writing(folder, wait_s=wait_s) as catalogue, catalogue.transaction(write=True) as database:
        known = [path for (path,) in database.execute("SELECT path FROM roots")]
        if old is None and len(known) == 1:
            old = known[0]
        if old not in known:
            raise DataError(
                f"{folder}: say which of the manifests' folders moved, as OLD=NEW; there are "
                + ", ".join(known)
            )
        database.execute("UPDATE roots SET path = ? WHERE path = ?", (str(new.resolve()), old))


@contextmanager
def convert(folder: Path) -> Iterator[Catalogue]:
    """Open a catalogue for reading; one of an older version is converted, where it can be."""
    path = folder / CATALOGUE
    if path.is_file() and os.access(path, os.W_OK) and os.access(folder, os.W_OK):
        Catalogue(path, write=True).close()
    with Catalogue(path) as catalogue:
        yield catalogue


def rewrite(
    folder: Path,
    model: ImageTextModel | str | Path | None = None,
    *,
    rebuild: bool,
    kind: str = "auto",
    target: float = TARGET_RECALL,
    wait_s: float = 0.0,
) -> IndexSummary:
    """Write the vectors anew without those of deleted images.

    A new generation of files is written beside the old one and the catalogue turns to it in one
    step; searches go on meanwhile.

    Args:
        folder: The index's folder.
        model: The model that made it, or its checkpoint; by default the noted one.
        rebuild: Whether to derive everything anew from the regions: the sketches and profiles
            for the sentences as they are now, the FAISS structure.  No image is decoded.
        kind: Of the FAISS structure.
        target: Recall@10 that the fast search is tuned for.
        wait_s: How long to queue for another writer.

    Raises:
        CheckpointError: Regions are damaged.
        DataError: Another process writes.
    """
    with writing(folder, wait_s=wait_s) as catalogue:
        model = model_of(folder, catalogue.meta(), model)
        with catalogue.transaction(write=True) as database:
            # Read without its FAISS file, which may be what has to be mended.
            if rebuild:
                database.execute("DELETE FROM structures")
        _check_regions(folder, catalogue)
        state = read_state(folder, catalogue)
        language = state.language
        if rebuild and len(state.texts) >= LANDMARKS:
            language = Language.of_sentences(state.texts)
        meta = {
            **state.meta,
            "generation": str(int(state.meta["generation"]) + 1),
            **language.as_meta(),
        }
        segments = _copy_images(folder, meta, state, model if rebuild else None, language)
        if len(state.texts):
            segments += append_rows(folder, meta, 0, {SENTENCES: state.texts.numpy()})
        _turn(catalogue, meta, state, language, segments)
        del state
        sweep(folder, catalogue)
        phrases = [p for side in json.loads(meta["prompts"]).values() for p in side["positive"]]
        refresh_structure(folder, catalogue, model, phrases, kind=kind, target=target, force=True)
        noted = write_summary(folder, catalogue)
    return summary_of(noted)


def summary_of(noted: dict[str, Any], **more: Any) -> IndexSummary:
    """The summary that ``index.json`` stands for."""
    return IndexSummary(
        images=noted["images"],
        added=more.pop("added", 0),
        sentences=noted["sentences"],
        recall_at_10=noted["recall_at_10"],
        reranked=noted["reranked"],
        candidates=noted["structures"].get("profiles", {}).get("kind", ""),
        **more,
    )


def _check_regions(folder: Path, catalogue: Catalogue) -> None:
    """Refuse to derive anything from a damaged catalogue, damaged regions or sentences."""
    kept = (CATALOGUE, "regions.", f"{SENTENCES}.")
    damaged = [w for w in check_index(folder, catalogue) if w.startswith(kept)]
    if damaged:
        raise CheckpointError(
            f"{folder}: {damaged[0]}; these cannot be derived: restore the folder from a copy, or "
            "index into a new one"
        )


def _copy_images(
    folder: Path,
    meta: dict[str, str],
    state: State,
    model: ImageTextModel | None,
    language: Language,
) -> Segments:
    """Write the vectors of the images that are there; with a model, derive them anew."""
    for file in vector_files(folder, meta).values():
        file.path.write_bytes(b"")
    live = np.flatnonzero(state.numbers >= 0)
    regions = state.arrays["regions"]
    step = max(1, CHUNK_BYTES // max(1, regions[:1].nbytes))
    segments: Segments = []
    for start in range(0, len(live), step):
        places = live[start : start + step]
        rows: dict[str, NDArray[Any]]
        if model is None:
            rows = {name: rows_of(state.arrays[name], places) for name in OF_IMAGES}
        else:
            rows, _ = image_rows(model, rows_of(regions, places), language)
        segments += append_rows(folder, meta, start, rows)
    return segments


def _turn(
    catalogue: Catalogue,
    meta: dict[str, str],
    state: State,
    language: Language,
    segments: Segments,
) -> None:
    """Let the catalogue name the new files, and the new places of everything."""
    live = state.numbers[state.numbers >= 0].tolist()
    with catalogue.transaction(write=True) as database:
        # In rising order no place is taken twice: the new one is never above the old.
        database.executemany("UPDATE images SET place = ? WHERE number = ?", enumerate(live))
        database.executemany(
            "UPDATE sentences SET place = ? WHERE number = ?",
            enumerate(state.sentence_numbers.tolist()),
        )
        database.execute("DELETE FROM segments")
        note_segments(database, segments)
        database.execute("DELETE FROM structures")
        set_meta(
            database,
            {
                "generation": meta["generation"],
                **language.as_meta(),
                "places": len(live),
                "sentence_places": len(state.sentence_numbers),
            },
        )
