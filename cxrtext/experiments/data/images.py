"""Small images held in memory, checked, read from files of a bounded size; and sets of them.

What is wrong is a DataError that names the file, and says what to do.
"""

import gzip
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.experiments.stages import opened_arrays
from cxrtext.files import replacing

if TYPE_CHECKING:
    from cxrtext.training.losses.metadata import Kind as ColumnKind

Kind = Literal["cifar10", "mnist"]
Pixels = NDArray[np.uint8]
Classes = NDArray[np.int64]
Array = NDArray[np.generic]
Floats = NDArray[np.float32]

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
"""The classes, in the order of their numbers."""
NAMES: dict[Kind, tuple[str, ...]] = {"cifar10": CIFAR10, "mnist": tuple("0123456789")}
SIDES: dict[Kind, tuple[int, int]] = {"cifar10": (3, 32), "mnist": (1, 28)}
"""Channels, and pixels along a side."""
MOST_BYTES = 2**30
"""The most that a set of small images may take once it is decompressed: 1 GiB."""


class Labelled(NamedTuple):
    """8-bit images [n, C, H, W], and their classes from 0, [n]."""

    images: Pixels
    labels: Classes


@dataclass(frozen=True, slots=True)
class SmallImages:
    train: Labelled
    test: Labelled
    names: tuple[str, ...]  # the classes'


def _channels_first(source: Path | str, images: Any, kind: Kind) -> Pixels:
    """8-bit images [n, H, W], [n, H, W, C], [n, C, H, W] or [n, C·H·W] as [n, C, H, W]."""
    channels, side = SIDES[kind]
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8:
        raise DataError(f"{source}: pixels are {pixels.dtype}, not uint8; give 8-bit images")
    if pixels.ndim == 3 and channels == 1:
        pixels = pixels[:, None]
    elif pixels.ndim == 4 and pixels.shape[1:] == (side, side, channels):
        pixels = pixels.transpose(0, 3, 1, 2)
    elif pixels.ndim == 2 and pixels.shape[1] == channels * side * side:
        pixels = pixels.reshape(-1, channels, side, side)
    if pixels.ndim != 4 or pixels.shape[1:] != (channels, side, side):
        raise DataError(
            f"{source}: images are {list(np.shape(images))}; {kind} has {channels} channel(s) of "
            f"{side} × {side} pixels"
        )
    return np.ascontiguousarray(pixels)


def _checked_labels(source: Path | str, labels: Any, count: int, classes: int) -> Classes:
    given = np.asarray(labels).reshape(-1)
    if given.dtype.kind not in "iu" or len(given) != count:
        raise DataError(f"{source}: {len(given)} labels for {count} images; give one an image")
    found = given.astype(np.int64)
    if count and (found.min() < 0 or found.max() >= classes):
        wrong = int(found[(found < 0) | (found >= classes)][0])
        raise DataError(f"{source}: label {wrong} is no class; they are 0 to {classes - 1}")
    return found


def assemble(
    source: Path, kind: Kind, train: tuple[Any, Any], test: tuple[Any, Any]
) -> SmallImages:
    known = NAMES[kind]

    def part(name: str, images: Any, labels: Any) -> Labelled:
        pixels = _channels_first(source, images, kind)
        if not len(pixels):
            raise DataError(f"{source}: holds no {name} images")
        return Labelled(pixels, _checked_labels(source, labels, len(pixels), len(known)))

    return SmallImages(part("training", *train), part("test", *test), known)


def first_of_each_class(images: SmallImages, train: int | None, test: int | None) -> SmallImages:
    """The first images of each class, equally many; ``train`` and ``test`` in all, None for all."""

    def firsts(part: Labelled, wanted: int | None) -> Labelled:
        each = len(part.labels) if wanted is None else max(1, wanted // len(images.names))
        own = (np.flatnonzero(part.labels == one)[:each] for one in range(len(images.names)))
        rows = np.sort(np.concatenate(list(own)))
        return Labelled(part.images[rows], part.labels[rows])

    return replace(images, train=firsts(images.train, train), test=firsts(images.test, test))


def read_stream(
    source: Path | str, stream: IO[bytes] | gzip.GzipFile, most: int | None = None
) -> bytes:
    limit = MOST_BYTES if most is None else most
    try:
        data = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{source}: not readable ({type(error).__name__}); get the file again"
        ) from None
    if len(data) > limit:
        raise DataError(
            f"{source}: takes more than {limit} bytes when it is decompressed; this is no set of "
            "small images"
        )
    return data


def read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            if path.suffix == ".gz":
                with gzip.open(handle) as stream:
                    return read_stream(path, stream)
            return read_stream(path, handle)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or type(error).__name__}") from None


@dataclass(frozen=True, slots=True)
class SplitImages:
    """The training or the test images, 8-bit [n, C, H, W].

    ``units`` [n]: whose images are resampled together, patients or the images themselves.
    ``targets``: what probes ask, by name, each [n] or [n, K].
    """

    images: NDArray[np.uint8]
    units: NDArray[np.int64]
    targets: dict[str, Array]


@dataclass(frozen=True, slots=True)
class ImageSet:
    """A set of small images: what is trained on and probes are fitted to, and what is measured.

    Of the training images: classes [n], class probabilities [n], and metadata [n, M] (M may be 0)
    with the kind and name of each column.  ``names`` are the classes'.
    """

    train: SplitImages
    test: SplitImages
    labels: NDArray[np.int64] | None = None
    eta: Floats | None = None
    metadata: Floats | None = None
    kinds: "tuple[ColumnKind, ...]" = ()
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())


def write_set(path: Path, held: ImageSet) -> None:
    arrays: dict[str, Array] = {
        "kinds": np.array(held.kinds, dtype=np.str_),
        "columns": np.array(held.columns, dtype=np.str_),
        "names": np.array(held.names, dtype=np.str_),
    }
    for name in ("labels", "eta", "metadata"):
        value = getattr(held, name)
        if value is not None:
            arrays[name] = value
    for part_name, part in (("train", held.train), ("test", held.test)):
        arrays[f"{part_name}.images"] = part.images
        arrays[f"{part_name}.units"] = part.units
        arrays.update({f"{part_name}.of.{key}": value for key, value in part.targets.items()})
    with replacing(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _part(held: dict[str, Array], name: str) -> SplitImages:
    before = f"{name}.of."
    return SplitImages(
        held[f"{name}.images"].astype(np.uint8, copy=False),
        held[f"{name}.units"].astype(np.int64, copy=False),
        {key.removeprefix(before): v for key, v in held.items() if key.startswith(before)},
    )


def read_set(path: Path) -> ImageSet:
    with opened_arrays(path, "remove it, and the command makes it again") as archive:
        held: dict[str, Array] = dict(archive)
        return ImageSet(
            train=_part(held, "train"),
            test=_part(held, "test"),
            labels=held["labels"].astype(np.int64) if "labels" in held else None,
            eta=held["eta"].astype(np.float32) if "eta" in held else None,
            metadata=held["metadata"].astype(np.float32) if "metadata" in held else None,
            kinds=tuple("number" if kind == "number" else "category" for kind in held["kinds"]),
            columns=tuple(str(one) for one in held["columns"]),
            names=tuple(str(one) for one in held["names"]),
        )
