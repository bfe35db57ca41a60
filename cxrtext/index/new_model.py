"""Embed an index again for another model, beside the old vectors, which answer until then.

The new vectors grow in their own index, in the folder ``next`` of the index, where a stopped run
resumes.  There each image is named by its number in the old index; no other image ever gets this
number, so a replacement between two runs is noticed.  At the end the old catalogue switches to the
new vectors in one transaction: numbers, names, reports and metadata of images stay.  The writer's
lock is held all the time.
"""

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import torch

from cxrtext.errors import DataError
from cxrtext.files import remove_folder, sha256, sync
from cxrtext.images.cache import DecodedCache
from cxrtext.index.build import add_embedded, start_index
from cxrtext.index.changes import NewReports, add_reports, delete_images, set_attributes
from cxrtext.index.labels import prompts_of_json
from cxrtext.index.store.catalogue import (
    CATALOGUE,
    UNLIKE,
    Catalogue,
    empty_index,
    set_meta,
    structure_of,
)
from cxrtext.index.store.vectors import OF_IMAGES, SENTENCES, checksum_key, vector_files
from cxrtext.index.store.writer import NEXT, IndexSummary, sweep, write_summary, writing
from cxrtext.index.structure import refresh_structure
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.regions import embed_records
from cxrtext.pausing import Progress
from cxrtext.records import ImageRecord
from cxrtext.records.manifest import LABEL
from cxrtext.records.tables import write_table

OF_MODEL = (
    "checkpoint", "model", "preprocessing", "regions", "dimension", "storage", "sketch",
    "basis", "landmarks", "landmark_vectors", "prompts", "calibration", "places",
    "sentence_places", *map(checksum_key, (*OF_IMAGES, SENTENCES)),
)  # fmt: skip
"""Notes about an index as a whole that depend on the model."""

Losses = dict[str, tuple[str, str]]
"""Unreadable files and the reasons, by the name in the new index."""


def is_of(folder: Path, checkpoint: Path) -> bool:
    """Whether an index has this model, and no run for a new one is unfinished."""
    with Catalogue(folder / CATALOGUE) as catalogue:
        noted = catalogue.meta().get("model")
    return noted == load_model(checkpoint).fingerprint and not (folder / NEXT).is_dir()


def reembed(
    folder: Path,
    checkpoint: Path,
    *,
    device: str = "cpu",
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    max_rejected: int = 0,
    wait_s: float = 0.0,
    progress: Progress | None = None,
) -> IndexSummary:
    """Embed all images and sentences of an index with another model, then switch the index to it.

    Images are read from where they were indexed, uploads from their folder.  The index uses the old
    model until it switches, and nobody else writes it; open readers then follow, or say so.  A
    stopped run resumes.

    Args:
        features: Of the model's backbone, to use instead of images; see ``cxrtext encode``.
        max_rejected: How many images may be unreadable now; they are dropped from the index.
        wait_s: How long to wait while another process writes.
    """
    model = load_model(checkpoint, device)
    listed = folder.with_name(folder.name + ".rejected.csv")
    lost: Losses = {}
    with writing(folder, wait_s=wait_s) as old:
        meta = old.meta()
        if "model" not in meta:
            raise empty_index(folder)
        if turns := meta["model"] != model.fingerprint:
            _drop_other(folder / NEXT, model, meta["prompts"])
            with writing(folder / NEXT, create=True) as new:
                (folder / NEXT).chmod(0o700)
                _start(new, old, model, Path(checkpoint))
                lost = _embed(new, old, model, cache, features, progress)
                if lost:
                    rows = [{"item": item, "reason": reason} for item, reason in lost.values()]
                    write_table(listed, ["item", "reason"], rows)
                else:
                    listed.unlink(missing_ok=True)
                if len(lost) > max_rejected:
                    raise DataError(
                        f"{folder}: {len(lost)} images cannot be read and would be lost (all of "
                        f"them: {listed}); the index was left as it is. Put them back ('cxrtext "
                        f"index build MANIFEST --out {folder}' if their folder has moved), delete "
                        f"their studies, or continue without them: --max-rejected {len(lost)}; "
                        "then run the same command again: the rest is kept"
                    )
                refresh_structure(folder / NEXT, new)
                _turn(folder, old, new)
        else:  # a run was stopped after the index had switched
            refresh_structure(folder, old)
        sweep(folder, old)
        noted = write_summary(folder, old)
    _drop(folder / NEXT)
    replaced = noted["images"] if turns else 0
    return IndexSummary.of(noted, replaced=replaced, rejected=listed if lost else None)


def _drop_other(staged: Path, model: ImageTextModel, prompts: str) -> None:
    """Remove what a stopped run left for a third model or with other prompts."""
    if staged.is_symlink():
        _drop(staged)  # refused
    if not (staged / CATALOGUE).is_file():
        return
    with writing(staged) as new:
        noted = new.meta()
    if "model" in noted and (noted["model"], json.loads(noted["prompts"])) != (
        model.fingerprint,
        json.loads(prompts),
    ):
        _drop(staged)


def _drop(staged: Path) -> None:
    remove_folder(staged, inside=staged.parent, note=staged / CATALOGUE)


def _start(new: Catalogue, old: Catalogue, model: ImageTextModel, checkpoint: Path) -> None:
    """Note the new index's settings, and keep in it only what the old one has now."""
    there = {str(number) for number in old.known_images().values()}
    gone = [name for name in new.known_images() if name not in there]
    with new.transaction(write=True) as database:
        delete_images(database, "image", gone)
    known = new.known_sentences()
    texts = [text for text in old.known_sentences() if text not in known]
    rows = model.embed_sentences(texts).cpu() if texts else torch.empty(0)
    meta = old.meta()
    prompts = prompts_of_json(meta["prompts"])
    start_index(new, model, checkpoint, list(rows), prompts, meta["storage"])
    said = old.database.execute(
        "SELECT study_id, section, position, sentences.sentence FROM said "
        "JOIN sentences ON sentences.number = said.sentence"
    ).fetchall()
    with new.transaction(write=True) as database:
        database.execute("DELETE FROM said")
    add_reports(new.path.parent, new, NewReports(texts, rows.numpy(), said))


def _embed(
    new: Catalogue,
    old: Catalogue,
    model: ImageTextModel,
    cache: DecodedCache | None,
    features: FeatureFolder | None,
    progress: Progress | None,
) -> Losses:
    """Embed the remaining images in order, each named by its number; gives the unreadable ones."""
    known = new.known_images()
    rows = old.database.execute(
        "SELECT number, path, coalesce(file, image), file IS NOT NULL, image, study_id, "
        "patient_id, split FROM images JOIN roots USING (root) ORDER BY number"
    ).fetchall()
    todo: list[ImageRecord] = []
    given: list[ImageRecord] = []  # the same images under their names in features
    lost: Losses = {}
    for number, root, file, is_kept, image, *names in rows:
        path, is_damaged = Path(root) / file, False
        if str(number) in known:
            continue
        with suppress(OSError):  # embedding reports it
            is_damaged = is_kept and sha256(path) != path.stem
        if is_damaged:
            lost[str(number)] = str(path), "is damaged; put it back from a backup"
        else:
            todo.append(ImageRecord(path, str(number), *names))
            given.append(ImageRecord(path, image, *names))
    paths = {record.name: str(record.path) for record in todo}

    def lose(name: str, reason: str) -> None:
        lost[name] = paths[name], reason

    def report(done: int) -> None:
        if progress:
            progress(len(known) + done, len(rows))

    parts = embed_records(model, given, features=features, cache=cache)
    add_embedded(new, model, todo, None, parts, lose, report)
    return lost


def _turn(folder: Path, old: Catalogue, new: Catalogue) -> None:
    """Switch the old catalogue to the new vectors in one step."""
    noted, meta = new.meta(), old.meta()
    generation = int(meta["generation"]) + 1
    serial = int(meta.get("structures", 0)) + 1
    targets = vector_files(folder, {**noted, "generation": str(generation)})
    for name, source in vector_files(folder / NEXT, noted).items():
        _link(source.path, targets[name].path)
    structure = structure_of(noted)
    if structure is not None:
        target = f"profiles.{generation:06d}.{serial:06d}.faiss"
        _link(folder / NEXT / structure["file"], folder / target)
        structure["file"] = target
    sync(folder)
    with old.transaction(write=True) as database:
        there = set(new.known_images())
        known = database.execute("SELECT image, number FROM images").fetchall()
        gone = [name for name, number in known if str(number) not in there]
        delete_images(database, "image", gone)
        _turn_places(database, new)
        _turn_labels(database, old, new)
        values = {key: noted.get(key, "0") for key in OF_MODEL}
        now = {"generation": generation, "structures": serial, "structure": json.dumps(structure)}
        set_meta(database, {**values, **now})


def _link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it; replaces what a stopped run left there."""
    target.unlink(missing_ok=True)
    if not source.exists():
        source.touch()  # an index without sentences
    with suppress(OSError):
        target.hardlink_to(source)
        return
    shutil.copyfile(source, target)


def _turn_places(database: Connection, new: Catalogue) -> None:
    images = new.database.execute("SELECT place, CAST(image AS INTEGER) FROM images").fetchall()
    sentences = new.database.execute("SELECT place, sentence FROM sentences").fetchall()
    # No two rows may share a place, not even for a moment.
    for table, column, rows in (("images", "number", images), ("sentences", "sentence", sentences)):
        database.execute(f"UPDATE {table} SET place = -1 - place")  # noqa: S608 - our names
        database.executemany(f"UPDATE {table} SET place = ? WHERE {column} = ?", rows)  # noqa: S608


def _turn_labels(database: Connection, old: Catalogue, new: Catalogue) -> None:
    """Replace what the old model said about images by what the new one says."""

    def ours(name: str) -> bool:
        return name.startswith(LABEL) or name == UNLIKE

    slots = {name: slot for name, slot in new.columns().items() if ours(name)}
    forgotten: dict[str, Any] = dict.fromkeys(name for name in old.columns() if ours(name))
    chosen = "".join(f", c{int(slot)}" for slot in slots.values())
    rows: Sequence[Any] = new.database.execute(
        f"SELECT CAST(image AS INTEGER){chosen} FROM images JOIN attributes USING (number)"  # noqa: S608
    ).fetchall()
    cells = ((row[0], {**forgotten, **dict(zip(slots, row[1:], strict=True))}) for row in rows)
    set_attributes(database, cells)
