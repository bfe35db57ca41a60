"""Regions of image files, embedded in batches, and as they are kept.

Files are decoded in other processes and embedded as they come; pixels travel to the device as 8
bits and are normalized there.  Regions are kept in float16, or in 8 bits with a scale a region.
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
FEATURES_AT_ONCE = 256  # images whose features are brought to the joint space together
EMBED_BATCH = 32  # images that are embedded together
LEVELS = 127
SCALE_BYTES = 2  # of the scale of a region that is kept in 8 bits


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    rows: list[int]  # [b], their places in the list of paths
    sizes: list[tuple[int, int]]  # [b], height and width of the original of each, in pixels
    regions: Tensor  # [b, N, D], unit vectors, on the model's device
    squares: list[Square]  # [b], the 8-bit squares [1, R, R] that were embedded
    failed: list[tuple[int, str]]  # place and reason of each image that could not be read
    # [b, 192], where they are kept in place of squares
    known_looks: NDArray[np.float64] | None = None

    def looks(self, preprocessing: Preprocessing) -> NDArray[np.float64]:
        """Looks of the images, [b, 192] (:mod:`~cxrtext.models.familiar`)."""
        if self.known_looks is not None:
            return self.known_looks
        return looks(np.stack(self.squares), preprocessing)


def normalized(squares: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Cut the center crops out of 8-bit squares and normalize them, on the device they lie on.

    [b, 1, R, R] uint8 of `Preprocessing.square` become [b, 1, crop, crop], as the preprocessing of
    one image gives them; on a CPU bit for bit.
    """
    # Numbers of no dimension on the device: by a number of Python's, a GPU multiplies by the
    # reciprocal, which rounds otherwise.
    levels, mean, std = torch.tensor(
        [255.0, preprocessing.mean, preprocessing.std], device=squares.device
    )
    return center_crop(squares, preprocessing.crop).float().div_(levels).sub_(mean).div_(std)


def standardized(images: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Images in [0, 1] as an image encoder takes them; changed in place where contiguous."""
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
    """Embed image files, in order, a batch at a time; every path is named once, or has failed.

    Args:
        batch: Images a batch; at most a few batches of pixels are held at once.
        processes: Processes that decode; None for one a core, 0 to decode in this one.
        cache: Where decoded images are kept; without it they are decoded each time.
        readers: The processes that decode where there is no cache; they stay open.
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
    """Embed images of rows of a manifest, from features where there are some, else from files."""
    names = [record.name for record in records]
    lacking: Sequence[int] = range(len(records))
    if features is not None:
        kept = features.places(names) >= 0
        lacking = [i for i in lacking if not kept[i] and names[i] not in features.rejected]
        others = sorted({*range(len(records))} - {*lacking})
        for batch in embed_features(model, features, [names[i] for i in others]):
            yield _renumbered(batch, others)
    paths = [records[i].path for i in lacking]
    for batch in embed_files(model, paths, cache=cache) if paths else ():
        yield _renumbered(batch, lacking)


def _renumbered(batch: EmbeddedBatch, places: Sequence[int]) -> EmbeddedBatch:
    """A batch of some of the rows, by their places among all."""
    failed = [(places[row], reason) for row, reason in batch.failed]
    return replace(batch, rows=[places[row] for row in batch.rows], failed=failed)


def embed_features(
    model: ImageTextModel, features: FeatureFolder, names: Sequence[str]
) -> Iterator[EmbeddedBatch]:
    """Embed images of a folder of features, by id; as :func:`embed_files`.

    There are no squares; ``looks`` stand for them.
    """
    require_features(model, features)
    places = features.places(names)
    for start in range(0, len(names), FEATURES_AT_ONCE):
        own = places[start : start + FEATURES_AT_ONCE]
        rows = [start + int(row) for row in np.flatnonzero(own >= 0)]
        lost = [start + int(row) for row in np.flatnonzero(own < 0)]
        failed = [(row, features.why_not(names[row])) for row in lost]
        found = places[rows]
        with torch.inference_mode():
            kept = torch.from_numpy(features.of(found)).to(model.device).float()
            regions = model.image_encoder.project(kept).flatten(1, 2).float()
        sizes = [(int(height), int(width)) for height, width in features.sizes(found)]
        yield EmbeddedBatch(rows, sizes, regions, [], failed, features.looks(found))


def require_features(model: ImageTextModel, features: FeatureFolder) -> None:
    """Refuse features that are not those that a model was trained on."""
    own, given = model.spec.backbone, features.backbone
    where = model.folder or "the model"
    if own is None:
        raise CheckpointError(
            f"{features.folder}: are features of {given['name']}, and {where} has an image encoder "
            "of its own; leave --features out"
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
    """The square of each image file, in order, or why there is none; see :func:`embed_files`."""
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
    """Regions [B, N, D], unit vectors, as rows of a file.

    [B, N, D] float16, or [B, N, D + 2] int8, which take half the room and move a score by about
    0.001; the last two are the scale's bytes.
    """
    if storage == "float16":
        return regions.cpu().half().numpy()
    # The scale is rounded before it divides, so that both sides use the same one.
    scales = (regions.abs().amax(dim=-1, keepdim=True) / LEVELS).clamp_min(1e-6).half().cpu()
    levels = (regions.cpu() / scales.float()).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    return np.concatenate([levels.numpy(), scales.numpy().view(np.int8)], axis=-1)


def unpack(rows: NDArray[Any]) -> Tensor:
    """Regions [B, N, D] in float32, of rows that :func:`pack` gave."""
    whole = torch.from_numpy(np.array(rows))
    if rows.dtype == np.float16:
        return whole.float()
    scales = whole[..., -SCALE_BYTES:].contiguous().view(torch.float16).float()
    return whole[..., :-SCALE_BYTES].float().mul_(scales)
