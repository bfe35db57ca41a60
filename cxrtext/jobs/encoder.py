"""From squares of images to region features, the same for an image whatever it is encoded with."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError, ImageError
from cxrtext.images.reader_pool import ReadImage
from cxrtext.models.features.feature_map import FeatureMap
from cxrtext.models.regions import normalized

if TYPE_CHECKING:
    from cxrtext.models.backbones import Backbone

BATCH = 16
"""Images that pass through the backbone at once: always as many, so that the last bits of an
image's features do not follow from how many others there are."""

Half = NDArray[np.float16]
MOST = float(torch.finfo(torch.float16).max)


def regions_of(backbone: "Backbone", squares: Sequence[NDArray[np.uint8]]) -> Tensor:
    """What a backbone makes of up to a batch of squares [1, R, R]: [BATCH, h, w, C] in float32.

    The batch is filled with the first image.
    """
    device = next(iter(backbone.parameters())).device
    filled = [*squares, *[squares[0]] * (BATCH - len(squares))]
    stack = torch.from_numpy(np.stack(filled)).to(device)
    with torch.inference_mode():
        found: Tensor = backbone(normalized(stack, backbone.preprocessing))
    if not bool(torch.isfinite(found).all()):
        raise CheckpointError(
            f"{backbone.folder}: the backbone gives values that are no numbers; try --precision "
            "float32, or look at its weights"
        )
    return found


def features_of(
    backbone: "Backbone", squares: Sequence[NDArray[np.uint8]], feature_map: FeatureMap
) -> Half:
    """What is kept of up to a batch of squares, one view of each, [n, 1, g, g, R]."""
    with torch.inference_mode():
        found = feature_map(regions_of(backbone, squares)).clamp(-MOST, MOST).half().cpu().numpy()
    return found[: len(squares), None]


Batch = tuple[list[int], list[ReadImage], list[tuple[int, str]]]
"""Rows of images and the images; rows and reasons of those that failed before them."""


def full_batches(read: Iterable[ReadImage | ImageError]) -> Iterator[Batch]:
    """Put images together by the batch, in order; the last may be smaller."""
    rows: list[int] = []
    images: list[ReadImage] = []
    failed: list[tuple[int, str]] = []
    for row, image in enumerate(read):
        if isinstance(image, ImageError):
            failed.append((row, str(image)))
        else:
            rows.append(row)
            images.append(image)
        if len(images) == BATCH:
            yield rows, images, failed
            rows, images, failed = [], [], []
    if images or failed:
        yield rows, images, failed
