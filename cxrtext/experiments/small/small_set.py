"""A set that trainings share: images, what is known of them, and what the probes ask."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.files import DAMAGED_ARCHIVE, replacing

if TYPE_CHECKING:
    from cxrtext.training.metadata import Kind

Array = NDArray[np.generic]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Part:
    """The training or the test images.

    Args:
        images: [n, C, H, W], 8 bit.
        units: [n], whose images are resampled together: patients, or the images themselves.
        targets: What probes ask, by name, each [n] or [n, K].
    """

    images: NDArray[np.uint8]
    units: NDArray[np.int64]
    targets: dict[str, Array]


@dataclass(frozen=True, slots=True)
class SmallSet:
    """A set of small images for training, probing and measuring.

    Args:
        train: What is trained on, and what probes are fitted to.
        test: What is measured on.
        labels: [n], classes of the training images, or None.
        eta: [n], each training image's class probability, or None.
        metadata: [n, M], of the training images; M may be 0.
        kinds: What each column of it holds.
        columns: Their names.
        names: The classes' names.
    """

    train: Part
    test: Part
    labels: NDArray[np.int64] | None = None
    eta: Floats | None = None
    metadata: Floats | None = None
    kinds: "tuple[Kind, ...]" = ()
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())


def write_set(path: Path, held: SmallSet) -> None:
    """Write a set as an ``.npz`` file, whole or not at all."""
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


def _part(held: dict[str, Array], name: str) -> Part:
    before = f"{name}.of."
    targets = {key.removeprefix(before): v for key, v in held.items() if key.startswith(before)}
    return Part(
        held[f"{name}.images"].astype(np.uint8, copy=False),
        held[f"{name}.units"].astype(np.int64, copy=False),
        targets,
    )


def read_set(path: Path) -> SmallSet:
    """Read what :func:`write_set` wrote.

    Raises:
        DataError: The file is damaged.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            held: dict[str, Array] = {name: archive[name] for name in archive.files}
        kinds: tuple[Kind, ...] = tuple(
            "number" if kind == "number" else "category" for kind in held["kinds"]
        )
        return SmallSet(
            train=_part(held, "train"),
            test=_part(held, "test"),
            labels=held["labels"].astype(np.int64) if "labels" in held else None,
            eta=held["eta"].astype(np.float32) if "eta" in held else None,
            metadata=held["metadata"].astype(np.float32) if "metadata" in held else None,
            kinds=kinds,
            columns=tuple(str(one) for one in held["columns"]),
            names=tuple(str(one) for one in held["names"]),
        )
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not readable ({type(error).__name__}); remove it, and the command makes it "
            "again"
        ) from None
