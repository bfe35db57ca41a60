"""The embedded images of an evaluation, and reference images for a checkpoint without them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation.data import manifest_of
from cxrtext.images import Geometry, Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.metrics.ranking import Floats
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.reference import choose_reference, reference_of, save_reference
from cxrtext.models.regions import embed_records
from cxrtext.records import ImageRecord, Rejects, read_manifest

IMAGES_AT_ONCE = 256
"""Images scored at the same time; bounds memory."""
PAIRS_AT_ONCE = 256
"""Image-sentence pairs scored at the same time; bounds memory."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """Embedded images: the [B] records that could be read.

    ``sizes`` [B] are height and width of each original in pixels, ``regions`` [B, N, D] unit
    vectors, float16 on the CPU.
    """

    records: list[ImageRecord]
    sizes: list[tuple[int, int]]
    regions: Tensor
    preprocessing: Preprocessing

    @property
    def patients(self) -> list[str]:
        return [record.patient_id for record in self.records]

    @property
    def studies(self) -> list[str]:
        return [record.study_id for record in self.records]

    def grid(self, row: int) -> Tensor:
        """The regions of an image, float32 [h, w, D]; the grid is square, like the crop."""
        regions = self.regions[row].float()
        side = isqrt(len(regions))
        return regions.view(side, side, -1)

    def geometry(self, row: int) -> Geometry:
        return self.preprocessing.geometry(*self.sizes[row])

    def chunks(self, model: ImageTextModel) -> Iterator[Tensor]:
        """Regions in chunks of images, float32 on the model's device."""
        for part in self.regions.split(IMAGES_AT_ONCE):
            yield part.to(model.device).float()


@dataclass(slots=True)
class Embedder:
    """Embeds images and counts them, over several splits with ``total`` images in all.

    Images that cannot be read go to ``rejects``; ``progress`` is called with (done, total).
    ``features`` of the model's backbone replace the images.
    """

    model: ImageTextModel
    cache: DecodedCache | None
    rejects: Rejects
    total: int
    progress: Callable[[int, int], None] | None = None
    features: FeatureFolder | None = None
    done: int = 0

    def batches(self, records: Sequence[ImageRecord]) -> Iterator[tuple[list[int], Any, Tensor]]:
        """Yield places in ``records``, original sizes and regions [b, N, D], batch by batch."""
        for batch in embed_records(self.model, records, features=self.features, cache=self.cache):
            for row, reason in batch.failed:
                self.rejects.add(records[row].name, reason)
            self.done += len(batch.rows) + len(batch.failed)
            if self.progress:
                self.progress(self.done, self.total)
            if batch.rows:
                yield batch.rows, batch.sizes, batch.regions

    def cohort(self, records: Sequence[ImageRecord]) -> Cohort:
        rows: list[int] = []
        sizes: list[tuple[int, int]] = []
        parts = []
        for places, some, regions in self.batches(records):
            rows += places
            sizes += some
            parts.append(regions.half().cpu())
        regions = torch.cat(parts) if parts else torch.empty(0, 1, self.model.spec.dimension)
        return Cohort([records[row] for row in rows], sizes, regions, self.model.spec.preprocessing)


@torch.inference_mode()
def score_pairs(
    model: ImageTextModel, cohort: Cohort, rows: Sequence[int], texts: Sequence[str]
) -> Floats:
    """Image-sentence scores times γ², float64 [n]: image ``rows[i]`` with sentence ``texts[i]``."""
    distinct = list(dict.fromkeys(texts))
    vectors = model.embed_sentences(distinct)
    number = {text: place for place, text in enumerate(distinct)}
    paired = np.empty(len(rows))
    order = np.argsort(np.asarray(rows, dtype=np.int64), kind="stable").tolist()
    for start in range(0, len(order), PAIRS_AT_ONCE):
        some = order[start : start + PAIRS_AT_ONCE]
        images = list(dict.fromkeys(rows[pair] for pair in some))
        sentences = list(dict.fromkeys(number[texts[pair]] for pair in some))
        regions = cohort.regions[images].to(model.device).float()
        scores = (model.gamma_sq * model.scores(regions, vectors[sentences])).double().cpu().numpy()
        column = {row: place for place, row in enumerate(images)}
        line = {row: place for place, row in enumerate(sentences)}
        for pair in some:
            paired[pair] = scores[line[number[texts[pair]]], column[rows[pair]]]
    return paired


def keep_reference(
    checkpoint: Path,
    data: Path,
    *,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, int]:
    """Embed validation images and keep them with a checkpoint, to verify reports against.

    Training does this by itself; this function is for checkpoints made before it did, and for
    another archive than the one trained on.

    The checkpoint keeps its fingerprint.  Returns the file and its number of images.
    """
    manifest = manifest_of(data)
    records = [r for r in read_manifest(manifest, allow_outside=allow_outside) if r.split == "val"]
    if not records:
        raise DataError(
            f"{manifest}: no image of split 'val'; a reference needs images that the model has "
            "not learned from: name some in column 'split'"
        )
    chosen = choose_reference([r.name for r in records], [r.patient_id for r in records])
    model = load_model(checkpoint, device)
    rejects = Rejects()
    embedder = Embedder(model, cache, rejects, len(chosen), progress)
    parts = [regions.float() for _, _, regions in embedder.batches([records[i] for i in chosen])]
    if not parts:
        raise DataError(f"{data}: no image of split 'val' can be read: {rejects.rows[-1][1]}")
    reference = reference_of(parts)
    return save_reference(checkpoint, reference, model.fingerprint), len(reference)
