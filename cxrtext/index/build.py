"""Build an index from a manifest, or add to one."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import calibrations_of, prompts_beside
from cxrtext.evaluation.data import sentences_beside
from cxrtext.evaluation.how_good import how_good_beside
from cxrtext.files import write_private
from cxrtext.images.cache import DecodedCache
from cxrtext.index.changes import NewImage, NewReports, add_images, add_reports, set_attributes
from cxrtext.index.features.language import Language, language_for
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.labels import labeler_of, labels_as_meta, phrases_of, unlike_column
from cxrtext.index.search.filter import as_cell
from cxrtext.index.search.index import check_model
from cxrtext.index.store.catalogue import Catalogue, set_meta
from cxrtext.index.store.vectors import vector_files
from cxrtext.index.store.writer import SUMMARY, IndexSummary, write_summary, writing
from cxrtext.index.structure import refresh_structure
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import familiar_beside
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.regions import STORAGES, EmbeddedBatch, embed_records
from cxrtext.pausing import Progress
from cxrtext.records import ImageRecord, Rejects, Sentence, read_manifest, require_match
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.manifest import is_own_column

REPORT_COLUMNS = {"report", *SECTION_COLUMNS}
"""Manifest columns with report text, kept as sentences instead of metadata."""


def build_index(
    manifest: Path,
    checkpoint: Path,
    out: Path,
    *,
    reports: Path | None = None,
    device: str = "cpu",
    allow_outside: bool = False,
    max_rejected: int = 100,
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    replace: bool = False,
    storage: str = "float16",
    prompts: Mapping[str, Prompts] | None = None,
    wait_s: float = 0.0,
    progress: Progress | None = None,
) -> IndexSummary:
    """Embed the images of a manifest and the sentences of its reports, and index them.

    A stopped run resumes.  Images are added to an existing index, which can be searched meanwhile.
    Images (by name) and sentences that are already in it are not embedded again, but it takes over
    what the manifest and the reports now say, and the present places of images and model.

    Args:
        reports: A table of reports; by default the one that :func:`sentences_beside` finds.
        allow_outside: Whether images may be outside the manifest's folder.
        features: Of the model's backbone, to use instead of images; see ``cxrtext encode``.
        replace: Whether to embed images again that are already in the index.
        storage: How a new index keeps regions: "float16" or "int8".
        prompts: For the zero-shot labels of a new index; the checkpoint's by default.
        wait_s: How long to wait while another process writes.
    """
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage}")
    records = read_manifest(manifest, allow_outside=allow_outside)
    check_columns(manifest, records)
    model = load_model(checkpoint, device)
    warning = how_good_beside(model).warning
    said = said_in(manifest, reports, {record.study_id for record in records})
    rejects = Rejects(max_rejected)
    with writing(out, wait_s=wait_s, create=True) as catalogue:
        if "model" in (noted := catalogue.meta()):
            check_model(out, noted, model)
        texts = _embed_new(catalogue, model, said, {})
        vectors = list(texts.values())
        start_index(
            catalogue, model, checkpoint, vectors, prompts or prompts_beside(model), storage
        )
        (out / SUMMARY).unlink(missing_ok=True)  # until the run is complete
        known, root = catalogue.known_images(), str(manifest.parent.resolve())
        todo = [record for record in records if replace or record.name not in known]
        if not replace:
            _update_known(catalogue, [r for r in records if r.name in known], root)
        skipped = len(records) - len(todo)

        def report(done: int) -> None:
            if progress:
                progress(skipped + done, len(records))

        parts = embed_records(model, todo, features=features, cache=cache)
        embedded = add_embedded(catalogue, model, todo, root, parts, rejects.add, report)
        rejected = rejects.write(out)
        if not catalogue.counts()[0]:
            raise DataError(f"{manifest}: no image can be read: {rejects.rows[-1][1]}")
        add_sentences(catalogue, model, said, texts)
        refresh_structure(out, catalogue)
        replaced = sum(record.name in known for record in todo)
        replaced -= sum(name in known for name, _ in rejects.rows)
        written = write_summary(out, catalogue)
    counts = {"added": embedded - replaced, "replaced": replaced}
    return IndexSummary.of(written, **counts, rejected=rejected, warning=warning)


def make_index(
    checkpoint: Path,
    out: Path,
    *,
    prompts: Mapping[str, Prompts] | None = None,
    storage: str = "float16",
    device: str = "cpu",
) -> IndexSummary:
    """Make an index without images, for those to be received or uploaded; arguments as above.

    If the index exists, note the present place of its model.
    """
    model = load_model(checkpoint, device)
    with writing(out, create=True) as catalogue:
        is_new = "model" not in (noted := catalogue.meta())
        if not is_new:
            check_model(out, noted, model)
        start_index(catalogue, model, checkpoint, [], prompts or prompts_beside(model), storage)
        if is_new:
            for file in vector_files(out, catalogue.meta()).values():
                write_private(file.path, b"")
            refresh_structure(out, catalogue)
        written = write_summary(out, catalogue)
    return IndexSummary.of(written)


def start_index(
    catalogue: Catalogue,
    model: ImageTextModel,
    checkpoint: Path,
    sentences: Sequence[Tensor],
    prompts: Mapping[str, Prompts],
    storage: str,
) -> None:
    """Note the settings of a new index, or the present place of an old one's model.

    The sketches are made for the archive's sentences, vectors [D].
    """
    notes = {}
    if "model" not in catalogue.meta():
        notes = index_notes(model, sentences, prompts, storage)
    note_start(catalogue, checkpoint, notes)


def note_start(catalogue: Catalogue, checkpoint: Path, notes: Mapping[str, object]) -> None:
    with catalogue.transaction(write=True) as database:
        set_meta(database, {"checkpoint": checkpoint.resolve(), **notes})


def index_notes(
    model: ImageTextModel, sentences: Sequence[Tensor], prompts: Mapping[str, Prompts], storage: str
) -> dict[str, str]:
    """A catalogue's notes about a new index as a whole; arguments as in :func:`start_index`."""
    preprocessing = model.spec.preprocessing
    with torch.inference_mode():
        blank = torch.zeros(1, 1, preprocessing.crop, preprocessing.crop, device=model.device)
        N = model.embed_images(blank).flatten(1, 2).shape[1]
    texts = torch.stack([*sentences]) if sentences else torch.empty(0, model.spec.dimension)
    language = language_for(model, texts, phrases_of(prompts))
    sizes = {"resize": preprocessing.resize, "crop": preprocessing.crop}
    counts = ("places", "next_number", "sentence_places", "next_sentence", "deletions")
    return {
        "model": model.fingerprint,
        "preprocessing": json.dumps(sizes),
        "regions": str(N),
        "dimension": str(model.spec.dimension),
        "storage": storage,
        **language.as_meta(),
        **labels_as_meta(prompts, calibrations_of(model, prompts)),
        "generation": "1",
        **dict.fromkeys(counts, "0"),
    }


def said_in(manifest: Path, reports: Path | None, studies: Collection[str]) -> list[Sentence]:
    read = sentences_beside(manifest, reports) or []
    if reports is not None:
        named = {sentence.study_id for sentence in read}
        require_match(reports, "reports", named, studies, "study_id", manifest)
    return [sentence for sentence in read if sentence.study_id in studies]


def distinct(said: Sequence[Sentence]) -> list[str]:
    return list(dict.fromkeys(sentence.sentence for sentence in said))


def _embed_new(
    catalogue: Catalogue,
    model: ImageTextModel,
    said: Sequence[Sentence],
    texts: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Vectors of the distinct sentences that are not in the index, from ``texts`` if possible."""
    known = catalogue.known_sentences()
    new = [text for text in distinct(said) if text not in known]
    unknown = [text for text in new if text not in texts]
    vectors = model.embed_sentences(unknown).cpu() if unknown else ()
    made = {**texts, **dict(zip(unknown, vectors, strict=True))}
    return {text: made[text] for text in new}


def _metadata(record: ImageRecord) -> dict[str, str]:
    return {k: v for k, v in record.metadata.items() if k not in REPORT_COLUMNS}


def check_columns(manifest: Path, records: Sequence[ImageRecord]) -> None:
    """Refuse a manifest with columns that only this program writes (DataError)."""
    own = [name for record in records[:1] for name in record.metadata if is_own_column(name)]
    if own:
        raise DataError(
            f"{manifest}: column '{own[0]}': an index keeps its own values under this name; rename "
            "the column, or leave it out"
        )


def _update_known(catalogue: Catalogue, records: Sequence[ImageRecord], root: str) -> None:
    """Take over what a manifest says about images, and the folder that they are in now."""
    with catalogue.transaction(write=True) as database:
        database.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (root,))
        (here,) = database.execute("SELECT root FROM roots WHERE path = ?", (root,)).fetchone()
        database.executemany(
            "UPDATE images SET root = ? WHERE image = ? AND file IS NULL AND root <> ?",
            [(here, record.name, here) for record in records],
        )
        for record in records:
            metadata = _metadata(record)
            row = database.execute(
                "SELECT number, study_id, patient_id, split, metadata FROM images WHERE image = ?",
                (record.name,),
            ).fetchone()
            written = json.dumps(metadata, ensure_ascii=False)
            now = (record.study_id, record.patient_id, record.split, written)
            if row[1:] != now:
                database.execute(
                    "UPDATE images SET study_id = ?, patient_id = ?, split = ?, metadata = ? "
                    "WHERE number = ?",
                    (*now, row[0]),
                )
                before = dict.fromkeys(json.loads(row[4]))
                cells = {name: as_cell(text) for name, text in metadata.items()}
                set_attributes(database, [(row[0], {**before, **cells})])


@dataclass(frozen=True, slots=True)
class EmbeddedImages:
    rows: list[int]  # their places among those asked for, rising
    sizes: list[tuple[int, int]]  # height and width of each original, in pixels
    vectors: Mapping[str, NDArray[Any]]  # by vector file, one row per image
    labels: Mapping[str, NDArray[np.float32]]  # what the model says about them, by column
    failed: list[tuple[int, str]]  # place and reason of each that could not be read

    def image(self, i: int, record: ImageRecord, root: str) -> NewImage:
        return NewImage(
            record.name,
            root,
            record.study_id,
            record.patient_id,
            record.split,
            *self.sizes[i],
            _metadata(record),
            {name: float(values[i]) for name, values in self.labels.items()},
        )


def packed_images(
    model: ImageTextModel, notes: Mapping[str, str], embedded: Iterable[EmbeddedBatch]
) -> Iterator[EmbeddedImages]:
    """Embedded images in an index's form, by notes of :func:`index_notes` or of a catalogue."""
    familiar, labeler = familiar_beside(model), labeler_of(model, notes)
    language = Language.of_meta(notes)
    for part in embedded:
        if not part.rows:
            yield EmbeddedImages([], [], {}, {}, part.failed)
            continue
        vectors, regions = packed_rows(model, part.regions, language, notes["storage"])
        labels = labeler.columns(regions) | unlike_column(familiar, model, part)
        yield EmbeddedImages(part.rows, part.sizes, vectors, labels, part.failed)


def add_embedded(
    catalogue: Catalogue,
    model: ImageTextModel,
    todo: Sequence[ImageRecord],
    root: str | None,
    embedded: Iterable[EmbeddedBatch],
    reject: Callable[[str, str], None],
    report: Callable[[int], None],
) -> int:
    """Add images as they are embedded; gives how many.

    Their names are relative to ``root``, or to each file's folder if it is None.  ``reject`` gets
    the name of each unreadable image and the reason; ``report`` gets the number done.
    """
    done = added = 0
    for part in packed_images(model, catalogue.meta(), embedded):
        for row, reason in part.failed:
            reject(todo[row].name, reason)
        if part.rows:
            images = [
                part.image(i, todo[row], root or str(todo[row].path.parent))
                for i, row in enumerate(part.rows)
            ]
            add_images(catalogue.path.parent, catalogue, images, part.vectors)
            added += len(part.rows)
        done += len(part.rows) + len(part.failed)
        report(done)
    return added


def add_sentences(
    catalogue: Catalogue,
    model: ImageTextModel,
    sentences: Sequence[Sentence],
    texts: Mapping[str, Tensor],
) -> None:
    """Add the sentences of an index's studies; vectors come from ``texts`` or are embedded."""
    studies = {row[0] for row in catalogue.database.execute("SELECT study_id FROM images")}
    said = [s for s in sentences if s.study_id in studies]
    # A known sentence is gone if the last image of its study was replaced.
    new = _embed_new(catalogue, model, said, texts)
    vectors = torch.stack(list(new.values())).numpy() if new else np.empty(0)
    rows = [(s.study_id, s.section, s.position, s.sentence) for s in said]
    add_reports(catalogue.path.parent, catalogue, NewReports(list(new), vectors, rows))
