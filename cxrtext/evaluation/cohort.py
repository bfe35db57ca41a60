"""The images of an evaluation, embedded."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from cxrtext.images import Geometry, Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.models import ImageTextModel
from cxrtext.models.embedding import embed_files
from cxrtext.records import ImageRecord, Rejects

IMAGES_AT_ONCE = 256
"""Images scored at the same time; bounds memory."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """Embedded images.

    Args:
        records: [B], the images that could be read.
        sizes: [B], height and width of the original of each, in pixels.
        regions: [B, N, D], unit vectors, float16 on the CPU.
        preprocessing: How the images were prepared.
    """

    records: list[ImageRecord]
    sizes: list[tuple[int, int]]
    regions: Tensor
    preprocessing: Preprocessing

    @property
    def patients(self) -> list[str]:
        """The patient of each image."""
        return [record.patient_id for record in self.records]

    @property
    def studies(self) -> list[str]:
        """The study of each image."""
        return [record.study_id for record in self.records]

    def grid(self, row: int) -> Tensor:
        """The regions of an image, float32 [h, w, D]; the crop is a square, and so is its grid."""
        regions = self.regions[row].float()
        side = isqrt(len(regions))
        return regions.view(side, side, -1)

    def geometry(self, row: int) -> Geometry:
        """Where the crop of an image lies in its original."""
        return self.preprocessing.geometry(*self.sizes[row])

    def chunks(self, model: ImageTextModel) -> Iterator[Tensor]:
        """Regions of some images at a time, float32 on the model's device."""
        for part in self.regions.split(IMAGES_AT_ONCE):
            yield part.to(model.device).float()


@dataclass(slots=True)
class Embedder:
    """Embeds images and counts them, over several splits.

    Args:
        model: The model.
        cache: Where decoded images are kept.
        rejects: Takes images that cannot be read.
        total: Images of all splits.
        progress: Called with (done, total).
        done: Images that have been embedded.
    """

    model: ImageTextModel
    cache: DecodedCache | None
    rejects: Rejects
    total: int
    progress: Callable[[int, int], None] | None = None
    done: int = 0

    def batches(self, records: Sequence[ImageRecord]) -> Iterator[tuple[list[int], Any, Tensor]]:
        """Give places in ``records``, original sizes and regions [b, N, D], a batch at a time."""
        paths = [record.path for record in records]
        for batch in embed_files(self.model, paths, cache=self.cache):
            for row, reason in batch.failed:
                self.rejects.add(records[row].name, reason)
            self.done += len(batch.rows) + len(batch.failed)
            if self.progress:
                self.progress(self.done, self.total)
            if batch.rows:
                yield batch.rows, batch.sizes, batch.regions

    def cohort(self, records: Sequence[ImageRecord]) -> Cohort:
        """Embed images and keep them."""
        rows: list[int] = []
        sizes: list[tuple[int, int]] = []
        parts = []
        for places, some, regions in self.batches(records):
            rows += places
            sizes += some
            parts.append(regions.half().cpu())
        regions = torch.cat(parts) if parts else torch.empty(0, 1, self.model.spec.dimension)
        used = [records[row] for row in rows]
        return Cohort(used, sizes, regions, self.model.spec.preprocessing)
