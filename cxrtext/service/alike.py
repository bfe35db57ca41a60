"""Images of the index that may have the very pixels of another, found by their likeness."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import ImageError, NotFoundError

if TYPE_CHECKING:
    from cxrtext.index.store.catalogue import IndexedImage
    from cxrtext.service import EmbeddedImage, Service

ALIKE = 0.99
"""Cosine of the mean regions below which two images cannot be the same."""
SAME_AMONG = 3

Pixels = NDArray[np.uint8]
"""[H, W], as an image is shown."""


def alike(
    service: "Service", image: "EmbeddedImage", shape: tuple[int, ...]
) -> Iterator["IndexedImage"]:
    """Images of the index that may have the same pixels; ``shape`` is height and width."""
    if not service.archive.images:
        return
    for hit in service.search_image(image, SAME_AMONG):
        if hit.score >= ALIKE and (hit.image.height, hit.image.width) == shape:
            yield hit.image


def shown_pixels(service: "Service", known: "IndexedImage") -> Pixels | None:
    """The pixels of an indexed image; None where its file is gone or cannot be read."""
    try:
        return service.shown(known.image)
    except (NotFoundError, ImageError):
        return None
