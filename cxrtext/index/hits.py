"""What a search gives, and how a stream of candidates becomes a page of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cxrtext.index.catalogue import IndexedImage
from cxrtext.pausing import Pausing

Unique = Literal["patient", "study", "picture"]
UNIQUE: tuple[str, ...] = get_args(Unique)

SAME_PICTURE = 0.9995
"""Cosine of the mean regions from which two images count as one picture."""


@dataclass(frozen=True, slots=True)
class ImageHit:
    """An image found.

    Args:
        image: The image.
        score: In [−1, 1]; in [−2, 2] where something was not to be found.
        labels: Zero-shot probabilities that the index keeps, by finding.
    """

    image: IndexedImage
    score: float
    labels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentenceHit:
    """A sentence found, with its score in [−1, 1] and the number of studies that say it."""

    sentence: str
    score: float
    studies: int


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a search.

    Args:
        hits: Best first.
        images: Images that the filters leave.
        scored: Images that were scored exactly to find these.
        exact: Whether these are proven to be the best.
    """

    hits: list[ImageHit]
    images: int
    scored: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit in a stream, with the mean region of its image."""

    hit: ImageHit
    mean: NDArray[np.float32]


def page(
    stream: Iterable[Ranked],
    k: int,
    *,
    offset: int = 0,
    min_score: float | None = None,
    unique: Unique | None = None,
) -> Pausing[list[ImageHit]]:
    """Take a page of a stream of hits, and no more of the stream than it needs; with pauses.

    Args:
        stream: By falling score.
        k: Hits a page, at least 1.
        offset: Hits to skip; those left out by ``unique`` are not counted.
        min_score: Where to stop.
        unique: One hit a patient, a study, or a picture; the best one is kept.

    Raises:
        ValueError: ``k``, ``offset`` or ``unique`` is out of range.
    """
    if k < 1 or offset < 0:
        raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
    if unique is not None and unique not in UNIQUE:
        raise ValueError(f"unique must be one of {', '.join(UNIQUE)}, got {unique}")
    kept: list[Ranked] = []
    seen: set[str] = set()
    pictures = _Pictures()
    for ranked in stream:
        yield
        if min_score is not None and ranked.hit.score < min_score:
            break
        if unique == "picture":
            if not pictures.take(ranked.mean):
                continue
        elif unique is not None:
            image = ranked.hit.image
            owner = image.patient_id if unique == "patient" else image.study_id
            if owner in seen:
                continue
            seen.add(owner)
        kept.append(ranked)
        if len(kept) == offset + k:
            break
    return [ranked.hit for ranked in kept[offset:]]


class _Pictures:
    """Mean regions of the pictures that were taken."""

    def __init__(self) -> None:
        self._means = np.empty((0, 0), dtype=np.float32)
        self._count = 0

    def take(self, mean: NDArray[np.float32]) -> bool:
        """Take a picture, unless it is one of those."""
        if self._count and float((self._means[: self._count] @ mean).max()) >= SAME_PICTURE:
            return False
        if self._count == len(self._means):
            larger = np.empty((max(64, 2 * self._count), len(mean)), dtype=np.float32)
            larger[: self._count] = self._means[: self._count] if self._count else 0
            self._means = larger
        self._means[self._count] = mean
        self._count += 1
        return True
