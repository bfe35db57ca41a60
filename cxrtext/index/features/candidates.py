"""A FAISS structure over the profiles of the images, which finds candidates quickly.

The product of an image's profile with a sentence's weights is nearly its score (see
:mod:`cxrtext.index.features.language`).  Profiles are centered and rotated to few directions.
FAISS's cells need one more number, which makes the vector with the highest product the nearest one.

The setting is fixed: IVF-Flat with 4 √n cells for n images, of which 256 are searched for 4,000
candidates.  A good model needs far fewer; a weak one, whose scores differ little, needs them all
(docs/results/speed.md).
"""

import math
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.files import replacing, sha256
from cxrtext.index.features.language import decoded, encoded

EXACT_IMAGES, EXACT_BYTES = 160_000, 512 * 2**20
"""Up to this many images, and bytes of their sketches, a search reads all sketches."""

DEPTH, PROBES = 4000, 256
"""Candidates, and cells to search for them."""

SAMPLE = 64  # training vectors per cell

CHUNK = 16_384
MAX_BYTES = 2**38

DIRECTIONS = 32
"""Numbers that a profile is reduced to; the scores at all inducing points have much in common."""

ROTATED = 20_000  # profiles to fit the directions to

ROOM = 1.1

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rotation:
    """How profiles become vectors of a FAISS structure.

    By ‖(v, √(ρ² − ‖v‖²)) − (w, 0)‖² = ρ² + ‖w‖² − 2 ⟨v, w⟩, the highest product is the smallest
    distance, which suits cells; products themselves do not.
    """

    mean: Floats  # [n]
    rotation: Floats  # [R, n], orthonormal rows
    radius: float  # ρ, the length that vectors are extended to

    @classmethod
    def of(cls, profiles: NDArray[Any]) -> "Rotation":
        """Fit to at least one profile, [places, n]."""
        some = chosen_rows(profiles, ROTATED)
        mean = some.mean(axis=0)
        centered = (some - mean).astype(np.float64)
        directions = np.linalg.eigh(centered.T @ centered)[1].T[::-1][:DIRECTIONS]
        rotation = np.ascontiguousarray(directions, dtype=np.float32)
        lengths = np.linalg.norm((some - mean) @ rotation.T, axis=1)
        radius = ROOM * float(lengths.max(initial=1e-3))
        return cls(mean.astype(np.float32), rotation, radius)

    @property
    def dimension(self) -> int:
        return len(self.rotation) + 1

    def vectors(self, profiles: NDArray[Any]) -> Floats:
        """Vectors [B, dimension] of profiles [B, n]."""
        centered = np.asarray(profiles, dtype=np.float32) - self.mean
        rotated = np.asarray(centered @ self.rotation.T, dtype=np.float32)
        left = np.maximum(np.float32(self.radius**2) - (rotated**2).sum(axis=1, keepdims=True), 0)
        return np.concatenate([rotated, np.sqrt(left)], axis=1, dtype=np.float32)

    def query(self, weights: Floats) -> Floats:
        """The vector [dimension] to look for, from weights [n]."""
        rotated: Floats = (self.rotation @ weights).astype(np.float32)
        return np.append(rotated, np.float32(0))

    def as_dict(self) -> dict[str, Any]:
        mean, rotation = encoded(self.mean), encoded(self.rotation)
        return {"mean": mean, "rotation": rotation, "radius": self.radius}

    @classmethod
    def of_dict(cls, noted: dict[str, Any]) -> "Rotation":
        mean = decoded(noted["mean"])
        return cls(mean, decoded(noted["rotation"]).reshape(-1, len(mean)), float(noted["radius"]))


def chosen_rows(profiles: NDArray[Any], most: int) -> Floats:
    """At most ``most`` rows, chosen at random, in their order."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(profiles))[:most])
    return np.asarray(profiles[chosen], dtype=np.float32)


def is_large(images: int, sketch_bytes: int) -> bool:
    """Whether to search this many images by candidates; ``sketch_bytes`` are for one image."""
    return images > EXACT_IMAGES or images * sketch_bytes > EXACT_BYTES


def build_structure(profiles: NDArray[Any], path: Path) -> tuple[str, Rotation]:
    """Write the FAISS structure of profiles [places, n], by place; gives digest and rotation."""
    faiss, count = _faiss(), len(profiles)
    rotation = Rotation.of(profiles)
    cells = max(1, min(round(4 * math.sqrt(count)), count // SAMPLE))
    D = rotation.dimension
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(D), D, cells)
    index.train(rotation.vectors(chosen_rows(profiles, SAMPLE * cells)))
    for start in range(0, count, CHUNK):
        index.add(rotation.vectors(profiles[start : start + CHUNK]))
    with replacing(path) as temporary:
        faiss.write_index(index, str(temporary))
        return sha256(temporary), rotation


def _faiss() -> Any:
    """FAISS; its type hints do not cover its Python interface."""
    import faiss

    return faiss


def read_structure(path: Path, digest: str, places: int, D: int) -> Any:
    """Read a FAISS file, which must be the one that the catalogue names (CheckpointError)."""
    faiss = _faiss()
    if not path.is_file() or sha256(path) != digest:
        raise CheckpointError(
            f"{path}: missing or damaged (its checksum is wrong); run 'cxrtext index compact "
            f"{quote(str(path.parent))}' to derive it again"
        )
    faiss.set_deserialization_vector_byte_limit(MAX_BYTES)
    index = faiss.read_index(str(path))
    if (index.ntotal, index.d) != (places, D):
        raise CheckpointError(
            f"{path}: holds {index.ntotal} vectors of {index.d} numbers, expected "
            f"{places} of {D}; run 'cxrtext index compact {quote(str(path.parent))}'"
        )
    return index


def nearest_places(
    index: Any, vector: NDArray[np.float32], allowed: NDArray[np.bool_] | None
) -> Places:
    """Places of the :data:`DEPTH` images that score highest by their profiles, in rising order.

    ``vector`` is from :meth:`Rotation.query`; ``allowed`` [places] marks the images to search, None
    for all.
    """
    faiss = _faiss()
    given: dict[str, Any] = {}
    if allowed is not None:
        bits = np.packbits(allowed, bitorder="little")
        given["sel"] = faiss.IDSelectorBitmap(index.ntotal, faiss.swig_ptr(bits))
    parameters = faiss.SearchParametersIVF(nprobe=PROBES, **given)
    _, ids = index.search(vector[None], min(DEPTH, index.ntotal), params=parameters)
    places: Places = np.sort(ids[0][ids[0] >= 0]).astype(np.int64)
    return places
