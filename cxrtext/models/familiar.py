"""How far images and sentences are from those that a model was trained on.

A model answers anything: a hand, an ultrasound and noise get probabilities too, and "asdf qwerty"
has hits.  So a checkpoint keeps statistics of its training data, and a limit that few held-out
images or sentences exceed.  Beyond it, an answer means little.

An image is described by 192 numbers, its *look*: gray values on a coarse grid, and contrasts at
four scales in sixteen places.  Its distance comes from a Gaussian with few free directions (Tipping
and Bishop 1999), fitted to the looks of training images.  A sentence is described by the share of
its words that fewer than three training studies use.  Only means, directions and digests of words
are kept: no pixel, no name, no text.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.images import Preprocessing
from cxrtext.images.augment import center_crop
from cxrtext.models.image_text import ImageTextModel
from cxrtext.models.weight_files import AGAIN, load_bound, save_sealed
from cxrtext.text.rewording import words_of
from cxrtext.text.rules import words_in_any

FAMILIAR = "familiar.safetensors"
FORMAT, VERSION = "cxrtext familiar images and sentences", 2

EXCEEDED = 0.03  # share of held-out images that may exceed the limit
MOST_DESCRIBED = 2048  # most training images described; more do not improve the limit
FREE = 32  # most directions of the Gaussian with their own variance; fewer with few images
FEWEST = 8  # least images, or sentences, for statistics
FOLDS = 5
LEAST_DISTANCE = 1e-3  # least limit for images; with real ones it is above 1
SAID_BY = 3  # a word is known if at least this many studies use it
LEAST_UNKNOWN = 0.25
"""Least share of unknown words that makes a sentence unlike the corpus: held-out reports have
nearly none, and one odd word in a long sentence is harmless."""

_GRID, _PLACES, _SCALES, _SIDE = 8, 4, 4, 128
LOOK = _GRID**2 + 2 * _SCALES * _PLACES**2  # numbers in a look

_STEP = 1 / 255
_SIZES_AND_SIDES = frozenset({"left", "right", "bilateral", "tiny", "small", "big", "large"})
_TELLS_NOTHING = words_in_any("function_words") | _SIZES_AND_SIDES

Rows = NDArray[np.float64]
Squares = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Unlike:
    """How far something is from what a model was trained on."""

    distance: float
    threshold: float  # the limit, which few held-out images or sentences exceed

    @property
    def share(self) -> float:
        """The distance divided by the limit: above 1 is flagged."""
        return self.distance / self.threshold

    @property
    def flagged(self) -> bool:
        """Whether it exceeds the limit, so that answers mean little."""
        return self.distance > self.threshold


# --- images ---


def looks(squares: Squares | Tensor, preprocessing: Preprocessing) -> Rows:
    """Describe images by gray values and contrasts, within the model's own crop.

    8-bit squares [b, 1, R, R] from `Preprocessing.square` -> [b, 192].
    """
    if not isinstance(squares, Tensor):
        squares = torch.from_numpy(np.ascontiguousarray(squares))
    with torch.inference_mode():
        gray = center_crop(squares, preprocessing.crop).float() * _STEP
        if gray.shape[-1] > _SIDE:
            gray = F.adaptive_avg_pool2d(gray, _SIDE)
        parts = [F.adaptive_avg_pool2d(gray, _GRID).flatten(1)]
        for scale in range(_SCALES):
            for change in (gray.diff(dim=-1), gray.diff(dim=-2)):
                mean = F.adaptive_avg_pool2d(change.abs(), _PLACES).flatten(1)
                parts.append(torch.log(mean + _STEP))
            if scale < _SCALES - 1 and gray.shape[-1] >= 4:
                gray = F.avg_pool2d(gray, 2)
        described: Rows = torch.cat(parts, dim=1).double().numpy()
    return described


@dataclass(frozen=True, slots=True)
class KnownImages:
    """A Gaussian of looks, with one variance in all but a few directions, and a limit."""

    mean: Rows  # [d], of the values
    scale: Rows  # [d], their standard deviations
    axes: Rows  # [k, d], orthonormal directions of largest variance, for values in units of scale
    variances: Rows  # [k], along these directions
    rest: float  # the variance in any other direction
    threshold: float = LEAST_DISTANCE  # the distance that few held-out images exceed

    @property
    def fits(self) -> bool:
        """Whether its numbers, read from a file, can belong together."""
        shapes = self.axes.shape == (*self.variances.shape, *self.mean.shape)
        numbers = (*self.scale, *self.variances, self.rest, self.threshold)
        finite = all(np.isfinite(x).all() for x in (self.mean, self.axes, numbers))
        return shapes and self.scale.shape == self.mean.shape and finite and min(numbers) > 0

    def distances(self, values: Rows) -> Rows:
        """Mahalanobis distances of values [n, d] over √d, [n]: about 1 for those of the fit.

        Source: Tipping and Bishop 1999, *Probabilistic principal component analysis*.
        """
        units = (values - self.mean) / self.scale
        along = units @ self.axes.T
        beside = np.maximum((units**2).sum(axis=1) - (along**2).sum(axis=1), 0.0)
        squares = (along**2 / self.variances).sum(axis=1) + beside / self.rest
        distances: Rows = np.sqrt(squares / len(self.mean))
        return distances

    def of(self, values: Rows) -> list[Unlike]:
        """How unlike images with these looks [n, 192] are."""
        return [Unlike(float(d), self.threshold) for d in self.distances(values)]


def fit_gaussian(values: Rows) -> KnownImages:
    """Fit a Gaussian to values [n, d], still without a limit."""
    count, width = values.shape
    if count < FEWEST:
        raise ValueError(f"{count} rows are too few; give at least {FEWEST}")
    mean, spread = values.mean(axis=0), values.std(axis=0)
    # A constant value has no deviation to be measured by: use a small share of the largest one.
    scale = np.maximum(spread, max(1e-3 * float(spread.max()), 1e-6))
    _, singular, axes = np.linalg.svd((values - mean) / scale, full_matrices=False)
    variances = singular**2 / (count - 1)
    count_kept = max(1, min(FREE, count // 4, width - 1))
    rest = float(variances[count_kept:].sum() / (width - count_kept))
    floor = 1e-6
    variances = np.maximum(variances[:count_kept], floor)
    return KnownImages(mean, scale, axes[:count_kept], variances, max(rest, floor))


def know_images(train: Rows, held_out: Rows | None = None) -> KnownImages | None:
    """Describe the images that a model was trained on by looks of training and held-out images.

    Looks are [n, 192].  With few held-out images, training images are added: each fifth is measured
    by a fit to the other four.  None if there are too few of both.
    """
    if held_out is None:
        held_out = train[:0]
    if len(train) < FEWEST:
        train, held_out = np.concatenate([train, held_out]), held_out[:0]
    if len(train) < 2 * FEWEST:
        return None
    gaussian = fit_gaussian(train)
    distances = gaussian.distances(held_out)
    if len(distances) * EXCEEDED < 1:
        distances = np.concatenate([distances, _crossed(train)])
    # If all images are the same, distances are 0.
    return replace(gaussian, threshold=max(_limit(distances), LEAST_DISTANCE))


def _crossed(values: Rows) -> Rows:
    """Distances of values, each by a fit without its fold."""
    fold = np.arange(len(values)) % FOLDS
    distances = np.empty(len(values))
    for one in range(FOLDS):
        distances[fold == one] = fit_gaussian(values[fold != one]).distances(values[fold == one])
    return distances


def _limit(values: Rows) -> float:
    """The value that at most a share :data:`EXCEEDED` of new ones exceed, estimated from these.

    Source: Vovk, Gammerman and Shafer 2005, *Algorithmic learning in a random world*.
    """
    place = ceil((len(values) + 1) * (1 - EXCEEDED)) - 1
    return float(np.sort(values)[min(place, len(values) - 1)])


# --- sentences ---


def _digest(word: str) -> int:
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True, slots=True)
class KnownWords:
    """Digests of a corpus's words, [n] in rising order, and the share that may be unknown."""

    digests: NDArray[np.int64]
    counts: NDArray[np.int64]  # [n], number of sentences with each word
    threshold: float

    @property
    def fits(self) -> bool:
        """Whether its numbers, read from a file, can belong together."""
        both = (self.digests, self.counts)
        plain = all(x.dtype == np.int64 and x.shape == (len(self.digests),) for x in both)
        return plain and len(self.digests) > 0 and self.counts.min() > 0 and 0 < self.threshold < 1

    def said(self, word: str) -> int:
        """The number of sentences with a word, given in lower case; 0 if it is unknown."""
        wanted = _digest(word)
        place = min(int(np.searchsorted(self.digests, wanted)), len(self.digests) - 1)
        return int(self.counts[place]) if self.digests[place] == wanted else 0

    def share(self, sentence: str) -> float:
        """Share of a sentence's words that are unknown; 1 without any word.

        Articles, sides and sizes only count if there are no other words.
        """
        every = words_of(sentence)
        words = [word for word in every if word not in _TELLS_NOTHING] or every
        return 1 - sum(self.said(word) > 0 for word in words) / len(words) if words else 1.0

    def of(self, sentence: str) -> Unlike:
        """How unlike the corpus a sentence is."""
        return Unlike(self.share(sentence), self.threshold)


def know_words(said: Iterable[tuple[str, str]], held_out: Iterable[str] = ()) -> KnownWords | None:
    """Describe the sentences that a model was trained on, given as (study, sentence).

    Few of ``held_out``, sentences of other studies, will exceed the limit. None if no word is used
    by enough studies.
    """
    studies: dict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for study, sentence in said:
        words = set(words_of(sentence))
        counts.update(words)
        for word in words:
            if len(studies[word]) < SAID_BY:
                studies[word].add(study)
    often = (word for word, by in studies.items() if len(by) >= SAID_BY)
    if not (known := sorted((_digest(word), counts[word]) for word in often)):
        return None
    digests, numbers = np.array(known, dtype=np.int64).T.copy()
    made = KnownWords(digests, numbers, 0.0)
    shares = np.array([made.share(sentence) for sentence in dict.fromkeys(held_out)])
    limit = _limit(shares) if len(shares) >= FEWEST else 0.0
    # Just below, so that a sentence with this share exceeds the limit.
    threshold = max(limit, float(np.nextafter(LEAST_UNKNOWN, 0)))
    return replace(made, threshold=min(threshold, float(np.nextafter(1, 0))))


# --- both, and the file ---


@dataclass(frozen=True, slots=True)
class Familiar:
    """What a model was trained on; a part is None if unknown."""

    images: KnownImages | None = None
    words: KnownWords | None = None

    def of_squares(
        self, squares: Sequence[Squares], preprocessing: Preprocessing
    ) -> list[Unlike | None]:
        """How unlike images are, given as 8-bit squares [1, R, R]."""
        if self.images is None or not squares:
            return [None] * len(squares)
        return list(self.images.of(looks(np.stack(squares), preprocessing)))

    def of_sentence(self, sentence: str) -> Unlike | None:
        return None if self.words is None else self.words.of(sentence)


def save_familiar(folder: Path, familiar: Familiar, fingerprint: str) -> Path:
    """Save this in the checkpoint of the model with this fingerprint, which does not change."""
    path = folder / FAMILIAR
    tensors = {
        f"{part.name}.{one.name}": torch.from_numpy(np.array(getattr(known, one.name)))
        for part in fields(familiar)
        if (known := getattr(familiar, part.name)) is not None
        for one in fields(known)
    }
    save_sealed(path, tensors, {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint})
    return path


def load_familiar(folder: Path, fingerprint: str) -> Familiar | None:
    """What is familiar to a checkpoint's model, or None if unknown."""
    path = folder / FAMILIAR
    loaded = load_bound(
        path, (FORMAT, VERSION), "the description of the training data", fingerprint, AGAIN
    )
    if loaded is None:
        return None
    parts: dict[str, dict[str, Any]] = {"images": {}, "words": {}}
    try:
        for name, tensor in loaded[1].items():
            part, field = name.split(".")
            parts[part][field] = tensor.numpy() if tensor.ndim else float(tensor)
        images = KnownImages(**parts["images"]) if parts["images"] else None
        words = KnownWords(**parts["words"]) if parts["words"] else None
        for known in (images, words):
            if known is not None and not known.fits:
                raise ValueError
        return Familiar(images, words)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"{path}: holds numbers that do not fit together; {AGAIN}") from None


def familiar_beside(model: ImageTextModel) -> Familiar | None:
    """What is familiar to a model, from its checkpoint's folder, or None."""
    return None if model.folder is None else load_familiar(model.folder, model.fingerprint)
