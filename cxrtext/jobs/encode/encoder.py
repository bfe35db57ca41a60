"""From squares of images to region features, the same for an image whatever it is encoded with."""

import hashlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError, ImageError
from cxrtext.images import Preprocessing
from cxrtext.images.augment import Views, augment, draw_views
from cxrtext.images.cache import DecodedCache
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.models.features.feature_map import FeatureMap
from cxrtext.models.regions import normalized

if TYPE_CHECKING:
    from cxrtext.models.backbones import Backbone

BATCH = 16
"""Images that pass through the backbone at once: always as many, so that the last bits of an
image's features do not follow from how many others there are."""

BRIGHTNESS, CONTRAST, ROTATION = 0.1, 0.1, 5.0
"""How far views after the first may differ from the image; the turn is in degrees."""

Half = NDArray[np.float16]
MOST = float(torch.finfo(torch.float16).max)


class Encoder:
    """A frozen backbone and what is kept of its regions, V views of each image.

    The first is its center crop; window, turn and gray values of others are drawn by its name.
    """

    def __init__(self, backbone: "Backbone", *, views: int = 1, seed: int = 0) -> None:
        self.backbone, self._views, self._seed = backbone, views, seed
        self._device = next(iter(backbone.parameters())).device

    def regions(
        self, squares: Sequence[NDArray[np.uint8]], names: Sequence[str], *, fill: bool = True
    ) -> Iterator[Tensor]:
        """What the backbone makes of each view of up to a batch of squares.

        Args:
            squares: n of [1, R, R], of the backbone's preprocessing.
            fill: Whether the batch is filled with the first image; without it last bits may differ.

        Yields:
            V of [BATCH, h, w, C] in float32, or [n, h, w, C] where it is not filled.
        """
        filled = [*range(len(squares)), *[0] * (BATCH - len(squares) if fill else 0)]
        stack = torch.from_numpy(np.stack([squares[i] for i in filled])).to(self._device)
        shape = self.backbone.preprocessing
        with torch.inference_mode():
            for view in range(self._views):
                if view == 0:
                    images = normalized(stack, shape)
                else:
                    drawn = _drawn([names[i] for i in filled], view, self._seed, shape)
                    images = augment(stack, drawn, shape.crop)
                found: Tensor = self.backbone(images)
                if not bool(torch.isfinite(found).all()):
                    raise CheckpointError(
                        f"{self.backbone.folder}: the backbone gives values that are no numbers; "
                        "try --precision float32, or look at its weights"
                    )
                yield found

    def features(
        self, squares: Sequence[NDArray[np.uint8]], names: Sequence[str], feature_map: FeatureMap
    ) -> Half:
        """What is kept of up to a batch of squares, [n, V, g, g, R]; as :meth:`regions`."""
        kept = []
        with torch.inference_mode():
            for regions in self.regions(squares, names):
                found = feature_map(regions).clamp(-MOST, MOST).half().cpu().numpy()
                kept.append(found[: len(squares)])
        return np.stack(kept, axis=1)


def _drawn(names: Sequence[str], view: int, seed: int, shape: Preprocessing) -> Views:
    """How images are seen in a view, each drawn by its name alone."""
    drawn = []
    for name in names:
        digest = hashlib.blake2b(f"{seed} {view} {name}".encode(), digest_size=7).digest()
        drawn.append(
            draw_views(
                1,
                shape.resize,
                shape.crop,
                torch.Generator().manual_seed(int.from_bytes(digest, "big")),
                brightness=BRIGHTNESS,
                contrast=CONTRAST,
                rotation=ROTATION,
            )
        )
    return Views(*(torch.cat([getattr(one, name) for one in drawn]) for name in Views.__slots__))


class Reader:
    """Gives squares of image files, decoded in other processes or found in a cache."""

    def __init__(
        self, preprocessing: Preprocessing, readers: int, cache: Path | None = None
    ) -> None:
        self._preprocessing = preprocessing
        self._pool = ReaderPool(readers)
        self._cache = DecodedCache(cache) if cache else None

    def squares(self, paths: Iterable[Path]) -> Generator[ReadImage | ImageError, None, None]:
        """The square of each file, in order, or why there is none."""
        if self._cache is None:
            yield from self._pool.map(paths, square=self._preprocessing, ahead=BATCH)
        else:
            yield from self._cache.read(
                [*paths], self._preprocessing, processes=self._pool.workers, ahead=BATCH, keep=False
            )

    def close(self) -> None:
        self._pool.close()


Batch = tuple[list[int], list[ReadImage], list[tuple[int, str]]]
"""Rows of images and the images; rows and reasons of those that failed before them."""


def full_batches(read: Iterable[ReadImage | ImageError]) -> Iterator[Batch]:
    """Put images together by the batch, in order; the last may be smaller."""
    rows: list[int] = []
    images: list[ReadImage] = []
    failed: list[tuple[int, str]] = []
    for row, image in enumerate(read):
        if isinstance(image, ImageError):
            failed.append((row, str(image)))
        else:
            rows.append(row)
            images.append(image)
        if len(images) == BATCH:
            yield rows, images, failed
            rows, images, failed = [], [], []
    if images or failed:
        yield rows, images, failed
