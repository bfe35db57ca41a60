"""What a search gives, and how a stream of candidates becomes a page of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cxrtext.index.catalogue import IndexedImage

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
) -> list[ImageHit]:
    """Take a page of a stream of hits, and no more of the stream than it needs.

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
    for ranked in stream:
        if min_score is not None and ranked.hit.score < min_score:
            break
        if unique == "picture":
            if _pictured(ranked, kept):
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


def _pictured(ranked: Ranked, kept: list[Ranked]) -> bool:
    return any(float(ranked.mean @ other.mean) >= SAME_PICTURE for other in kept)
