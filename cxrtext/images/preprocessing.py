"""From a radiograph to the encoder's square input."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image

from cxrtext.images.arrays import Floats
from cxrtext.images.geometry import Geometry

MAX_RESIZE = 8192


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How an image is prepared: shorter side to ``resize``, centre crop, normalisation.

    The numbers are kept in a checkpoint's ``config.json``; `to_dict` and `from_dict` are its form.

    Args:
        resize: Length of the shorter side after resizing, in pixels.
        crop: Side of the square that is cut from the centre, in pixels; at most ``resize``.
        mean: Taken from grey values in [0, 1].  The default, with that of ``std``, brings
            windowed chest radiographs to about zero mean and unit variance.
        std: Grey values are divided by this.  BioViL wants mean 0 and std 1.

    Raises:
        ValueError: When a number is out of range.
    """

    resize: int = 512
    crop: int = 480
    mean: float = 0.5
    std: float = 0.25

    def __post_init__(self) -> None:
        if not (
            isinstance(self.resize, int)
            and isinstance(self.crop, int)
            and 1 <= self.crop <= self.resize <= MAX_RESIZE
        ):
            raise ValueError(f"crop and resize must be whole, 1 <= crop <= resize <= {MAX_RESIZE}")
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0):
            raise ValueError("mean and std must be finite, std above 0")

    def prepare(self, image: Floats) -> Floats:
        """Resize, crop and normalise, as for evaluation and indexing.

        Args:
            image: [1, H, W] in [0, 1], of any size and aspect ratio; small ones are enlarged.

        Returns:
            [1, crop, crop], ``(grey − mean) / std``.
        """
        grey = _resample(image, self.geometry(*image.shape[-2:]).crop_box, self.crop)
        return (grey - np.float32(self.mean)) / np.float32(self.std)

    def square(self, image: Floats) -> Floats:
        """Resize and keep the centre square whole, as training caches it.

        The centre crop of the square is what `prepare` normalises.

        Args:
            image: [1, H, W] in [0, 1].

        Returns:
            [1, resize, resize] in [0, 1].
        """
        return _resample(image, self.geometry(*image.shape[-2:]).square_box, self.resize)

    def geometry(self, height: int, width: int) -> Geometry:
        """Give the maps between an image of this size and its crop."""
        return Geometry(height, width, self)

    def to_dict(self) -> dict[str, Any]:
        """Give the parameters as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """Read what `to_dict` gave; other keys are dropped.

        Raises:
            ValueError: When a key is missing, of the wrong type or out of range.
        """
        try:
            return cls(**{name: values[name] for name in cls.__slots__})
        except KeyError as error:
            raise ValueError(f"preprocessing lacks {error.args[0]!r}") from None
        except TypeError:
            raise ValueError("a value of preprocessing is no number") from None


def _resample(image: Floats, box: tuple[float, float, float, float], size: int) -> Floats:
    """Resize a part (left, top, right, bottom) of [1, H, W] to a square; antialiased, bilinear."""
    if image.ndim != 3 or image.shape[0] != 1:
        raise ValueError(f"an image is [1, H, W], not {list(image.shape)}")
    # Resampling only the part that is kept bounds the memory that a very long image takes.
    grey = Image.fromarray(np.ascontiguousarray(image[0], dtype=np.float32))
    resized = grey.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized, dtype=np.float32)[np.newaxis]
