"""An index of another model: everything embedded anew beside the old one, which answers until then.

The new vectors grow in an index of their own, in the folder ``next`` of the index, where a run that
was stopped goes on.  In it each image is called by its number in the old one, which no other image
ever gets, so that what was replaced meanwhile is noticed.  At the end the old catalogue turns to
the new vectors in one transaction: numbers, names, reports and metadata of images stay.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import torch
from torch import Tensor

from cxrtext.errors import DataError, WorkError
from cxrtext.evaluation.classification.calibration import calibrations_of
from cxrtext.files import sha256, sync
from cxrtext.images.cache import DecodedCache
from cxrtext.index.build import start_index
from cxrtext.index.changes import (
    NewImage,
    NewReports,
    add_images,
    add_reports,
    delete_images,
    set_attributes,
)
from cxrtext.index.features.language import Language
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.labels import Labeler, labeler_of, labels_as_meta, prompts_of_json, unlike_column
from cxrtext.index.store.catalogue import (
    CATALOGUE,
    UNLIKE,
    Catalogue,
    empty_index,
    set_meta,
)
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.vectors import OF_IMAGES, SENTENCES, rows_of, vector_files
from cxrtext.index.store.writer import (
    NEXT,
    IndexSummary,
    sweep,
    write_summary,
    writing,
)
from cxrtext.index.tuning import refresh_structure
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import familiar_beside
from cxrtext.models.regions import embed_files, unpack
from cxrtext.records.manifest import LABEL
from cxrtext.records.tables import write_table

FEW = 64  # images added meanwhile that are embedded while writers wait
CHUNK = 256
CANDIDATE_BYTES = 128  # of the FAISS structure, an image

OF_MODEL = (
    "checkpoint", "model", "preprocessing", "regions", "dimension", "storage", "pool", "sketch",
    "basis", "landmarks", "landmark_vectors", "prompts", "calibration", "places",
    "sentence_places", "usual_likeness",
)  # fmt: skip
"""What is noted of an index as a whole that is another's with another model."""

Progress = Callable[[int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Image:
    """An image of the old index."""

    number: int
    path: str
    is_kept: bool  # by the index, under the SHA-256 of its bytes
    study_id: str
    patient_id: str
    split: str

    @property
    def name(self) -> str:
        return str(self.number)


def is_of(folder: Path, checkpoint: Path) -> bool:
    """Whether an index is a model's, and no run for it is to be finished.

    Raises:
        CheckpointError: The folder is no index, or the checkpoint is none or damaged.
    """
    with Catalogue(folder / CATALOGUE) as catalogue:
        noted = catalogue.meta().get("model")
    return noted == load_model(checkpoint).fingerprint and not (folder / NEXT).is_dir()


def reembed(
    folder: Path,
    checkpoint: Path,
    *,
    device: str = "cpu",
    cache: DecodedCache | None = None,
    max_rejected: int = 0,
    wait_s: float = 0.0,
    say: Say = lambda _: None,
    progress: Progress | None = None,
) -> IndexSummary:
    """Embed all images and sentences of an index by another model, and turn the index to it.

    Images are read from where they were indexed, uploads from their folder.  The index answers by
    the old model, and images can be added and deleted, until it turns; what is open then follows,
    or says so.  A run that was stopped goes on.

    Args:
        checkpoint: The new model.
        cache: Where decoded images are kept; without it they are decoded each time.
        max_rejected: Images that may be unreadable by now, and are then no longer in the index.
        wait_s: How long to queue, at the end, while another process writes.
        say: Told what room it takes.
        progress: Called with the images done, and those in all.

    Raises:
        CheckpointError: The folder is no index, or a model or the index is damaged.
        DataError: Images cannot be read, or another process writes.
        WorkError: The disk is full, or has too little room.
    """
    model = load_model(checkpoint, device)
    staged = folder / NEXT
    with Catalogue(folder / CATALOGUE) as old:
        meta = old.meta()
        if "model" not in meta:
            raise empty_index(folder)
    if meta["model"] == model.fingerprint:
        return _finish(folder, model, wait_s)
    _drop_other(staged, model)
    run = _Rebuild(folder, model, Path(checkpoint), cache, progress)
    with writing(staged, create=True, wait_s=wait_s) as new:
        staged.chmod(0o700)
        run.start(new, say)
        while len(run.missing(new)) > FEW:
            run.embed(new)
        run.embed(new)
        run.refuse_losses(new, max_rejected)
        with Catalogue(folder / CATALOGUE) as old:
            run.agree(new, old)
        refresh_structure(staged, new, model, _phrases(new))
        with writing(folder, wait_s=wait_s) as old:
            run.embed(new, old)
            run.refuse_losses(new, max_rejected, old)
            run.agree(new, old)
            refresh_structure(staged, new, model, _phrases(new))
            _turn(folder, old, new)
            sweep(folder, old)
            noted = write_summary(folder, old)
    shutil.rmtree(staged, ignore_errors=True)
    lost = run.write_losses()
    return IndexSummary.of(noted, replaced=noted["images"], rejected=lost)


def _finish(folder: Path, model: ImageTextModel, wait_s: float) -> IndexSummary:
    """Tidy up after a run that was stopped when the index had turned already."""
    with writing(folder, wait_s=wait_s) as old:
        phrases = _phrases(old)
        refresh_structure(folder, old, model, phrases)
        noted = write_summary(folder, old)
    shutil.rmtree(folder / NEXT, ignore_errors=True)
    return IndexSummary.of(noted)


def _drop_other(staged: Path, model: ImageTextModel) -> None:
    """Remove what a stopped run for a third model left."""
    if not (staged / CATALOGUE).is_file():
        return
    with writing(staged) as new:
        other = new.meta().get("model", model.fingerprint) != model.fingerprint
    if other:
        shutil.rmtree(staged)


def _phrases(catalogue: Catalogue) -> list[str]:
    prompts = prompts_of_json(catalogue.meta()["prompts"])
    return [phrase for side in prompts.values() for phrase in side.positive]


class _Rebuild:
    """A rebuild under way."""

    def __init__(
        self,
        folder: Path,
        model: ImageTextModel,
        checkpoint: Path,
        cache: DecodedCache | None,
        progress: Progress | None,
    ) -> None:
        self._folder, self._model, self._checkpoint = folder, model, checkpoint
        self._cache, self._progress = cache, progress
        self._familiar = familiar_beside(model)
        self._lost: dict[int, tuple[str, str]] = {}  # by number: file, and why
        self._language: Language | None = None
        self._labeler: Labeler | None = None

    def start(self, new: Catalogue, say: Say) -> None:
        """Embed the sentences, note by what the new index is made, and see that there is room."""
        with Catalogue(self._folder / CATALOGUE) as old:
            meta, (images, sentences) = old.meta(), old.counts()
            if "model" not in new.meta():
                texts = list(old.known_sentences())
                vectors = list(self._model.embed_sentences(texts).cpu()) if texts else []
                prompts = prompts_of_json(meta["prompts"])
                start_index(
                    new, self._model, self._checkpoint, vectors, prompts, meta["storage"],
                    int(meta["pool"]),
                )  # fmt: skip
                self._add_sentences(new, old, dict(zip(texts, vectors, strict=True)))
        self._require_room(new, images, sentences, say)
        noted = new.meta()
        self._language = Language.of_meta(noted)
        self._labeler = labeler_of(self._model, noted)

    def _require_room(self, new: Catalogue, images: int, sentences: int, say: Say) -> None:
        noted = new.meta()
        files = vector_files(new.path.parent, noted)
        each = sum(files[name].row_bytes for name in OF_IMAGES) + CANDIDATE_BYTES
        left = max(0, images - int(noted["places"])) * each
        left += max(0, sentences - int(noted["sentence_places"])) * files[SENTENCES].row_bytes
        status = os.statvfs(new.path.parent)
        free = status.f_bavail * status.f_frsize
        say(
            f"the vectors of {images} images by the new model take {images * each / 1e9:.3g} GB "
            f"beside the old ones, of which {left / 1e9:.3g} GB are still to be written; the disk "
            f"has {free / 1e9:.3g} GB free"
        )
        if left > free:
            raise WorkError(
                f"{self._folder}: {left / 1e9:.3g} GB are to be written and the disk has "
                f"{free / 1e9:.3g} GB free; make room, then run the same command again"
            )

    def missing(self, new: Catalogue, old: Catalogue | None = None) -> list[_Image]:
        """Images of the old index that are not embedded anew, in the order of their numbers."""
        if old is None:
            with Catalogue(self._folder / CATALOGUE) as reader:
                return self.missing(new, reader)
        known = set(new.known_images())
        rows = old.database.execute(
            "SELECT number, path, coalesce(file, image), file IS NOT NULL, study_id, patient_id, "
            "split FROM images JOIN roots USING (root) ORDER BY number"
        ).fetchall()
        there = {number for number, *_ in rows}
        self._lost = {number: lost for number, lost in self._lost.items() if number in there}
        return [
            _Image(number, str(Path(root) / file), *rest)
            for number, root, file, *rest in rows
            if str(number) not in known and number not in self._lost
        ]

    def embed(self, new: Catalogue, old: Catalogue | None = None) -> None:
        """Embed what is missing; what cannot be read is noted."""
        todo = self.missing(new, old)
        for image in todo:
            path = Path(image.path)
            with suppress(OSError):  # embed_files notes it
                if image.is_kept and sha256(path) != path.stem:
                    self._lost[image.number] = image.path, "is damaged; put it back from a backup"
        todo = [image for image in todo if image.number not in self._lost]
        if not todo:
            return
        assert self._language is not None  # noqa: S101 - started
        assert self._labeler is not None  # noqa: S101
        meta = new.meta()
        begun = new.counts()[0]
        done = 0
        paths = [Path(image.path) for image in todo]
        for part in embed_files(self._model, paths, cache=self._cache):
            for row, reason in part.failed:
                self._lost[todo[row].number] = todo[row].path, reason
            if part.rows:
                rows, regions = packed_rows(
                    self._model, part.regions, self._language, meta["storage"], int(meta["pool"])
                )
                labels = self._labeler.columns(regions)
                labels |= unlike_column(self._familiar, self._model, part)
                images = [
                    _staged(todo[row], size, {n: float(v[i]) for n, v in labels.items()})
                    for i, (row, size) in enumerate(zip(part.rows, part.sizes, strict=True))
                ]
                add_images(new.path.parent, new, images, rows)
            done += len(part.rows) + len(part.failed)
            if self._progress:
                self._progress(begun + done, begun + len(todo))

    def refuse_losses(
        self, new: Catalogue, max_rejected: int, old: Catalogue | None = None
    ) -> None:
        """Refuse to turn an index to vectors that lack more images than are to be borne."""
        self.missing(new, old)  # one that was deleted after it could not be read is not lost
        if len(self._lost) <= max_rejected:
            return
        listed = self.write_losses()
        raise DataError(
            f"{self._folder}: {len(self._lost)} images cannot be read and would be lost (all of "
            f"them: {listed}); the index was left as it is. Put them back ('cxrtext index move' "
            "where their folder has moved), delete their studies, or bear the loss with "
            f"--max-rejected {len(self._lost)}; then run the same command again: the rest is kept"
        )

    def write_losses(self) -> Path | None:
        """List the images that cannot be read."""
        path = self._folder.with_name(self._folder.name + ".rejected.csv")
        if not self._lost:
            path.unlink(missing_ok=True)
            return None
        rows = [{"item": item, "reason": reason} for item, reason in self._lost.values()]
        write_table(path, ["item", "reason"], rows)
        return path

    def agree(self, new: Catalogue, old: Catalogue) -> None:
        """Let the new index hold just the images, sentences and labels that the old one has now."""
        there = {str(number) for number in old.known_images().values()}
        gone = [name for name in new.known_images() if name not in there]
        with new.transaction(write=True) as database:
            delete_images(database, "image", gone)
        self._add_sentences(new, old, {})
        asked = old.meta()["prompts"]
        if json.loads(asked) != json.loads(new.meta()["prompts"]):
            self._label(new, asked)

    def _add_sentences(self, new: Catalogue, old: Catalogue, made: Mapping[str, Tensor]) -> None:
        """Let studies say what they say in the old index.

        Args:
            new: The staged index.
            old: The old one.
            made: Vectors [D] of sentences that are there already, by text.
        """
        known = new.known_sentences()
        texts = [text for text in old.known_sentences() if text not in known]
        unknown = [text for text in texts if text not in made]
        vectors = dict(made)
        if unknown:
            vectors |= zip(unknown, self._model.embed_sentences(unknown).cpu(), strict=True)
        rows = torch.stack([vectors[text] for text in texts]) if texts else torch.empty(0)
        said = old.database.execute(
            "SELECT study_id, section, position, sentences.sentence FROM said "
            "JOIN sentences ON sentences.number = said.sentence"
        ).fetchall()
        with new.transaction(write=True) as database:
            database.execute("DELETE FROM said")
        add_reports(new.path.parent, new, NewReports(texts, rows.numpy(), said))

    def _label(self, new: Catalogue, asked: str) -> None:
        """Label the staged images by prompts that were chosen meanwhile."""
        prompts = prompts_of_json(asked)
        labeler = Labeler(self._model, prompts, calibrations_of(self._model, prompts))
        snapshot = take_snapshot(new.path.parent, new)
        forgotten = dict.fromkeys(n for n in new.columns() if n.startswith(LABEL))
        with new.transaction(write=True) as database:
            for start in range(0, len(snapshot.live), CHUNK):
                places = snapshot.live[start : start + CHUNK]
                regions = unpack(rows_of(snapshot.arrays["regions"], places))
                columns = labeler.columns(regions)
                cells = [
                    {**forgotten, **{name: float(v[i]) for name, v in columns.items()}}
                    for i in range(len(places))
                ]
                set_attributes(database, zip(snapshot.numbers[places].tolist(), cells, strict=True))
            set_meta(database, labels_as_meta(prompts, calibrations_of(self._model, prompts)))
        self._labeler = labeler


def _staged(image: _Image, size: tuple[int, int], labels: dict[str, float]) -> NewImage:
    path = Path(image.path)
    return NewImage(
        image.name, str(path.parent), image.study_id, image.patient_id, image.split, *size,
        metadata={}, labels=labels,
    )  # fmt: skip


def _turn(folder: Path, old: Catalogue, new: Catalogue) -> None:
    """Let the old catalogue name the new vectors, in one step."""
    noted, meta = new.meta(), old.meta()
    generation = int(meta["generation"]) + 1
    serial = int(meta.get("structures", 0)) + 1
    targets = vector_files(folder, {**noted, "generation": str(generation)})
    for name, source in vector_files(folder / NEXT, noted).items():
        _link(source.path, targets[name].path)
    structures = []
    for name, file, digest, places, detail in new.database.execute(
        "SELECT * FROM structures WHERE name = 'profiles'"
    ):
        target = f"{name}.{generation:06d}.{serial:06d}.faiss"
        _link(folder / NEXT / file, folder / target)
        structures.append((name, target, digest, places, detail))
    sync(folder)
    segments = new.database.execute("SELECT * FROM segments").fetchall()
    with old.transaction(write=True) as database:
        _lose_missing(database, new)
        _turn_places(database, new)
        _turn_labels(database, old, new)
        database.execute("DELETE FROM segments")
        database.executemany("INSERT INTO segments VALUES (?, ?, ?, ?)", segments)
        database.execute("DELETE FROM structures")
        database.executemany("INSERT INTO structures VALUES (?, ?, ?, ?, ?)", structures)
        database.execute("DELETE FROM meta WHERE key = 'usual_likeness'")
        values = {key: noted[key] for key in OF_MODEL if key in noted}
        set_meta(database, {**values, "generation": generation, "structures": serial})


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it; one that a stopped run left there is replaced."""
    target.unlink(missing_ok=True)
    if not source.exists():
        source.touch()  # an index without sentences
    with suppress(OSError):
        target.hardlink_to(source)
        return
    shutil.copyfile(source, target)


def _lose_missing(database: Connection, new: Catalogue) -> None:
    """Delete the images that could not be embedded anew."""
    there = set(new.known_images())
    rows = database.execute("SELECT image, number FROM images").fetchall()
    delete_images(database, "image", [name for name, number in rows if str(number) not in there])


def _turn_places(database: Connection, new: Catalogue) -> None:
    images = new.database.execute("SELECT place, CAST(image AS INTEGER) FROM images").fetchall()
    sentences = new.database.execute("SELECT place, sentence FROM sentences").fetchall()
    # No two rows may have one place, not even for a moment.
    for table, column, rows in (("images", "number", images), ("sentences", "sentence", sentences)):
        database.execute(f"UPDATE {table} SET place = -1 - place")  # noqa: S608 - our names
        database.executemany(f"UPDATE {table} SET place = ? WHERE {column} = ?", rows)  # noqa: S608


def _turn_labels(database: Connection, old: Catalogue, new: Catalogue) -> None:
    """Take over what the new model says of images; what the old one said is forgotten."""

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
