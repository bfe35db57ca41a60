"""Small images held in memory, and the sets that trainings share."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxrtext.experiments.stages import opened_arrays
from cxrtext.files import replacing

if TYPE_CHECKING:
    from cxrtext.training.objectives.shared.metadata import Kind as ColumnKind

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


class Labelled(NamedTuple):
    """8-bit images [n, C, H, W], and their classes from 0, [n]."""

    images: Pixels
    labels: Classes


@dataclass(frozen=True, slots=True)
class SmallImages:
    train: Labelled
    test: Labelled
    names: tuple[str, ...]  # the classes'


def first_of_each_class(images: SmallImages, train: int | None, test: int | None) -> SmallImages:
    """The first images of each class, equally many; ``train`` and ``test`` in all, None for all."""

    def firsts(part: Labelled, wanted: int | None) -> Labelled:
        each = len(part.labels) if wanted is None else max(1, wanted // len(images.names))
        own = (np.flatnonzero(part.labels == one)[:each] for one in range(len(images.names)))
        rows = np.sort(np.concatenate(list(own)))
        return Labelled(part.images[rows], part.labels[rows])

    return replace(images, train=firsts(images.train, train), test=firsts(images.test, test))


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
