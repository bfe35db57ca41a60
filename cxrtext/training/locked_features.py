"""What a locked image encoder makes of images: computed once, and kept in a memory-mapped file.

A locked encoder gives an image the same features at every step.  They are those of the center
crop: with one view an image they are computed once, and a step costs no pass through the encoder.

Two files for each encoder, ``regions-<digest>.f16`` and ``.keys``: features of images in the order
in which they came, and beside each the digest of its square and a checksum.  Both only grow, so
that runs with the same encoder share them, and a stopped run has lost nothing.  They can be deleted
at any time when no process uses them.
"""

import hashlib
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import WorkError
from cxrtext.files import only_one
from cxrtext.images.cache_store import disk_errors
from cxrtext.models import ImageTextModel
from cxrtext.models.image_encoder import STRIDES
from cxrtext.models.regions import normalized

VERSION = 1
BATCH = 64
"""Images that are computed at once; always as many, so that they are the same whoever asks."""
DIGEST_BYTES = 16
_ENTRY = np.dtype([("digest", f"V{DIGEST_BYTES}"), ("checksum", "<u4")])
_WAIT_S = 2.0

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Half = np.ndarray[tuple[int, ...], np.dtype[np.float16]]


@dataclass(frozen=True, slots=True)
class LockedFeatures:
    """Features of n images in memory-mapped storage.

    Args:
        values: [places, h, w, C], before the projection; other images may lie between.
        places: [n], where each image's are.
    """

    values: Half
    places: Rows

    def of(self, images: Rows) -> Half:
        """Features [b, h, w, C] of some of the images, read into memory."""
        return np.ascontiguousarray(self.values[self.places[images]])


def encoder_digest(model: ImageTextModel, precision: str) -> str:
    """SHA-256 over all that features depend on beside the image: weights and preprocessing."""
    digest = hashlib.sha256(
        f"{VERSION} {model.spec.image} {precision} {asdict(model.spec.preprocessing)}".encode()
    )
    for name, tensor in model.image_encoder.backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data.cast("B"))
    return digest.hexdigest()


def lock_features(
    model: ImageTextModel,
    pixels: Pixels,
    rows: Rows,
    folder: Path,
    *,
    precision: str = "float32",
    autocast: Callable[[], AbstractContextManager[object]] = ExitStack,
    say: Callable[[str], None] = lambda _: None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> LockedFeatures:
    """Compute the features of images that are not kept yet, and map those of all.

    Those that are kept are compared with their checksums, and computed again where they differ.

    Args:
        model: Whose image encoder is locked; it is put into evaluation mode.
        pixels: [slots, R, R], 8-bit squares.
        rows: [n], the slot of each image.
        folder: Where they are kept.
        precision: A name for what ``autocast`` does; other precisions have files of their own.
        say: Told how much is computed, and what was damaged.
        progress: Called with (done, total) of the images that are computed.

    Raises:
        WorkError: The disk has too little room, or fails.
        DataError: The folder cannot be written.
    """
    store = _Store(folder, encoder_digest(model, precision)[:16], _shape(model))
    with disk_errors(folder, "features of the locked encoder"), ExitStack() as stack:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        digests = [_digest(pixels[row]) for row in rows]
        found, damaged = store.find(digests)
        if any(digest not in found for digest in digests):
            _take_turn(stack, store.path, say)
            found, damaged = store.find(digests)  # the process before may have added them
        if damaged:
            say(f"{store.path}: {len(damaged)} image(s) were damaged; they are computed again")
        first = dict(zip(digests, rows, strict=True))
        missing = [(digest, row) for digest, row in first.items() if digest not in found]
        new = len(missing) - len(damaged)
        store.require_room(new)
        if missing:
            say(
                f"{len(missing)} images pass through the locked image encoder once; their features "
                f"are kept in {store.path} ({len(missing) * store.row_bytes / 1e9:.3g} GB)"
            )
        model.image_encoder.eval()
        for done in range(0, len(missing), BATCH):
            part = missing[done : done + BATCH]
            squares = torch.from_numpy(np.asarray(pixels[[row for _, row in part]])[:, None])
            with torch.inference_mode(), autocast():
                values = _features(model, squares)
            found |= store.keep([digest for digest, _ in part], values, damaged)
            progress(done + len(part), len(missing))
        places = np.asarray([found[digest] for digest in digests], dtype=np.int64)
        return LockedFeatures(store.map(int(places.max(initial=-1)) + 1), places)


def _shape(model: ImageTextModel) -> tuple[int, int, int]:
    """Of an image's features: h, w and C."""
    side = math.ceil(model.spec.preprocessing.crop / STRIDES[model.spec.image])
    return side, side, model.image_encoder.projection.in_features


def _features(model: ImageTextModel, squares: Tensor) -> Half:
    """Features [b, h, w, C] of 8-bit squares [b, 1, R, R]; the last batch is filled up."""
    count = len(squares)
    full = torch.cat([squares, squares[:1].expand(BATCH - count, -1, -1, -1)])
    images = normalized(full.to(model.device), model.spec.preprocessing)
    images = images.contiguous(memory_format=torch.channels_last)
    limit = float(torch.finfo(torch.float16).max)
    found = model.image_encoder.features(images).float().clamp(-limit, limit)[:count]
    values: Half = found.half().cpu().numpy()
    return values


def _digest(square: Pixels) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(square).data, digest_size=DIGEST_BYTES).digest()


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

    def __init__(self, folder: Path, name: str, shape: tuple[int, ...]) -> None:
        self.path = folder / f"regions-{name}.f16"
        self._keys = self.path.with_suffix(".keys")
        self._shape = shape
        self.row_bytes = 2 * math.prod(shape)

    def find(self, digests: Sequence[bytes]) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Places of sound features by digest; and those of damaged ones."""
        wanted, entries = set(digests), self._entries()
        found: dict[bytes, int] = {}
        damaged: dict[bytes, int] = {}
        values = self.map(len(entries))
        for place, entry in enumerate(entries):
            digest = bytes(entry["digest"])
            if digest in wanted:
                sound = zlib.crc32(np.ascontiguousarray(values[place]).data) == entry["checksum"]
                (found if sound else damaged)[digest] = place
        return found, {digest: place for digest, place in damaged.items() if digest not in found}

    def _entries(self) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
        """Those whose features are there."""
        try:
            noted = np.frombuffer(self._keys.read_bytes()[: self._whole()], dtype=_ENTRY)
            return noted[: self.path.stat().st_size // self.row_bytes]
        except FileNotFoundError:
            return np.empty(0, dtype=_ENTRY)

    def _whole(self) -> int:
        return self._keys.stat().st_size // _ENTRY.itemsize * _ENTRY.itemsize

    def keep(
        self, digests: Sequence[bytes], values: Half, damaged: dict[bytes, int]
    ) -> dict[bytes, int]:
        """Write features [b, h, w, C]; give their places.  Only what is written is noted."""
        place = len(self._entries())
        places: dict[bytes, int] = {}
        with _opened(self.path) as data, _opened(self._keys) as keys:
            for digest, value in zip(digests, values, strict=True):
                at = damaged.get(digest, place)
                place += at == place
                _write_at(data, at * self.row_bytes, value.tobytes())
                places[digest] = at
            for digest, value in zip(digests, values, strict=True):
                entry = np.array([(digest, zlib.crc32(value.tobytes()))], dtype=_ENTRY)
                _write_at(keys, places[digest] * _ENTRY.itemsize, entry.tobytes())
        return places

    def map(self, places: int) -> Half:
        """Map the first features into memory, [places, h, w, C], to be read."""
        if places == 0:
            return np.empty((0, *self._shape), dtype=np.float16)
        return np.memmap(self.path, np.float16, "r", shape=(places, *self._shape))

    def require_room(self, images: int) -> None:
        """Refuse to compute what the disk has no room for (WorkError)."""
        size, status = images * self.row_bytes, os.statvfs(self.path.parent)
        free = status.f_bavail * status.f_frsize
        if size > free:
            raise WorkError(
                f"{self.path}: the features of {images} images take {size / 1e9:.3g} GB and the "
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


def _write_at(handle: int, place: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(handle, view, place)
        view, place = view[count:], place + count
