"""Embeds image files as regions, in batches, and packs regions for storage.

Files are decoded in other processes and embedded as they come; pixels go to the device in 8 bits
and are normalized there.  Regions are stored in float16, or in 8 bits with one scale per region.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError, ImageError
from cxrtext.images import Preprocessing
from cxrtext.images.augment import center_crop
from cxrtext.images.cache import DecodedCache
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.models.familiar import looks
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.foreign import BackboneEncoder
from cxrtext.models.image_text import ImageTextModel
from cxrtext.records import ImageRecord

Square = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
STORAGES = ("float16", "int8")
FEATURES_AT_ONCE = 256  # images with features projected to the joint space together
EMBED_BATCH = 32  # images embedded together
LEVELS = 127
SCALE_BYTES = 2  # size of a region's scale in 8-bit storage


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    rows: list[int]  # [b], places in the list of paths
    sizes: list[tuple[int, int]]  # [b], height and width of the originals, in pixels
    regions: Tensor  # [b, N, D], unit vectors, on the model's device
    squares: list[Square]  # [b], the embedded 8-bit squares [1, R, R]
    failed: list[tuple[int, str]]  # place and reason of each image that could not be read
    # [b, 192], if looks are stored instead of squares
    known_looks: NDArray[np.float64] | None = None

    def looks(self, preprocessing: Preprocessing) -> NDArray[np.float64]:
        """Looks of the images, [b, 192] (:mod:`~cxrtext.models.familiar`)."""
        if self.known_looks is not None:
            return self.known_looks
        return looks(np.stack(self.squares), preprocessing)


def normalized(squares: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Cut the center crops out of 8-bit squares and normalize them, on the squares' device.

    [b, 1, R, R] uint8 from `Preprocessing.square` become [b, 1, crop, crop], as in preprocessing a
    single image; on a CPU bit for bit.
    """
    # Scalar tensors on the device: a GPU divides by a Python number by multiplying with its
    # reciprocal, which rounds differently.
    levels, mean, std = torch.tensor(
        [255.0, preprocessing.mean, preprocessing.std], device=squares.device
    )
    return center_crop(squares, preprocessing.crop).float().div_(levels).sub_(mean).div_(std)


def standardized(images: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Images in [0, 1], standardized for an image encoder; changed in place if contiguous."""
    images = images.sub_(preprocessing.mean).div_(preprocessing.std)
    return images.contiguous(memory_format=torch.channels_last)


def embed_squares(model: ImageTextModel, squares: Sequence[Square]) -> Tensor:
    """Embed 8-bit squares, each [1, R, R], as regions [b, N, D], without gradients."""
    with torch.inference_mode():
        stack = torch.from_numpy(np.stack(squares)).to(model.device)
        images = normalized(stack, model.spec.preprocessing)
        regions = model.embed_images(images.contiguous(memory_format=torch.channels_last))
        return regions.flatten(1, 2).float()


def embed_files(
    model: ImageTextModel,
    paths: Sequence[Path],
    *,
    batch: int = EMBED_BATCH,
    processes: int | None = None,
    cache: DecodedCache | None = None,
    readers: ReaderPool | None = None,
) -> Iterator[EmbeddedBatch]:
    """Embed image files, in order, a batch at a time; each path comes once, embedded or failed.

    Args:
        batch: Images per batch; memory holds at most a few batches of pixels.
        processes: Processes that decode; None for one per core, 0 to decode in this one.
        cache: Where decoded images are kept; without it they are decoded each time.
        readers: The processes that decode without a cache; they stay open.
    """
    # While one batch is embedded the next is decoded.
    preprocessing = model.spec.preprocessing
    reading = read_squares(preprocessing, paths, cache, batch, processes, readers)
    with closing(reading) as read:
        numbered = enumerate(read)
        while current := list(islice(numbered, batch)):
            yield _embed(model, current)


def embed_records(
    model: ImageTextModel,
    records: Sequence[ImageRecord],
    *,
    features: FeatureFolder | None = None,
    cache: DecodedCache | None = None,
) -> Iterator[EmbeddedBatch]:
    """Embed the images of a manifest's rows, from features if there are any, else from files."""
    names = [record.name for record in records]
    from_files: Sequence[int] = range(len(records))
    if features is not None:
        kept = features.places(names) >= 0
        from_files = [i for i in from_files if not kept[i] and names[i] not in features.rejected]
        others = sorted({*range(len(records))} - {*from_files})
        for batch in embed_features(model, features, [names[i] for i in others]):
            yield _renumbered(batch, others)
    paths = [records[i].path for i in from_files]
    for batch in embed_files(model, paths, cache=cache) if paths else ():
        yield _renumbered(batch, from_files)


def _renumbered(batch: EmbeddedBatch, places: Sequence[int]) -> EmbeddedBatch:
    """A batch of some rows, renumbered by their places among all rows."""
    failed = [(places[row], reason) for row, reason in batch.failed]
    return replace(batch, rows=[places[row] for row in batch.rows], failed=failed)


def embed_features(
    model: ImageTextModel, features: FeatureFolder, names: Sequence[str]
) -> Iterator[EmbeddedBatch]:
    """Embed images of a folder of features by name, like :func:`embed_files`.

    Batches have looks instead of squares.
    """
    require_features(model, features)
    places = features.places(names)
    for start in range(0, len(names), FEATURES_AT_ONCE):
        own = places[start : start + FEATURES_AT_ONCE]
        rows = [start + int(row) for row in np.flatnonzero(own >= 0)]
        missing = [start + int(row) for row in np.flatnonzero(own < 0)]
        failed = [(row, features.why_not(names[row])) for row in missing]
        present = places[rows]
        with torch.inference_mode():
            kept = torch.from_numpy(features.of(present)).to(model.device).float()
            regions = model.image_encoder.project(kept).flatten(1, 2).float()
        sizes = [(int(height), int(width)) for height, width in features.sizes(present)]
        yield EmbeddedBatch(rows, sizes, regions, [], failed, features.looks(present))


def require_features(model: ImageTextModel, features: FeatureFolder) -> None:
    """Refuse features unlike those that a model was trained on."""
    own, given = model.spec.backbone, features.backbone
    where = model.folder or "the model"
    if own is None:
        raise CheckpointError(
            f"{features.folder}: has features of {given['name']}, but {where} has its own image "
            "encoder; leave --features out"
        )
    if own["digest"] != given["digest"]:
        raise CheckpointError(
            f"{features.folder}: are features of {given['name']} ({given['digest'][:12]}), and "
            f"{where} was trained on those of {own['name']} ({own['digest'][:12]}); encode the "
            "images with that one"
        )
    encoder = model.image_encoder
    assert isinstance(encoder, BackboneEncoder)  # noqa: S101 - its specification says so
    theirs, ours = features.map.state_dict(), encoder.reduce.state_dict()
    if own["reduce"] != features.map.note() or any(
        not torch.equal(tensor, ours[name].cpu()) for name, tensor in theirs.items()
    ):
        raise CheckpointError(
            f"{features.folder}: these features were reduced otherwise than those that {where} was "
            "trained on; give the folder that it was trained on, or leave --features out"
        )


def read_squares(
    preprocessing: Preprocessing,
    paths: Sequence[Path],
    cache: DecodedCache | None,
    ahead: int = EMBED_BATCH,
    processes: int | None = None,
    readers: ReaderPool | None = None,
) -> Generator[ReadImage | ImageError, None, None]:
    """The square of each image file, in order, or its error; see :func:`embed_files`."""
    if cache is not None:
        yield from cache.read(paths, preprocessing, processes=processes, ahead=ahead)
        return
    with ExitStack() as stack:
        pool = readers or stack.enter_context(ReaderPool(processes))
        yield from pool.map(paths, square=preprocessing, ahead=ahead)


def _embed(
    model: ImageTextModel, read: Sequence[tuple[int, ReadImage | ImageError]]
) -> EmbeddedBatch:
    rows: list[int] = []
    sizes: list[tuple[int, int]] = []
    images: list[Square] = []
    failed: list[tuple[int, str]] = []
    for row, image in read:
        if isinstance(image, ImageError):
            failed.append((row, str(image)))
        else:
            rows.append(row)
            sizes.append((image.height, image.width))
            images.append(image.pixels)
    if not images:
        return EmbeddedBatch([], [], torch.empty(0, 0, model.spec.dimension), [], failed)
    return EmbeddedBatch(rows, sizes, embed_squares(model, images), images, failed)


def pack(regions: Tensor, storage: str) -> NDArray[Any]:
    """Pack regions [B, N, D], unit vectors, into rows of a file.

    Rows are [B, N, D] float16, or [B, N, D + 2] int8 with the scale in the last two bytes, which
    take half the space and change a score by about 0.001.
    """
    if storage == "float16":
        return regions.cpu().half().numpy()
    # The scale is rounded before the division, so that unpacking uses the same one.
    scales = (regions.abs().amax(dim=-1, keepdim=True) / LEVELS).clamp_min(1e-6).half().cpu()
    levels = (regions.cpu() / scales.float()).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    return np.concatenate([levels.numpy(), scales.numpy().view(np.int8)], axis=-1)


def unpack(rows: NDArray[Any]) -> Tensor:
    """Regions [B, N, D] in float32, from the rows of :func:`pack`."""
    whole = torch.from_numpy(np.array(rows))
    if rows.dtype == np.float16:
        return whole.float()
    scales = whole[..., -SCALE_BYTES:].contiguous().view(torch.float16).float()
    return whole[..., :-SCALE_BYTES].float().mul_(scales)
