"""Building an index from a manifest, or adding to one."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.data import sentences_beside
from cxrtext.images.cache import DecodedCache
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.changes import NewImage, add_images, add_sentences, set_attributes
from cxrtext.index.derived import packed_rows
from cxrtext.index.labels import labeller_of, prompts_of_json
from cxrtext.index.language import Language
from cxrtext.index.layout import SUMMARY
from cxrtext.index.maintain import summary_of
from cxrtext.index.quantised import STORAGES
from cxrtext.index.start import start_index
from cxrtext.index.summary import IndexSummary, write_summary
from cxrtext.index.tune import TARGET_RECALL, refresh_structure
from cxrtext.index.where import as_cell
from cxrtext.index.writer import writing
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.embedding import embed_files
from cxrtext.records import ImageRecord, Rejects, Sentence, read_manifest, require_match
from cxrtext.records.text_source import SECTION_COLUMNS

REPORT_COLUMNS = {"report", *SECTION_COLUMNS}
"""Columns of a manifest that are text of the report: kept as sentences, not as metadata."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class _Texts:
    """The distinct sentences of the reports, and their vectors."""

    said: list[Sentence]
    vectors: dict[str, Tensor]


def _metadata(record: ImageRecord) -> dict[str, str]:
    return {k: v for k, v in record.metadata.items() if k not in REPORT_COLUMNS}


def _update_metadata(catalogue: Catalogue, records: Sequence[ImageRecord]) -> None:
    """Take over what a manifest says otherwise of images that are known."""
    with catalogue.transaction(write=True) as database:
        for record in records:
            metadata = _metadata(record)
            said = json.dumps(metadata, ensure_ascii=False)
            row = database.execute(
                "SELECT number, study_id, patient_id, split, metadata FROM images WHERE image = ?",
                (record.name,),
            ).fetchone()
            now = (record.study_id, record.patient_id, record.split, said)
            if row[1:] != now:
                database.execute(
                    "UPDATE images SET study_id = ?, patient_id = ?, split = ?, metadata = ? "
                    "WHERE number = ?",
                    (*now, row[0]),
                )
                before = dict.fromkeys(json.loads(row[4]))
                cells = {name: as_cell(text) for name, text in metadata.items()}
                set_attributes(database, [(row[0], {**before, **cells})])


def _add_images(
    catalogue: Catalogue,
    model: ImageTextModel,
    todo: Sequence[ImageRecord],
    root: str,
    rejects: Rejects,
    cache: DecodedCache | None,
    progress: Progress,
) -> int:
    meta = catalogue.meta()
    folder = catalogue.path.parent
    language = Language.of_meta(meta)
    labeller = labeller_of(model, meta)
    done = added = 0
    for part in embed_files(model, [record.path for record in todo], cache=cache):
        for row, reason in part.failed:
            rejects.add(todo[row].name, reason)
        if part.rows:
            rows, regions = packed_rows(
                model, part.regions, language, meta["storage"], int(meta["pool"])
            )
            labels = labeller.columns(regions)
            images = [
                NewImage(
                    todo[row].name,
                    root,
                    todo[row].study_id,
                    todo[row].patient_id,
                    todo[row].split,
                    *size,
                    _metadata(todo[row]),
                    {name: float(values[place]) for name, values in labels.items()},
                )
                for place, (row, size) in enumerate(zip(part.rows, part.sizes, strict=True))
            ]
            add_images(folder, catalogue, images, rows)
            added += len(part.rows)
        done += len(part.rows) + len(part.failed)
        progress(done, len(todo))
    return added


def _add_sentences(catalogue: Catalogue, texts: _Texts) -> None:
    studies = {row[0] for row in catalogue.database.execute("SELECT study_id FROM images")}
    said = [s for s in texts.said if s.study_id in studies]
    known = catalogue.known_sentences()
    new = [text for text in dict.fromkeys(s.sentence for s in said) if text not in known]
    vectors = torch.stack([texts.vectors[text] for text in new]).numpy() if new else np.empty(0)
    rows = [(s.study_id, s.section, s.position, s.sentence) for s in said]
    add_sentences(catalogue.path.parent, catalogue, new, vectors, rows)


def _texts(
    manifest: Path,
    reports: Path | None,
    model: ImageTextModel,
    records: Sequence[ImageRecord],
) -> _Texts:
    studies = {record.study_id for record in records}
    read = sentences_beside(manifest, reports) or []
    if reports is not None:
        told = {sentence.study_id for sentence in read}
        require_match(reports, "reports", told, studies, "study_id", manifest)
    said = [sentence for sentence in read if sentence.study_id in studies]
    distinct = list(dict.fromkeys(s.sentence for s in said))
    vectors = model.embed_sentences(distinct).cpu() if distinct else torch.empty(0)
    return _Texts(said, dict(zip(distinct, vectors, strict=True)))


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
    replace: bool = False,
    storage: str = "float16",
    pool: int = 1,
    prompts: Mapping[str, Prompts] | None = None,
    kind: str = "auto",
    target: float = TARGET_RECALL,
    wait_s: float = 0.0,
    progress: Progress | None = None,
) -> IndexSummary:
    """Embed the images of a manifest and the sentences of its reports, and index them.

    A run that was stopped goes on where it was; an existing index is added to, and can be
    searched meanwhile.  Images already in the index, by name, are not embedded again, but what
    the manifest and the reports say of them is taken over.

    Args:
        manifest: The manifest.
        checkpoint: The model's folder.
        out: The index's folder.
        reports: A table of reports; by default as :func:`sentences_beside` finds them.
        device: Where to compute.
        allow_outside: Whether images may lie outside the manifest's folder.
        max_rejected: How many images may be unreadable.
        cache: Where decoded images are kept; without it they are decoded each time.
        replace: Whether images already in the index are embedded again.
        storage: How a new index keeps regions: "float16" or "int8".
        pool: Side of the block of regions that a new index keeps as one: 2 takes about a quarter
            of the room, and ranks by coarser regions.
        prompts: Of the zero-shot labels that a new index keeps; CheX5's by default.
        kind: Of the FAISS structure: "auto" by size, "flat", "hnsw" or "ivfpq".
        target: Recall@10 that the fast search is tuned for.
        wait_s: How long to queue while another process writes.
        progress: Called with (done, total) images.

    Returns:
        What the index holds.

    Raises:
        DataError: A table is wrong, too many images are unreadable, or another process writes.
        CheckpointError: The index was made by another model, or is damaged.
        WorkError: The disk is full or cannot be written.
    """
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage}")
    records = read_manifest(manifest, allow_outside=allow_outside)
    model = load_model(checkpoint, device)
    texts = _texts(manifest, reports, model, records)
    rejects = Rejects(max_rejected)
    with writing(out, wait_s=wait_s, create=True) as catalogue:
        vectors = list(texts.vectors.values())
        start_index(catalogue, model, checkpoint, vectors, prompts or CHEX5_PROMPTS, storage, pool)
        (out / SUMMARY).unlink(missing_ok=True)  # until the run is whole
        known = catalogue.known_images()
        todo = [record for record in records if replace or record.name not in known]
        if not replace:
            _update_metadata(catalogue, [r for r in records if r.name in known])
        skipped = len(records) - len(todo)

        def report(done: int, _: int) -> None:
            if progress:
                progress(skipped + done, len(records))

        root = str(manifest.parent.resolve())
        embedded = _add_images(catalogue, model, todo, root, rejects, cache, report)
        rejected = rejects.write(out)
        if not catalogue.counts()[0]:
            raise DataError(f"{manifest}: no image can be read: {rejects.rows[-1][1]}")
        _add_sentences(catalogue, texts)
        noted = prompts_of_json(catalogue.meta()["prompts"])
        phrases = [phrase for side in noted.values() for phrase in side.positive]
        refresh_structure(out, catalogue, model, phrases, kind=kind, target=target)
        replaced = sum(record.name in known for record in todo)
        replaced -= sum(name in known for name, _ in rejects.rows)
        summary = write_summary(out, catalogue)
    return summary_of(summary, added=embedded - replaced, replaced=replaced, rejected=rejected)
