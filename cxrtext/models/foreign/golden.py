"""A drawn image with a model's vectors for it, compared whenever the model is loaded.

A digest tells whether files are the same; this tells whether they still compute the same.  Another
mean or filter, an extra token before the regions, or another version of a library show here.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.device import without_tf32
from cxrtext.errors import CheckpointError
from cxrtext.images import Preprocessing
from cxrtext.images.gray import Bytes
from cxrtext.models.foreign.backbone import Backbone

HEIGHT, WIDTH = 761, 613
"""Size of the image; no model resizes to it, so that every filter shows."""
LEVELS = 0.1
"""Largest mean difference of the prepared square's pixels, in gray levels of 255."""
TOLERANCE = 1e-3
"""Largest difference in the median channel, as a share of its spread over the grid.

Rounding in float32 gives 1e-5 between processors with and without AVX (ResNet-50, DINOv2, Swin and
ConvNeXT); a std that is 1 % off gives 1.8e-3 or more, a mean that is 1/255 off 8e-3 or more.
"""
_FLAT = 1e-3  # of the mean spread; channels below it say nothing
Answers = Mapping[str, NDArray[Any]]


def draw() -> Bytes:
    """The image, [1, 761, 613]: no two of its regions are alike, and fine lines show a filter.

    Only whole numbers are used, so that every machine draws the same.
    """
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.int64)
    gray = (170 * y) // HEIGHT + (60 * x) // WIDTH + 25 * ((x * x // 900 + y // 3) % 2)
    discs = (200, 140, 90, 90), (480, 430, 60, -110), (640, 180, 35, 70)
    for row, column, radius, level in discs:
        gray += level * ((y - row) ** 2 + (x - column) ** 2 <= radius**2)
    drawn: Bytes = np.clip(gray, 0, 255).astype(np.uint8)[np.newaxis]
    return drawn


def answers(
    preprocessing: Preprocessing, device: torch.device, embed: Callable[[Tensor], Tensor]
) -> dict[str, NDArray[Any]]:
    """A model's answers for the image: "square" uint8 [1, R, R], "regions" float32 [h, w, C]."""
    square = preprocessing.square(draw())
    pixels = torch.from_numpy(preprocessing.normalize(square)).to(device)
    with torch.inference_mode(), without_tf32():
        regions = embed(pixels[None])[0].float().cpu().numpy()
    return {"square": square, "regions": regions}


def make_golden(backbone: Backbone) -> dict[str, NDArray[Any]]:
    """A backbone's :func:`answers`, in float32."""
    device = backbone.mean.device
    return answers(backbone.preprocessing, device, lambda x: backbone(x, precision="float32"))


def check_golden(backbone: Backbone, golden: Answers) -> None:
    """Compare a backbone's answers, in float32, with those that were kept (CheckpointError)."""
    compare(f"backbone '{backbone.name}'", make_golden(backbone), golden)


def compare(what: str, found: Answers, kept: Answers) -> None:
    """Compare a model's answers with those that were kept (CheckpointError)."""
    if missing := found.keys() - kept.keys():
        raise CheckpointError(f"{what}: its golden example is damaged, without {min(missing)}")
    same = found["square"].shape == kept["square"].shape
    if not (same and np.abs(found["square"].astype(float) - kept["square"]).mean() <= LEVELS):
        raise CheckpointError(
            f"{what}: the golden image is resized otherwise than it was: the size, the filter or "
            "the version of Pillow differs"
        )
    for name in found.keys() - {"square"}:
        new, old = found[name], kept[name]
        if new.shape != old.shape:
            raise CheckpointError(
                f"{what}: its {name} of the golden example are {list(new.shape)}, and were "
                f"{list(old.shape)}"
            )
        off = _difference(new, old)
        if not off <= TOLERANCE:
            raise CheckpointError(
                f"{what}: its {name} of the golden example differ by {off:.2g} of their spread "
                f"from those that were kept ({TOLERANCE:.2g} is rounding): its weights, mean, std, "
                "tokens or tokenizer, or the version of transformers differ"
            )


def _difference(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    """The median over varying channels of [..., C] of the RMS difference divided by the spread.

    If no channel varies, as in a single vector, it is divided by the mean size of the numbers.
    """
    found, wanted = (x.astype(np.float64).reshape(-1, x.shape[-1]) for x in (found, wanted))
    spread = wanted.std(axis=0)
    errors = np.sqrt(((found - wanted) ** 2).mean(axis=0))
    varying = spread > _FLAT * spread.mean()
    if not varying.any():  # one region, or the same everywhere
        return float(np.median(errors) / max(np.abs(wanted).mean(), 1e-12))
    return float(np.median(errors[varying] / spread[varying]))
