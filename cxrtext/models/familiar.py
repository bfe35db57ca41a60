"""What a model knows: how far images and sentences lie from those it was trained on.

A model answers whatever it is asked: a hand, an ultrasound and noise get probabilities, too, and
"asdf qwerty" has hits.  A checkpoint therefore keeps statistics of its training data, and a limit
that few held-out images or sentences exceed.  Beyond it an answer means little.

An image is described by 192 numbers, its *look*: gray values of a coarse grid, and contrasts at
four scales in sixteen places.  Its distance is that of a Gaussian with few free directions (Tipping
and Bishop 1999), fitted to looks of training images.  A sentence is described by the share of its
words that fewer than three training studies say.  What is kept are means, directions and digests
of words; no pixel, no name, no text.
"""

import hashlib
from collections import defaultdict
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
FORMAT, VERSION = "cxrtext familiar images and sentences", 3

EXCEEDED = 0.03  # share of the held-out images that may lie beyond the limit
MOST_DESCRIBED = 2048  # training images that are described; more make the limit no better
FREE = 32  # directions of the Gaussian that have a variance of their own; of few images fewer
FEWEST = 8  # images, or sentences, from which on statistics are made
FOLDS = 5
LEAST_DISTANCE = 1e-3  # the limit of images is this at least; that of real ones lies above 1
SAID_BY = 3  # studies that have to say a word until it counts as known
LEAST_UNKNOWN = 0.25
"""Share of unknown words from which on a sentence is unlike those of the corpus, at least: held-out
reports have nearly none, and one odd word in a long sentence does no harm."""

_GRID, _PLACES, _SCALES, _SIDE = 8, 4, 4, 128
LOOK = _GRID**2 + 2 * _SCALES * _PLACES**2  # numbers of a look

_STEP = 1 / 255
_SIZES_AND_SIDES = frozenset({"left", "right", "bilateral", "tiny", "small", "big", "large"})
_TELLS_NOTHING = words_in_any("function_words") | _SIZES_AND_SIDES

Rows = NDArray[np.float64]
Squares = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Unlike:
    """How far something lies from what a model was trained on."""

    distance: float
    threshold: float  # the limit, above which few held-out images or sentences are

    @property
    def share(self) -> float:
        """The distance over the limit: above 1 is flagged."""
        return self.distance / self.threshold

    @property
    def flagged(self) -> bool:
        """Whether it is beyond the limit, so that answers mean little."""
        return self.distance > self.threshold


# --- images ---


def looks(squares: Squares | Tensor, preprocessing: Preprocessing) -> Rows:
    """Describe images by gray values and contrasts, as the model's own crop has them.

    8-bit squares [b, 1, R, R] of `Preprocessing.square` -> [b, 192].
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
        found: Rows = torch.cat(parts, dim=1).double().numpy()
    return found


@dataclass(frozen=True, slots=True)
class KnownImages:
    """A Gaussian of looks, of one variance in all but a few directions, and a limit."""

    mean: Rows  # [d], of the values
    scale: Rows  # [d], their standard deviations
    axes: Rows  # [k, d], orthonormal directions of greatest variance, of values in these units
    variances: Rows  # [k], along them
    rest: float  # the variance along any other direction
    threshold: float = LEAST_DISTANCE  # the distance that few held-out images exceed

    @property
    def fits(self) -> bool:
        """Whether its numbers can belong together, as read from a file."""
        shapes = self.axes.shape == (*self.variances.shape, *self.mean.shape)
        numbers = (*self.scale, *self.variances, self.rest, self.threshold)
        finite = all(np.isfinite(x).all() for x in (self.mean, self.axes, numbers))
        return shapes and self.scale.shape == self.mean.shape and finite and min(numbers) > 0

    def distances(self, values: Rows) -> Rows:
        """Mahalanobis distances of values [n, d] over √d, [n]: about 1 for those it was fitted to.

        Source: Tipping and Bishop 1999, *Probabilistic principal component analysis*.
        """
        units = (values - self.mean) / self.scale
        along = units @ self.axes.T
        beside = np.maximum((units**2).sum(axis=1) - (along**2).sum(axis=1), 0.0)
        squares = (along**2 / self.variances).sum(axis=1) + beside / self.rest
        distances: Rows = np.sqrt(squares / len(self.mean))
        return distances

    def of(self, values: Rows) -> list[Unlike]:
        """How unlike images of some looks [n, 192] are."""
        return [Unlike(float(d), self.threshold) for d in self.distances(values)]


def fit_gaussian(values: Rows) -> KnownImages:
    """Fit a Gaussian to values [n, d]; its limit is not known yet."""
    count, width = values.shape
    if count < FEWEST:
        raise ValueError(f"{count} rows are too few; give {FEWEST} at least")
    mean, spread = values.mean(axis=0), values.std(axis=0)
    # What never changes has no unit of its own; the least of the others says how much is a lot.
    scale = np.maximum(spread, max(1e-3 * float(spread.max()), 1e-6))
    _, singular, axes = np.linalg.svd((values - mean) / scale, full_matrices=False)
    variances = singular**2 / (count - 1)
    kept = max(1, min(FREE, count // 4, width - 1))
    rest = float(variances[kept:].sum() / (width - kept))
    floor = 1e-6
    variances = np.maximum(variances[:kept], floor)
    return KnownImages(mean, scale, axes[:kept], variances, max(rest, floor))


def know_images(train: Rows, held_out: Rows | None = None) -> KnownImages | None:
    """Describe the images that a model was trained on by their looks, both [n, 192].

    Where few were held out, training images stand in for them: a fifth of them at a time, each
    measured by what was fitted to the other four.  None where there are too few of both.
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
    # Images that are all the same lie at 0.
    return replace(gaussian, threshold=max(_limit(distances), LEAST_DISTANCE))


def _crossed(values: Rows) -> Rows:
    """Distances of values, each by what was fitted without its fold."""
    fold = np.arange(len(values)) % FOLDS
    found = np.empty(len(values))
    for one in range(FOLDS):
        found[fold == one] = fit_gaussian(values[fold != one]).distances(values[fold == one])
    return found


def _limit(values: Rows) -> float:
    """The value that at most :data:`EXCEEDED` of new ones exceed, as far as these can tell.

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
    """Digests of the words of a corpus, [n] in rising order, and the share that may be unknown."""

    digests: NDArray[np.int64]
    threshold: float

    @property
    def fits(self) -> bool:
        """Whether its numbers can belong together, as read from a file."""
        plain = self.digests.dtype == np.int64 and self.digests.ndim == 1
        return plain and len(self.digests) > 0 and 0 < self.threshold < 1

    def knows(self, word: str) -> bool:
        """Whether enough studies say a word in lower case."""
        wanted = _digest(word)
        place = min(int(np.searchsorted(self.digests, wanted)), len(self.digests) - 1)
        return bool(self.digests[place] == wanted)

    def share(self, sentence: str) -> float:
        """Share of a sentence's words that are unknown; 1 where it has no word.

        Articles, sides and sizes tell nothing, and count where there is nothing else.
        """
        every = words_of(sentence)
        words = [word for word in every if word not in _TELLS_NOTHING] or every
        return 1 - sum(map(self.knows, words)) / len(words) if words else 1.0

    def of(self, sentence: str) -> Unlike:
        """How unlike those of the corpus a sentence is."""
        return Unlike(self.share(sentence), self.threshold)


def know_words(said: Iterable[tuple[str, str]], held_out: Iterable[str] = ()) -> KnownWords | None:
    """Describe the sentences that a model was trained on, each with the study that says it.

    ``held_out`` are sentences of other studies, of which few are to be beyond the limit.  None
    where there are too few sentences, or no word is said by enough studies.
    """
    studies: dict[str, set[str]] = defaultdict(set)
    for study, sentence in said:
        for word in set(words_of(sentence)):
            if len(studies[word]) < SAID_BY:
                studies[word].add(study)
    often = (word for word, by in studies.items() if len(by) >= SAID_BY)
    if not (known := sorted(map(_digest, often))):
        return None
    made = KnownWords(np.array(known, dtype=np.int64), 0.0)
    shares = np.array([made.share(sentence) for sentence in dict.fromkeys(held_out)])
    limit = _limit(shares) if len(shares) >= FEWEST else 0.0
    # Just below it: a sentence that has this share is beyond the limit.
    threshold = max(limit, float(np.nextafter(LEAST_UNKNOWN, 0)))
    return replace(made, threshold=min(threshold, float(np.nextafter(1, 0))))


# --- both, and the file ---


@dataclass(frozen=True, slots=True)
class Familiar:
    """What a model was trained on; each part None where it is not known."""

    images: KnownImages | None = None
    words: KnownWords | None = None

    def of_squares(
        self, squares: Sequence[Squares], preprocessing: Preprocessing
    ) -> list[Unlike | None]:
        """How unlike images are, 8-bit squares [1, R, R] each."""
        if self.images is None or not squares:
            return [None] * len(squares)
        return list(self.images.of(looks(np.stack(squares), preprocessing)))

    def of_sentence(self, sentence: str) -> Unlike | None:
        return None if self.words is None else self.words.of(sentence)


def save_familiar(folder: Path, familiar: Familiar, fingerprint: str) -> Path:
    """Put what is familiar into the checkpoint of the model of a fingerprint, which stays."""
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
    """What is familiar to the model of a checkpoint, or None where that is not known."""
    path = folder / FAMILIAR
    kept = load_bound(
        path, (FORMAT, VERSION), "the description of the training data", fingerprint, AGAIN
    )
    if kept is None:
        return None
    found: dict[str, dict[str, Any]] = {"images": {}, "words": {}}
    try:
        for name, tensor in kept[1].items():
            part, field = name.split(".")
            found[part][field] = tensor.numpy() if tensor.ndim else float(tensor)
        images = KnownImages(**found["images"]) if found["images"] else None
        words = KnownWords(**found["words"]) if found["words"] else None
        for known in (images, words):
            if known is not None and not known.fits:
                raise ValueError
        return Familiar(images, words)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"{path}: holds numbers that do not fit together; {AGAIN}") from None


def familiar_beside(model: ImageTextModel) -> Familiar | None:
    """What is familiar to a model, from beside its checkpoint, if it is noted there."""
    return None if model.folder is None else load_familiar(model.folder, model.fingerprint)
