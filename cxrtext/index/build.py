"""Building an index, or adding to one."""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.errors import CheckpointError, DataError
from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.evaluation.data_folder import sentences_beside
from cxrtext.files import replacing, sha256, write_json
from cxrtext.images.cache import DecodedCache
from cxrtext.index.catalogue import Catalogue, IndexedImage
from cxrtext.index.layout import (
    CATALOGUE,
    LOCK,
    MEANS,
    PROTOTYPE_INDEX,
    SUMMARY,
    vector_files,
)
from cxrtext.index.prototypes import PROTOTYPES, prototypes
from cxrtext.index.search import Index, open_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.embedding import embed_files
from cxrtext.records import ImageRecord, Rejects, Sentence, read_manifest
from cxrtext.records.reports import SECTION_COLUMNS

REPORT_COLUMNS = {"report", *SECTION_COLUMNS}
"""Columns of a manifest that are text of the report: kept as sentences, not as metadata."""

RECALL_AT = 10
RECALL_QUERIES = 50


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What an index holds after it was built.

    Args:
        images: Images in it.
        added: Images added by this run.
        sentences: Distinct sentences in it.
        recall_at_10: Share of the exact ten best images that a search by candidates finds, over
            a sample of sentences; None where a search scans everything anyway.
        rejected: Where the images set aside are listed, or None.
    """

    images: int
    added: int
    sentences: int
    recall_at_10: float | None
    rejected: Path | None


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    with (folder / LOCK).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"{folder}: another process is writing this index; wait for it to end"
            ) from None
        yield


def _check_model(catalogue: Catalogue, model: ImageTextModel, folder: Path, grid: int) -> None:
    """Note the model of a new index; refuse another one for an old index."""
    noted = catalogue.meta()
    if "model" not in noted:
        catalogue.set_meta(
            {
                "model": model.fingerprint,
                "regions": str(grid),
                "dimension": str(model.spec.dimension),
            }
        )
    elif noted["model"] != model.fingerprint:
        raise CheckpointError(
            f"{folder}: this index was made by another model ({noted['model'][:12]}…, given "
            f"{model.fingerprint[:12]}…); use that model, or build a new index"
        )


def _regions_per_image(model: ImageTextModel) -> int:
    crop = model.spec.preprocessing.crop
    with torch.inference_mode():
        blank = torch.zeros(1, 1, crop, crop, device=model.device)
        return int(model.embed_images(blank).flatten(1, 2).shape[1])


def _add_images(
    folder: Path,
    catalogue: Catalogue,
    model: ImageTextModel,
    records: Sequence[ImageRecord],
    rejects: Rejects,
    cache: DecodedCache | None,
    progress: Callable[[int, int], None] | None,
) -> int:
    files = vector_files(folder, catalogue.meta())
    count, _ = catalogue.counts()
    for name in ("regions", "bags", "prototypes"):
        files[name].truncate(count)
    known = catalogue.known_images()
    todo = [record for record in records if record.name not in known]
    done = added = 0
    for part in embed_files(model, [r.path for r in todo], cache=cache):
        for row, reason in part.failed:
            rejects.add(todo[row].name, reason)
        done += len(part.rows) + len(part.failed)
        if part.rows:
            kept = part.regions.half()
            with torch.inference_mode():
                bags = model.bags(part.regions)
                # From the regions as they are kept, so that an image is nearest to itself.
                centres = prototypes(kept.float())
            files["regions"].append(kept.cpu().numpy())
            files["bags"].append(bags.half().cpu().numpy())
            files["prototypes"].append(centres.cpu().numpy())
            catalogue.add_images(
                IndexedImage(
                    count + added + place,
                    todo[row].name,
                    str(todo[row].path),
                    todo[row].study_id,
                    todo[row].patient_id,
                    todo[row].split,
                    *size,
                    {k: v for k, v in todo[row].metadata.items() if k not in REPORT_COLUMNS},
                )
                for place, (row, size) in enumerate(zip(part.rows, part.sizes, strict=True))
            )
            added += len(part.rows)
        if progress:
            progress(len(records) - len(todo) + done, len(records))
    return added


def _add_sentences(
    folder: Path, catalogue: Catalogue, model: ImageTextModel, sentences: Sequence[Sentence]
) -> None:
    file = vector_files(folder, catalogue.meta())["sentences"]
    _, count = catalogue.counts()
    file.truncate(count)
    known = catalogue.known_sentences()
    new = [text for text in dict.fromkeys(s.sentence for s in sentences) if text not in known]
    if new:
        file.append(model.embed_sentences(new).cpu().numpy())
    catalogue.add_sentences(
        [(count + place, text) for place, text in enumerate(new)],
        [(s.study_id, s.section, s.position, s.sentence) for s in sentences],
    )


def _write_faiss(folder: Path, catalogue: Catalogue) -> dict[str, str]:
    """Derive the FAISS files from the vectors; returns their digests."""
    import faiss

    files = vector_files(folder, catalogue.meta())
    count, _ = catalogue.counts()
    vectors = np.asarray(files["prototypes"].open(count), dtype=np.float32)
    digests = {}
    for name, values in (
        (PROTOTYPE_INDEX, vectors.reshape(count * PROTOTYPES, -1)),
        (MEANS, np.ascontiguousarray(vectors[:, 0])),
    ):
        index = faiss.IndexFlatIP(vectors.shape[-1])
        index.add(values)
        with replacing(folder / name) as temporary:
            faiss.write_index(index, str(temporary))
        digests[name] = sha256(folder / name)
    return digests


def measure_recall(index: Index, queries: torch.Tensor, k: int = RECALL_AT) -> float:
    """Share of the exact k best images that a search by candidates finds.

    Args:
        index: An open index.
        queries: [Q, D], sentence embeddings.
        k: How many are looked at.
    """
    found = 0
    exact = index.exact(queries, k)
    for query, (best, _) in zip(queries, exact, strict=True):
        rows, _ = index.by_candidates(query, k)
        found += len(set(rows.tolist()) & set(best.tolist()))
    return found / sum(len(best) for best, _ in exact)


def _recall(folder: Path, catalogue: Catalogue, model: ImageTextModel) -> float:
    _, count = catalogue.counts()
    if count:
        vectors = vector_files(folder, catalogue.meta())["sentences"].open(count)
        chosen = np.random.default_rng(0).permutation(count)[:RECALL_QUERIES]
        queries = torch.from_numpy(np.asarray(vectors[np.sort(chosen)], dtype=np.float32))
    else:
        phrases = [p for entry in CHEX5_PROMPTS.values() for p in entry.positive]
        queries = model.embed_sentences(phrases).cpu()
    with open_index(folder, model) as index:
        return measure_recall(index, queries)


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
    progress: Callable[[int, int], None] | None = None,
) -> IndexSummary:
    """Embed the images of a manifest and the sentences of its reports, and index them.

    A run that was stopped goes on where it was; an existing index is added to.  Images already in
    the index, by name, are not embedded again.

    Args:
        manifest: The manifest.
        checkpoint: The model's folder.
        out: The index's folder.
        reports: A table of reports; by default as :func:`sentences_beside` finds them.
        device: Where to compute.
        allow_outside: Whether images may lie outside the manifest's folder.
        max_rejected: How many images may be unreadable.
        cache: Where decoded images are kept; without it they are decoded each time.
        progress: Called with (done, total) images.

    Returns:
        What the index holds.

    Raises:
        DataError: A table is wrong, too many images are unreadable, or another process writes.
        CheckpointError: The index was made by another model, or is damaged.
    """
    records = read_manifest(manifest, allow_outside=allow_outside)
    sentences = sentences_beside(manifest, reports) or []
    model = load_model(checkpoint, device)
    rejects = Rejects(max_rejected)
    out.mkdir(parents=True, exist_ok=True)
    with _only_writer(out), Catalogue(out / CATALOGUE, write=True) as catalogue:
        _check_model(catalogue, model, out, _regions_per_image(model))
        (out / SUMMARY).unlink(missing_ok=True)  # until it is whole again
        added = _add_images(out, catalogue, model, records, rejects, cache, progress)
        rejected = rejects.write(out)
        images, _ = catalogue.counts()
        if not images:
            raise DataError(f"{manifest}: no image can be read: {rejects.rows[-1][1]}")
        studies = {record.study_id for record in records}
        _add_sentences(out, catalogue, model, [s for s in sentences if s.study_id in studies])
        images, distinct = catalogue.counts()
        summary: dict[str, Any] = {
            "format": "cxrtext index",
            "model": model.fingerprint,
            "checkpoint": str(checkpoint.resolve()),
            "images": images,
            "sentences": distinct,
            "digests": _write_faiss(out, catalogue),
        }
        write_json(out / SUMMARY, summary)
        recall = _recall(out, catalogue, model)
        write_json(out / SUMMARY, {**summary, "recall_at_10": recall})
    return IndexSummary(images, added, distinct, recall, rejected)


def summary_dict(summary: IndexSummary) -> dict[str, Any]:
    """A summary as JSON takes it."""
    return {**asdict(summary), "rejected": str(summary.rejected) if summary.rejected else None}
