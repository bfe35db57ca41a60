"""Is it a frontal chest radiograph?  A guess from the picture alone: shown, never acted on.

A small network, shipped with the package (``weights.npz``), looks at 64 x 64 pixels.  It knows
nothing about findings.  docs/reference/images.md says what it was trained on, how often it errs and
what it cannot tell; commit ff276b16 has the script that trained and measured it
(``benchmarks/images/frontal_check.py``).
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cxrtext.images.gray import Floats, eight_bit

SIDE = 64  # side of the picture that the network sees, in pixels

LONGEST = 3  # longer side over shorter; beyond that, it is not a radiograph of a chest

_LOW, _HIGH = 0.01, 0.99


def prepare(pixels: npt.NDArray[Any]) -> Floats:
    """Make a picture of any size and contrast small and even, [1, H, W] or [H, W] -> [64, 64].

    The longer side is squeezed to fit; values have mean 0 and variance 1.
    """
    gray = pixels[0] if pixels.ndim == 3 and len(pixels) == 1 else pixels
    if gray.ndim != 2 or not gray.size:
        raise ValueError(f"a picture is [1, H, W] or [H, W], not {list(pixels.shape)}")
    image = Image.fromarray(
        np.ascontiguousarray(gray if gray.dtype == np.uint8 else eight_bit(gray))
    )
    # Averaging blocks first, down to four times the size, is quicker and no worse.
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=4.0)
    values = np.asarray(small, dtype=np.float32)
    low, high = np.quantile(values, [_LOW, _HIGH])
    values = np.clip(values, low, high)
    return np.asarray((values - values.mean()) / (values.std() + np.float32(1e-3)), np.float32)


@dataclass(frozen=True, slots=True)
class Network:
    """3 x 3 convolutions that halve the picture, then two dense layers."""

    convolutions: list[tuple[Floats, Floats]]  # weights [3, 3, C, K] and biases [K]
    dense: list[tuple[Floats, Floats]]  # weights [C, K] and biases [K]

    def __call__(self, picture: Floats) -> npt.NDArray[np.float64]:
        """The score of each kind, [64, 64] -> [6]; scores add up to 1."""
        values = picture[..., np.newaxis]
        for weights, biases in self.convolutions:
            values = np.maximum(_halved(values, weights) + biases, 0)
        flat = values.reshape(-1)
        for weights, biases in self.dense:
            flat = np.maximum(flat, 0) @ weights + biases
        powers = np.exp(flat.astype(np.float64) - flat.max())
        return np.asarray(powers / powers.sum())


def _halved(values: Floats, weights: Floats) -> Floats:
    """Convolve with a step of 2 and a border of 1, [H, W, C] -> [H/2, W/2, K]."""
    padded = np.pad(values, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))[::2, ::2]
    height, width = windows.shape[:2]
    # [h, w, C, 3, 3] -> [h * w, 3 * 3 * C]
    columns = windows.transpose(0, 1, 3, 4, 2).reshape(height * width, -1)
    return (columns @ weights.reshape(-1, weights.shape[-1])).reshape(height, width, -1)


FRONTAL = "frontal"
KINDS = (FRONTAL, "lateral", "turned", "mirrored", "inverted", "other")
"""The answers: a frontal chest as it should be; a lateral chest; a frontal chest on its side or on
its head; one with left and right swapped; one with black and white swapped; anything else."""


@dataclass(frozen=True, slots=True)
class Look:
    kind: str  # one of ``KINDS``
    score: float  # how sure that is, 0 to 1
    scores: dict[str, float]  # of every kind; they add up to 1

    @property
    def frontal(self) -> bool:
        """Whether it looks like a frontal chest that stands upright."""
        return self.kind == FRONTAL


def look(pixels: npt.NDArray[Any]) -> Look:
    """Say what a picture looks like; under a thousandth of a second once it is small.

    Args:
        pixels: [1, H, W] or [H, W] gray values, float in [0, 1] or uint8, bone bright, as
            `read_image` returns them, or the square that `Preprocessing.square` makes of them.
    """
    scores = _network()(prepare(pixels))
    if max(pixels.shape[-2:]) > LONGEST * min(pixels.shape[-2:]):  # all look alike when squeezed
        scores = np.eye(len(KINDS))[-1]
    best = int(scores.argmax())
    named = {kind: float(score) for kind, score in zip(KINDS, scores, strict=True)}
    return Look(KINDS[best], named[KINDS[best]], named)


@cache
def _network() -> Network:
    """The package's network: weights and biases of ``conv0``, … and ``dense0``, …."""
    data = (files(__package__) / "weights.npz").read_bytes()
    with np.load(BytesIO(data), allow_pickle=False) as stored:
        arrays = {name: stored[name].astype(np.float32) for name in stored.files}
    layers: dict[str, list[tuple[Floats, Floats]]] = {"conv": [], "dense": []}
    for kind, layer in layers.items():
        while (name := f"{kind}{len(layer)}") + ".weight" in arrays:
            layer.append((arrays[f"{name}.weight"], arrays[f"{name}.bias"]))
    return Network(layers["conv"], layers["dense"])
