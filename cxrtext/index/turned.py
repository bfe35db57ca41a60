"""Profiles as FAISS keeps them.

They are taken about their mean and turned to few directions; for its graphs and cells they get one
number more, which makes the nearest vector the one of the highest product.
"""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

DIRECTIONS = 32
"""Numbers that a profile is cut to; the scores at all landmarks have much in common."""

ROTATED = 20_000
"""Profiles that the directions are fitted to."""

ROOM = 1.1


@dataclass(frozen=True, slots=True)
class Turn:
    """How profiles become vectors of a FAISS structure.

    With ‖(v, √(ρ² − ‖v‖²)) − (w, 0)‖² = ρ² + ‖w‖² − 2 ⟨v, w⟩ the highest product is the least
    distance, which a graph or cells can follow; for products themselves they are made badly.

    Args:
        mean: [n].
        rotation: [R, n], orthonormal rows.
        radius: ρ, the length that vectors are filled up to; 0 where products are searched.
    """

    mean: Floats
    rotation: Floats
    radius: float

    @classmethod
    def of(cls, profiles: NDArray[Any], *, fill: bool) -> "Turn":
        """Fit to profiles [places, n]; with ``fill`` for distances."""
        some = chosen_rows(profiles, ROTATED)
        mean = some.mean(axis=0) if len(some) else np.zeros(profiles.shape[1], dtype=np.float32)
        centred = (some - mean).astype(np.float64)
        directions = np.linalg.eigh(centred.T @ centred)[1].T[::-1][:DIRECTIONS]
        rotation = np.ascontiguousarray(directions, dtype=np.float32)
        lengths = np.linalg.norm((some - mean) @ rotation.T, axis=1)
        radius = ROOM * float(lengths.max(initial=1e-3)) if fill else 0.0
        return cls(mean.astype(np.float32), rotation, radius)

    @property
    def dimension(self) -> int:
        """Numbers a vector."""
        return len(self.rotation) + (self.radius > 0)

    def vectors(self, profiles: NDArray[Any]) -> Floats:
        """Vectors [B, dimension] of profiles [B, n]."""
        centred = np.asarray(profiles, dtype=np.float32) - self.mean
        found = np.asarray(centred @ self.rotation.T, dtype=np.float32)
        if not self.radius:
            return found
        left = np.maximum(np.float32(self.radius**2) - (found**2).sum(axis=1, keepdims=True), 0)
        return np.concatenate([found, np.sqrt(left)], axis=1, dtype=np.float32)

    def query(self, weights: Floats) -> Floats:
        """The vector [dimension] to look for, of weights [n]."""
        found: Floats = (self.rotation @ weights).astype(np.float32)
        return np.append(found, np.float32(0)) if self.radius else found

    def as_dict(self) -> dict[str, Any]:
        """As the catalogue notes it."""
        return {
            "mean": _encoded(self.mean),
            "rotation": _encoded(self.rotation),
            "radius": self.radius,
        }

    @classmethod
    def of_dict(cls, noted: dict[str, Any]) -> "Turn":
        """As :meth:`as_dict` gave it."""
        mean = _decoded(noted["mean"])
        rotation = _decoded(noted["rotation"]).reshape(-1, len(mean))
        return cls(mean, rotation, float(noted["radius"]))


def chosen_rows(profiles: NDArray[Any], most: int) -> Floats:
    """Rows chosen at random, in their order; all where there are few."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(profiles))[:most])
    return np.asarray(profiles[chosen], dtype=np.float32)


def _encoded(values: Floats) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _decoded(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text), dtype="<f4").copy()
