"""Prepare an image for an index, and find the images there with the same pixels."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import ImageError, NotFoundError
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.labels import Labeler, labeler_of
from cxrtext.index.store.catalogue import UNLIKE

if TYPE_CHECKING:
    from cxrtext.index import Index, IndexedImage
    from cxrtext.models import ImageTextModel
    from cxrtext.service import EmbeddedImage, Service

ALIKE = 0.99
"""Two images whose mean regions have a lower cosine cannot be the same."""
SAME_AMONG = 3

Pixels = NDArray[np.uint8]
"""[H, W], as an image is shown."""


@dataclass(frozen=True, slots=True)
class IndexRows:
    """What an index keeps of some images."""

    generation: str  # of the index that they fit
    arrays: Mapping[str, NDArray[Any]]  # a row per image, by vector file
    labels: Sequence[Mapping[str, float]]  # by column, for each image


class RowMaker:
    """Makes what indexes keep of embedded images; the labeler is kept while the prompts are."""

    def __init__(self, model: "ImageTextModel") -> None:
        self._model = model
        self._labeler: tuple[tuple[str | None, ...], Labeler] | None = None

    def __call__(self, index: "Index", images: Sequence["EmbeddedImage"]) -> IndexRows:
        """What an index, in its present state, keeps of images."""
        snapshot = index.snapshot
        meta = snapshot.meta
        arrays, kept = packed_rows(
            self._model,
            torch.stack([image.regions for image in images]).float(),
            snapshot.language,
            meta["storage"],
        )
        wanted = tuple(map(meta.get, ("prompts", "calibration")))
        if (known := self._labeler) is None or known[0] != wanted:
            self._labeler = known = wanted, labeler_of(self._model, meta)
        columns = known[1].columns(kept)
        labels = [
            {name: float(values[row]) for name, values in columns.items()}
            | ({} if image.unlike is None else {UNLIKE: image.unlike.share})
            for row, image in enumerate(images)
        ]
        return IndexRows(meta["generation"], arrays, labels)


def digest_of(pixels: Pixels) -> str:
    """The SHA-256 of pixels as they are shown."""
    return hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()


def shown_digest(service: "Service", known: "IndexedImage") -> str:
    """The digest of an indexed image's pixels, or "" if its file is gone or cannot be read."""
    try:
        return digest_of(service.shown(known.image))
    except (NotFoundError, ImageError):
        return ""


def same_pixels(
    service: "Service",
    image: "EmbeddedImage",
    shape: tuple[int, ...],
    digest: str,
    digest_of_known: Callable[["IndexedImage"], str],
) -> Iterator["IndexedImage"]:
    """Indexed images with the same pixels as an image, searched among the most similar ones.

    ``shape``, [H, W], and ``digest`` are those of its pixels as they are shown.
    """
    if not service.archive.images:
        return
    for hit in service.search(service.make_query(image=image), SAME_AMONG).hits:
        known, size = hit.image, (hit.image.height, hit.image.width)
        if hit.score >= ALIKE and size == shape and digest_of_known(known) == digest:
            yield known
