"""A drawn image with the vectors that a backbone made of it, compared whenever it is loaded.

A digest tells whether files are the same; this tells whether they still compute the same: another
mean or filter, a token too many before the regions, or another version of a library show here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cxrtext.device import without_tf32
from cxrtext.errors import CheckpointError
from cxrtext.images.gray import Bytes, Floats
from cxrtext.models.foreign.backbone import Backbone

HEIGHT, WIDTH = 761, 613
"""Of the image; a size that no model resizes to, so that every filter shows."""
LEVELS = 0.1
"""Gray levels of 255 by which the prepared square may differ, on average over its pixels."""
TOLERANCE = 1e-3
"""Share of a channel's spread over the grid by which it may differ, in the median channel.

Rounding in float32 comes to 1e-5 between processors with and without AVX (ResNet-50, DINOv2, Swin
and ConvNeXT), a std that is 1 % off to 1.8e-3 and more, a mean that is 1/255 off to 8e-3 and more.
"""
_FLAT = 1e-3  # of the mean spread; channels below it say nothing


def draw() -> Bytes:
    """The image, [1, 761, 613]: no two regions of it are alike, and fine lines show a filter.

    Whole numbers only, so that every machine draws the same.
    """
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.int64)
    gray = (170 * y) // HEIGHT + (60 * x) // WIDTH + 25 * ((x * x // 900 + y // 3) % 2)
    discs = (200, 140, 90, 90), (480, 430, 60, -110), (640, 180, 35, 70)
    for row, column, radius, level in discs:
        gray += level * ((y - row) ** 2 + (x - column) ** 2 <= radius**2)
    drawn: Bytes = np.clip(gray, 0, 255).astype(np.uint8)[np.newaxis]
    return drawn


def make_golden(backbone: Backbone) -> dict[str, npt.NDArray[Any]]:
    """Draw the image and keep what a backbone makes of it, in float32.

    "image" is uint8 [1, H, W], "square" uint8 [1, resize, resize], "regions" float32 [h, w, C].
    """
    image = draw()
    square = backbone.preprocessing.square(image)
    return {"image": image, "square": square, "regions": _regions(backbone, square)}


def check_golden(backbone: Backbone, golden: Mapping[str, npt.NDArray[Any]]) -> None:
    """Compare what a backbone makes of the golden image with what was kept, in float32."""
    image, kept, wanted = (golden.get(name) for name in ("image", "square", "regions"))
    if image is None or kept is None or wanted is None or image.ndim != 3:
        raise CheckpointError(f"backbone '{backbone.name}': its golden image is damaged")
    square = backbone.preprocessing.square(image)
    check_square(f"backbone '{backbone.name}'", square, kept)
    found = _regions(backbone, square)
    if found.shape != wanted.shape:
        raise CheckpointError(
            f"backbone '{backbone.name}': its grid of the golden image is {list(found.shape)}, and "
            f"was {list(wanted.shape)}"
        )
    off = _difference(found, wanted)
    if not off <= TOLERANCE:
        raise CheckpointError(
            f"backbone '{backbone.name}': its vectors of the golden image are not those of when "
            f"its features were made (they differ by {off:.2g} of their spread, {TOLERANCE:.2g} is "
            "rounding): its weights, mean, std or tokens, or the version of transformers differ"
        )


def check_square(what: str, square: Bytes, kept: npt.NDArray[Any]) -> None:
    """Compare how the golden image is resized with how it was (CheckpointError)."""
    same = square.shape == kept.shape
    if not (same and np.abs(square.astype(float) - kept).mean() <= LEVELS):
        raise CheckpointError(
            f"{what}: the golden image is resized otherwise than it was: the size, the filter or "
            "the version of Pillow differs"
        )


def _regions(backbone: Backbone, square: Bytes) -> Floats:
    pixels = torch.from_numpy(backbone.preprocessing.normalize(square)).to(backbone.mean.device)
    with torch.inference_mode(), without_tf32():
        regions = backbone(pixels[None], precision="float32")[0]
    return np.asarray(regions.cpu().numpy(), dtype=np.float32)


def _difference(found: Floats, wanted: Floats) -> float:
    """The median, over channels that vary, of the RMS difference over the grid by the spread."""
    spread = wanted.std(axis=(0, 1), dtype=np.float64)
    errors = np.sqrt(((found.astype(np.float64) - wanted) ** 2).mean(axis=(0, 1)))
    varying = spread > _FLAT * spread.mean()
    if not varying.any():  # one region, or the same everywhere
        return float(np.median(errors) / max(np.abs(wanted).mean(), 1e-12))
    return float(np.median(errors[varying] / spread[varying]))
