"""What locked encoders make of images and sentences: computed once, kept in memory-mapped files.

A locked encoder gives the same features at every step.  An image's are those of the center crop:
with one view an image they are computed once, and a step costs no pass through the encoder.

Two files for each encoder, ``regions-<digest>.f16`` or ``sentences-<digest>.f16`` and ``.keys``:
features in the order in which they came, and the digest of what each is of.  Both only grow, so
that runs with the same encoder share them, and a stopped run has lost nothing.  They can be deleted
at any time when no process uses them.
"""

import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cxrtext.errors import WorkError
from cxrtext.files import only_one
from cxrtext.images.cache_store import disk_errors, write_at
from cxrtext.models import ImageTextModel
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.regions import normalized

VERSION = 2
BATCH = 64
"""Those that are computed at once; always as many, so that they are the same whoever asks."""
DIGEST_BYTES = 16
_WAIT_S = 2.0

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Half = np.ndarray[tuple[int, ...], np.dtype[np.float16]]


@dataclass(frozen=True, slots=True)
class LockedFeatures:
    """Features of n images or sentences in memory-mapped storage, before the projection."""

    values: Half  # [places, h, w, C] of images, [places, H] of sentences; others may lie between
    places: Rows  # [n], where each one's are

    def of(self, chosen: Rows | Sequence[int]) -> Half:
        """Features of some of them, [b, h, w, C] or [b, H], read into memory."""
        return np.ascontiguousarray(self.values[self.places[chosen]])


@dataclass(frozen=True, slots=True)
class StoredFeatures:
    """Features of n images in a folder of a backbone's features, as :class:`LockedFeatures`."""

    folder: FeatureFolder
    places: Rows  # [n], where each one's are

    def of(self, chosen: Rows | Sequence[int]) -> Half:
        """Features of some of them, [b, g, g, R]."""
        return self.folder.of(self.places[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How features are computed and kept."""

    folder: Path
    # A name for what autocast does; other precisions have files of their own
    precision: str = "float32"
    # around the encoder
    autocast: Callable[[], AbstractContextManager[object]] = field(default=ExitStack)
    say: Callable[[str], None] = lambda _: None  # told how much is computed
    # called with what it is, and (done, total) of those that are computed
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None


def lock_images(
    model: ImageTextModel, pixels: Pixels, rows: Rows, keeping: Keeping
) -> LockedFeatures:
    """Compute what the image encoder makes of images that are not kept yet, and map all.

    ``rows`` [n] are the places of the images in ``pixels`` [slots, R, R].  The model's image
    encoder is put into evaluation mode.
    """
    spec, encoder = model.spec, model.image_encoder
    encoder.eval()
    crop = spec.preprocessing.crop
    with torch.inference_mode():
        nothing = torch.zeros(1, 1, crop, crop, device=model.device)
        shape = tuple(encoder.features(nothing).shape[1:])
    what = f"{spec.image} {spec.preprocessing.to_dict()}{encoder.extra_repr()}"
    store = _Store(keeping, "regions", encoder.trunk, what, shape)

    def compute(images: Sequence[int]) -> Half:
        squares = torch.from_numpy(np.asarray(pixels[rows[_full(images)]])[:, None])
        prepared = normalized(squares.to(model.device), spec.preprocessing)
        prepared = prepared.contiguous(memory_format=torch.channels_last)
        return _half(encoder.features(prepared))

    return _kept("images", store, [content_digest(pixels[row]) for row in rows], _batches, compute)


def lock_sentences(
    model: ImageTextModel, tokens: Sequence[Sequence[int]], keeping: Keeping
) -> LockedFeatures:
    """Compute pooled states of sentences that are not kept yet, as :func:`lock_images`.

    ``tokens`` are word pieces of n sentences, special tokens included; equal ones are computed
    once.
    """
    model.text_encoder.eval()
    with torch.inference_mode():
        nothing = torch.zeros(1, 2, dtype=torch.long, device=model.device)
        shape = tuple(model.text_encoder.states(nothing, None).shape[1:])
    kind = (model.text_encoder.family, model.text_encoder.pooling)
    usual = ("bert", "cls")
    what = "" if kind == usual else " ".join(kind)
    store = _Store(keeping, "sentences", model.text_encoder.backbone, what, shape)

    def of_one_length(sentences: Sequence[int]) -> Iterator[list[int]]:
        # Nothing is padded, so that a state does not depend on what is computed with it.
        ordered = sorted(sentences, key=lambda i: len(tokens[i]))
        for _, same in groupby(ordered, key=lambda i: len(tokens[i])):
            yield from _batches(list(same))

    def compute(sentences: Sequence[int]) -> Half:
        ids = torch.tensor([tokens[i] for i in _full(sentences)], device=model.device)
        return _half(model.text_encoder.states(ids, None))

    digests = [content_digest(np.asarray(pieces, dtype=np.int64)) for pieces in tokens]
    return _kept("sentences", store, digests, of_one_length, compute)


def _batches(chosen: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(chosen), BATCH):
        yield list(chosen[start : start + BATCH])


def _full(chosen: Sequence[int]) -> list[int]:
    """A batch filled up with its first one."""
    return [*chosen, *[chosen[0]] * (BATCH - len(chosen))]


def _half(features: Tensor) -> Half:
    limit = float(torch.finfo(torch.float16).max)
    values: Half = features.float().clamp(-limit, limit).half().cpu().numpy()
    return values


def _kept(
    what: str,
    store: "_Store",
    digests: Sequence[bytes],
    batches: Callable[[Sequence[int]], Iterable[list[int]]],
    compute: Callable[[Sequence[int]], Half],
) -> LockedFeatures:
    """Compute what a store lacks, a batch at a time, and map all of it."""
    keeping = store.keeping
    with disk_errors(keeping.folder, f"features of {what}"), ExitStack() as stack:
        keeping.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not set(digests) <= store.places().keys():
            _take_turn(stack, store.path, keeping.say)
        found = store.places()  # the process before may have added some
        first = dict(zip(reversed(digests), range(len(digests) - 1, -1, -1), strict=True))
        missing = sorted(place for digest, place in first.items() if digest not in found)
        store.require_room(len(missing), what)
        if missing:
            keeping.say(
                f"{len(missing)} {what} pass through the locked encoder once; their features are "
                f"kept in {store.path} ({len(missing) * store.row_bytes / 1e9:.3g} GB)"
            )
        done = 0
        for part in batches(missing):
            with torch.inference_mode(), keeping.autocast():
                values = compute(part)[: len(part)]
            found |= store.keep([digests[i] for i in part], values)
            done += len(part)
            keeping.progress(what, done, len(missing))
        places = np.asarray([found[digest] for digest in digests], dtype=np.int64)
        return LockedFeatures(store.map(int(places.max(initial=-1)) + 1), places)


def content_digest(content: np.ndarray[tuple[int, ...], np.dtype[Any]]) -> bytes:
    """By what features are known: of a square's pixels, or of word pieces, int64."""
    return hashlib.blake2b(np.ascontiguousarray(content).data, digest_size=DIGEST_BYTES).digest()


def _encoder_digest(encoder: nn.Module, what: str) -> str:
    """SHA-256 over weights, and over what else features depend on beside the input."""
    digest = hashlib.sha256(f"{VERSION} {what}".encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data.cast("B"))
    return digest.hexdigest()


def _take_turn(stack: ExitStack, path: Path, say: Callable[[str], None]) -> None:
    """Hold the right to add, once no other process does."""
    said = False
    while True:
        try:
            stack.enter_context(only_one(path))
            return
        except WorkError:
            if not said:
                say(f"{path}: another process computes these features; waiting for it")
            said = True
            time.sleep(_WAIT_S)


class _Store:
    """The two files of one encoder."""

    def __init__(
        self, keeping: Keeping, kind: str, encoder: nn.Module, what: str, shape: tuple[int, ...]
    ) -> None:
        self.keeping = keeping
        name = _encoder_digest(encoder, f"{kind} {keeping.precision} {what}")[:16]
        self.path = keeping.folder / f"{kind}-{name}.f16"
        self._keys = self.path.with_suffix(".keys")
        self._shape = shape
        self.row_bytes = 2 * math.prod(shape)

    def places(self) -> dict[bytes, int]:
        """Where features are, by the digests of what they are of."""
        count = self._count()
        keys = self._keys.read_bytes()[: count * DIGEST_BYTES] if count else b""
        return {keys[n * DIGEST_BYTES : (n + 1) * DIGEST_BYTES]: n for n in range(count)}

    def _count(self) -> int:
        """How many are noted and there, by the sizes of both files."""
        try:
            sizes = self._keys.stat().st_size, self.path.stat().st_size
        except FileNotFoundError:
            return 0
        return min(sizes[0] // DIGEST_BYTES, sizes[1] // self.row_bytes)

    def keep(self, digests: Sequence[bytes], values: Half) -> dict[bytes, int]:
        """Write features [b, h, w, C]; give their places.  Only what is written is noted."""
        place = self._count()
        with _opened(self.path) as data, _opened(self._keys) as keys:
            write_at(data, place * self.row_bytes, values.tobytes())
            write_at(keys, place * DIGEST_BYTES, b"".join(digests))
        return {digest: place + row for row, digest in enumerate(digests)}

    def map(self, places: int) -> Half:
        """Map the first features into memory, [places, h, w, C], to be read."""
        if places == 0:
            return np.empty((0, *self._shape), dtype=np.float16)
        return np.memmap(self.path, np.float16, "r", shape=(places, *self._shape))

    def require_room(self, count: int, what: str) -> None:
        """Refuse to compute what the disk has no room for (WorkError)."""
        size, free = count * self.row_bytes, shutil.disk_usage(self.path.parent).free
        if size > free:
            raise WorkError(
                f"{self.path}: the features of {count} {what} take {size / 1e9:.3g} GB and the "
                f"disk has {free / 1e9:.3g} GB free; make room, name another folder with "
                "data.cache, or train without training.lock"
            )


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A file to be written at any place, made for its owner alone."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
