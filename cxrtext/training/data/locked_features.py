"""Features from locked encoders, computed once and kept in memory-mapped files.

A locked encoder gives the same features at every step.  Images use only their center crop, so their
features are computed once, and a step needs no pass through the encoder.

A file, ``regions-….f16`` or ``sentences-….f16``, belongs to one encoder and its inputs; runs with
the same share it.  It grows a batch at a time, so a stopped run loses nothing.  Two runs that
make it at once write the same bytes to the same places.  It may be deleted when no process uses it.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cxrtext.device import autocast
from cxrtext.images.cache_store import disk_errors, write_at
from cxrtext.models import ImageTextModel
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.models.regions import normalized
from cxrtext.training.loop.resume import require_room
from cxrtext.training.loop.steps import Listener

BATCH = 64
"""Images or sentences computed at once; always as many, so that results are always the same."""

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Half = np.ndarray[tuple[int, ...], np.dtype[np.float16]]


@dataclass(frozen=True, slots=True)
class LockedFeatures:
    """Features of n images or sentences in memory-mapped storage, before the projection."""

    values: Half  # [distinct, h, w, C] for images, [distinct, H] for sentences
    places: Rows  # [n], the row of each image or sentence

    def of(self, chosen: Rows | Sequence[int]) -> Half:
        """Features of the chosen ones, [b, h, w, C] or [b, H], read into memory."""
        return np.ascontiguousarray(self.values[self.places[chosen]])


@dataclass(frozen=True, slots=True)
class StoredFeatures:
    """Features of n images in a backbone's folder; used like :class:`LockedFeatures`."""

    folder: FeatureFolder
    places: Rows  # [n], the row of each image

    def of(self, chosen: Rows | Sequence[int]) -> Half:
        """Features of the chosen images, [b, g, g, R]."""
        return self.folder.of(self.places[chosen])


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where features are kept, and in which precision they are computed; each has its own files."""

    folder: Path
    precision: str = "float32"
    listener: Listener = field(default_factory=Listener)


def lock_images(
    model: ImageTextModel, pixels: Pixels, rows: Rows, keeping: Keeping
) -> LockedFeatures:
    """Compute the features of images that are not kept yet, and map all.

    ``rows`` [n] are the images' rows in ``pixels`` [slots, R, R].  The model's image encoder is put
    into evaluation mode.
    """
    spec, encoder = model.spec, model.image_encoder
    encoder.eval()
    crop = spec.preprocessing.crop
    with torch.inference_mode():
        nothing = torch.zeros(1, 1, crop, crop, device=model.device)
        shape = tuple(encoder.features(nothing).shape[1:])

    def compute(images: Sequence[int]) -> Half:
        squares = torch.from_numpy(np.asarray(pixels[rows[_full(images)]])[:, None])
        prepared = normalized(squares.to(model.device), spec.preprocessing)
        prepared = prepared.contiguous(memory_format=torch.channels_last)
        with autocast(model.device, keeping.precision):
            return _half(encoder.features(prepared))

    what = f"{spec.image} {spec.preprocessing.to_dict()}{encoder.extra_repr()}"
    path = _path(keeping, "regions", encoder.trunk, what)
    contents = [content_digest(pixels[row]) for row in rows]
    return _kept("images", keeping, path, shape, contents, _batches, compute)


def lock_sentences(
    model: ImageTextModel, tokens: Sequence[Sequence[int]], keeping: Keeping
) -> LockedFeatures:
    """Compute pooled states of sentences that are not kept yet, like :func:`lock_images`.

    ``tokens`` are the word pieces of n sentences, with special tokens; each distinct one is
    computed once.
    """
    text = model.text_encoder
    text.eval()
    with torch.inference_mode():
        nothing = torch.zeros(1, 2, dtype=torch.long, device=model.device)
        shape = tuple(text.states(nothing, None).shape[1:])

    def of_one_length(sentences: Sequence[int]) -> Iterator[list[int]]:
        # Without padding, a state does not depend on the other sentences of its batch.
        ordered = sorted(sentences, key=lambda i: len(tokens[i]))
        for _, same in groupby(ordered, key=lambda i: len(tokens[i])):
            yield from _batches(list(same))

    def compute(sentences: Sequence[int]) -> Half:
        ids = torch.tensor([tokens[i] for i in _full(sentences)], device=model.device)
        with autocast(model.device, keeping.precision):
            return _half(text.states(ids, None))

    path = _path(keeping, "sentences", text.backbone, text.extra_repr())
    contents = [content_digest(np.asarray(pieces, dtype=np.int64)) for pieces in tokens]
    return _kept("sentences", keeping, path, shape, contents, of_one_length, compute)


def _batches(chosen: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(chosen), BATCH):
        yield list(chosen[start : start + BATCH])


def _full(chosen: Sequence[int]) -> list[int]:
    """A batch filled up to :data:`BATCH` with its first element."""
    return [*chosen, *[chosen[0]] * (BATCH - len(chosen))]


def _half(features: Tensor) -> Half:
    limit = float(torch.finfo(torch.float16).max)
    values: Half = features.float().clamp(-limit, limit).half().cpu().numpy()
    return values


def _kept(
    what: str,
    keeping: Keeping,
    stem: Path,
    shape: tuple[int, ...],
    contents: Sequence[bytes],
    batches: Callable[[Sequence[int]], Iterable[list[int]]],
    compute: Callable[[Sequence[int]], Half],
) -> LockedFeatures:
    """Compute the distinct contents missing in a file, a batch at a time, and map the file."""
    distinct = dict(zip(reversed(contents), range(len(contents) - 1, -1, -1), strict=True))
    parts = list(batches(sorted(distinct.values())))
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    order = {contents[place]: row for row, place in enumerate(chain(*parts))}
    digest = hashlib.sha256(b"".join(order)).hexdigest()[:16]
    path, row_bytes = stem.with_name(f"{stem.name}-{digest}.f16"), 2 * math.prod(shape)
    with disk_errors(keeping.folder, f"features of {what}"):
        keeping.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        rows = path.stat().st_size // row_bytes if path.exists() else 0
        done = bisect_right(ends, rows) - 1  # whole batches
        if missing := len(order) - ends[done]:
            room, size = f"keeping features of {missing} {what}", missing * row_bytes
            instead = "name another folder with data.cache, or train without training.lock"
            require_room(keeping.folder, size, room, instead)
            keeping.listener.say(
                f"{missing} {what} pass through the locked encoder once; their features are "
                f"kept in {path} ({size / 1e9:.3g} GB)"
            )
            path.touch(mode=0o600)
            with path.open("r+b") as file:
                for start, part in zip(ends[done:], parts[done:], strict=False):
                    with torch.inference_mode():
                        values = compute(part)[: len(part)]
                    write_at(file.fileno(), start * row_bytes, values.tobytes())
                    keeping.listener.embedding(what, start + len(part) - ends[done], missing)
        places = np.asarray([order[content] for content in contents], dtype=np.int64)
        if not order:
            return LockedFeatures(np.empty((0, *shape), dtype=np.float16), places)
        return LockedFeatures(np.memmap(path, np.float16, "r", shape=(len(order), *shape)), places)


def content_digest(content: np.ndarray[tuple[int, ...], np.dtype[Any]]) -> bytes:
    """The digest that identifies features: of a square's pixels, or of word pieces, int64."""
    return hashlib.blake2b(np.ascontiguousarray(content).data, digest_size=16).digest()


def _path(keeping: Keeping, kind: str, encoder: nn.Module, what: str) -> Path:
    """A path named by the encoder's weights and everything else except the input."""
    digest = hashlib.sha256(f"{kind} {keeping.precision} {what}".encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data.cast("B"))
    return keeping.folder / f"{kind}-{digest.hexdigest()[:16]}"
