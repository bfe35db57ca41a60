"""Delete from an index, compact it and rebuild it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.index.changes import delete_images, delete_studies
from cxrtext.index.features.language import Language, language_for
from cxrtext.index.features.scoring import image_rows
from cxrtext.index.labels import phrases_of, prompts_of_json
from cxrtext.index.search.index import model_of
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, set_meta, structure_of
from cxrtext.index.store.check import check_index
from cxrtext.index.store.snapshot import Snapshot, take_snapshot
from cxrtext.index.store.vectors import OF_IMAGES, SENTENCES, checksum_key, rows_of, vector_files
from cxrtext.index.store.writer import (
    IndexSummary,
    append_rows,
    orphans,
    sweep,
    write_summary,
    writing,
)
from cxrtext.index.structure import refresh_structure, wants_structure
from cxrtext.models import ImageTextModel

CHUNK_BYTES = 32 * 2**20


def delete(folder: Path, studies: list[str], *, wait_s: float = 0.0) -> int:
    """Delete studies, all or none; gives the number of images.  Vectors stay until compacted."""
    with writing(folder, wait_s=wait_s) as catalogue:
        count = delete_studies(catalogue, studies)
        write_summary(folder, catalogue)
    return count


def forget_images(folder: Path, images: Sequence[str], *, wait_s: float = 0.0) -> None:
    """Delete images, and rewrite the index without a byte of them or of sentences only they had.

    A study's report goes with its last image.  Vectors of images that a stopped run has deleted
    already are removed, too.
    """
    with writing(folder, wait_s=wait_s) as catalogue:
        with catalogue.transaction(write=True) as database:
            delete_images(database, "image", images)
        write_summary(folder, catalogue)
        images_gone, sentences_gone = holes(catalogue)
        stopped = _lacks_structure(catalogue)
    if images_gone or sentences_gone or stopped:
        # The sketches' directions come from sentences: deleted ones must not shape them.
        rewrite(folder, rebuild=sentences_gone > 0 or stopped, wait_s=max(wait_s, 60.0))


def traces(folder: Path, catalogue: Catalogue) -> int:
    """How many vectors and files an index still has from deletions or killed writers."""
    if "generation" not in catalogue.meta():
        return 0
    left = sum(holes(catalogue)) + len(orphans(folder, catalogue))
    return left or int(_lacks_structure(catalogue))


def _lacks_structure(catalogue: Catalogue) -> bool:
    """Whether a large index has no FAISS structure, as a killed :func:`rewrite` leaves it."""
    return structure_of(catalogue.meta()) is None and wants_structure(catalogue)


def holes(catalogue: Catalogue) -> tuple[int, int]:
    """How many vectors of deleted images, and of deleted sentences, the files still hold."""
    meta = catalogue.meta()
    images, sentences = catalogue.counts()
    return int(meta["places"]) - images, int(meta["sentence_places"]) - sentences


def rewrite(
    folder: Path,
    model: ImageTextModel | str | Path | None = None,
    *,
    rebuild: bool,
    wait_s: float = 0.0,
) -> IndexSummary:
    """Rewrite the vectors without those of deleted images.

    A new generation of files is written beside the old one, and the catalogue switches to it in one
    step; searches continue meanwhile.

    Args:
        model: The model that made it, or its checkpoint; by default the one noted.
        rebuild: Whether to derive everything again from the regions: the sketches and profiles
            for the present sentences, and the FAISS structure.  No image is decoded.
    """
    with writing(folder, wait_s=wait_s) as catalogue:
        model = model_of(folder, catalogue.meta(), model)
        if rebuild:  # do not read its FAISS file, which may be the damaged part
            with catalogue.transaction(write=True) as database:
                set_meta(database, {"structure": "null"})
        kept = (CATALOGUE, "regions.", f"{SENTENCES}.")
        if damaged := [w for w in check_index(folder, catalogue) if w.startswith(kept)]:
            raise CheckpointError(
                f"{folder}: {damaged[0]}; these cannot be derived: restore the folder from a copy, "
                "or index into a new one"
            )
        snapshot = take_snapshot(folder, catalogue)
        language = snapshot.language
        if rebuild:
            phrases = phrases_of(prompts_of_json(snapshot.meta["prompts"]))
            language = language_for(model, snapshot.texts, phrases)
        generation = str(int(snapshot.meta["generation"]) + 1)
        meta = {**snapshot.meta, "generation": generation, **language.as_meta()}
        meta |= dict.fromkeys(map(checksum_key, vector_files(folder, meta)), "0")
        _copy_images(folder, meta, snapshot, model if rebuild else None, language)
        if len(snapshot.texts):
            _append(folder, meta, 0, {SENTENCES: snapshot.texts.numpy()})
        _name_new_files(catalogue, meta, snapshot)
        del snapshot
        sweep(folder, catalogue)
        refresh_structure(folder, catalogue, force=True)
        noted = write_summary(folder, catalogue)
    return IndexSummary.of(noted)


def _copy_images(
    folder: Path,
    meta: dict[str, str],
    snapshot: Snapshot,
    model: ImageTextModel | None,
    language: Language,
) -> None:
    """Write the vectors of the present images; with a model, derive them again."""
    for file in vector_files(folder, meta).values():
        file.path.write_bytes(b"")
    live, regions = snapshot.live, snapshot.arrays["regions"]
    step = max(1, CHUNK_BYTES // max(1, regions[:1].nbytes))
    for start in range(0, len(live), step):
        places = live[start : start + step]
        rows: dict[str, NDArray[Any]]
        if model is None:
            rows = {name: rows_of(snapshot.arrays[name], places) for name in OF_IMAGES}
        else:
            rows, _ = image_rows(model, rows_of(regions, places), language)
        _append(folder, meta, start, rows)


def _append(
    folder: Path, meta: dict[str, str], start: int, rows: Mapping[str, NDArray[Any]]
) -> None:
    meta |= {key: str(value) for key, value in append_rows(folder, meta, start, rows).items()}


def _name_new_files(catalogue: Catalogue, meta: dict[str, str], snapshot: Snapshot) -> None:
    live = snapshot.numbers[snapshot.live].tolist()
    with catalogue.transaction(write=True) as database:
        # Going up, no place is taken twice: a new place is never above the old one.
        database.executemany("UPDATE images SET place = ? WHERE number = ?", enumerate(live))
        database.executemany(
            "UPDATE sentences SET place = ? WHERE number = ?",
            enumerate(snapshot.sentence_numbers.tolist()),
        )
        counts = {"places": len(live), "sentence_places": len(snapshot.sentence_numbers)}
        set_meta(database, {**meta, **counts, "structure": "null"})
