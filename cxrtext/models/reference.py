"""Reference images kept with a checkpoint, for comparing scores.

A score alone says little: "The lungs are clear." scores high in most chests, "Left chest tube." in
few.  The percentile of a score among the same sentence's scores in a fixed set of other images says
more.  These images come from the validation split, so the model has not learned from them.  Only
their regions are kept: no name, no text, no pixel.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.models.image_text import ImageTextModel
from cxrtext.models.regions import SCALE_BYTES, Square, embed_squares, pack, unpack
from cxrtext.models.weight_files import KEEP_AGAIN, load_bound, save_sealed

REFERENCE = "reference.safetensors"
FORMAT, VERSION = "cxrtext reference images", 1
MAX_IMAGES = 512  # images of a reference: the 75th percentile is then known to about ±2
EMBEDDED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Reference:
    """Images that scores are compared with."""

    rows: NDArray[Any]  # [n, N, …], their regions, packed by `cxrtext.models.regions.pack`
    source: str  # "validation" or "index"

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def side(self) -> int:
        """Regions along a side of the grid."""
        return isqrt(self.rows.shape[1])

    def regions(self, start: int, stop: int) -> Tensor:
        """Regions of the images from ``start`` to ``stop``, [b, N, D] in float32."""
        return unpack(self.rows[start:stop])


def choose_reference(
    names: Sequence[str], patients: Sequence[str], count: int = MAX_IMAGES
) -> list[int]:
    """Choose images for a reference: first one per patient, then a second one, and so on.

    The choice only depends on names, not on their order, and images that are added to a split later
    displace as few as possible.  Returns the places of at most ``count`` images in rising order.
    """
    digests = [hashlib.blake2b(name.encode(), digest_size=16).digest() for name in names]
    seen: Counter[str] = Counter()
    ranked = []
    for place in sorted(range(len(names)), key=lambda place: (digests[place], place)):
        ranked.append((seen[patients[place]], digests[place], place))
        seen[patients[place]] += 1
    return sorted(place for _, _, place in sorted(ranked)[:count])


def embed_reference(model: ImageTextModel, squares: Iterable[Square]) -> Reference:
    """Embed validation images, 8-bit squares [1, R, R], as a reference."""
    rest = iter(squares)
    batches = iter(lambda: list(islice(rest, EMBEDDED_AT_ONCE)), [])
    return reference_of(embed_squares(model, some) for some in batches)


def reference_of(regions: Iterable[Tensor]) -> Reference:
    """A reference from batches of embedded validation images, [b, N, D] each."""
    if not (parts := [pack(batch, "int8") for batch in regions]):
        raise ValueError("a reference needs an image")
    return Reference(np.concatenate(parts), "validation")


def save_reference(folder: Path, reference: Reference, fingerprint: str) -> Path:
    """Save a reference in the checkpoint of the model with this fingerprint, which made it."""
    path = folder / REFERENCE
    notes = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint}
    rows = torch.from_numpy(np.array(reference.rows))
    save_sealed(path, {"regions": rows}, {**notes, "source": reference.source})
    return path


def load_reference(folder: Path, model: ImageTextModel) -> Reference | None:
    """The reference of a checkpoint, or None."""
    path = folder / REFERENCE
    loaded = load_bound(
        path, (FORMAT, VERSION), "the reference images", model.fingerprint, KEEP_AGAIN
    )
    if loaded is None:
        return None
    notes, tensors = loaded
    if "regions" not in tensors:
        raise CheckpointError(f"{path}: holds no regions; {KEEP_AGAIN}")
    rows = tensors["regions"].numpy()
    wanted = model.spec.dimension + SCALE_BYTES
    if rows.dtype != np.int8 or rows.ndim != 3 or rows.shape[-1] != wanted or not rows.size:
        raise CheckpointError(
            f"{path}: holds {rows.dtype} {list(rows.shape)}, expected int8 [images, regions, "
            f"{wanted}]; {KEEP_AGAIN}"
        )
    if isqrt(rows.shape[1]) ** 2 != rows.shape[1] or not torch.isfinite(unpack(rows)).all():
        raise CheckpointError(f"{path}: holds regions that no model gives; {KEEP_AGAIN}")
    return Reference(rows, notes.get("source", "validation"))
