"""Embedding image files in batches: decoded in other processes, embedded as they come."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import ImageError
from cxrtext.images.isolated import ReaderPool
from cxrtext.images.isolated_prepare import Preparation, ReadImage
from cxrtext.models.image_text import ImageTextModel

Prepared = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """Some of the images asked for.

    Args:
        rows: [b], their places in the list of paths.
        sizes: [b], height and width of the original of each, in pixels.
        regions: [b, N, D], unit vectors, on the model's device.
        failed: Place and reason of each image that could not be read.
    """

    rows: list[int]
    sizes: list[tuple[int, int]]
    regions: Tensor
    failed: list[tuple[int, str]]


def embed_prepared(model: ImageTextModel, images: Sequence[Prepared]) -> Tensor:
    """Embed prepared images, each [1, H, W], as regions [b, N, D], without gradients."""
    with torch.inference_mode():
        stack = torch.from_numpy(np.stack(images)).to(model.device)
        regions = model.embed_images(stack.contiguous(memory_format=torch.channels_last))
        return regions.flatten(1, 2).float()


def embed_files(
    model: ImageTextModel, paths: Sequence[Path], *, batch: int = 32, threads: int | None = None
) -> Iterator[EmbeddedBatch]:
    """Embed image files, in order, a batch at a time.

    Args:
        model: The model.
        paths: The images.
        batch: Images a batch; at most a few batches of pixels are held at once.
        threads: Processes that decode; None for one a core, 0 to decode in this one.

    Yields:
        Batches that together name every path once, as embedded or as failed.
    """
    crop = Preparation("crop", model.spec.preprocessing)
    with ReaderPool(threads) as pool:
        # While one batch is embedded the next is decoded.
        read = enumerate(pool.map(paths, preparation=crop, ahead=batch))
        while current := list(islice(read, batch)):
            yield _embed(model, current)


def _embed(
    model: ImageTextModel, read: Sequence[tuple[int, ReadImage | ImageError]]
) -> EmbeddedBatch:
    rows: list[int] = []
    sizes: list[tuple[int, int]] = []
    images: list[Prepared] = []
    failed: list[tuple[int, str]] = []
    for row, image in read:
        if isinstance(image, ImageError):
            failed.append((row, str(image)))
        else:
            rows.append(row)
            sizes.append((image.height, image.width))
            images.append(image.pixels)
    if not images:
        return EmbeddedBatch([], [], torch.empty(0, 0, model.spec.dimension), failed)
    return EmbeddedBatch(rows, sizes, embed_prepared(model, images), failed)


def embed_all(
    model: ImageTextModel,
    paths: Sequence[Path],
    *,
    batch: int = 32,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EmbeddedBatch:
    """Embed image files into memory, as one batch in float16 on the CPU."""
    parts: list[EmbeddedBatch] = []
    done = 0
    for part in embed_files(model, paths, batch=batch, threads=threads):
        parts.append(replace(part, regions=part.regions.half().cpu()))
        done += len(part.rows) + len(part.failed)
        if progress:
            progress(done, len(paths))
    filled = [part.regions for part in parts if part.rows]
    return EmbeddedBatch(
        rows=[row for part in parts for row in part.rows],
        sizes=[size for part in parts for size in part.sizes],
        regions=torch.cat(filled) if filled else torch.empty(0, 0, model.spec.dimension),
        failed=[failure for part in parts for failure in part.failed],
    )
