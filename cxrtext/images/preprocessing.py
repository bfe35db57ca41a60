"""From a radiograph to the encoder's square input: 8-bit grey, resized, cropped, normalised.

There is one definition, whatever the image was read as: grey values in [0, 1] are rounded to
8 bits, the centre square is resized as 8 bits, and its centre crop is normalised.  So what is
kept as 8 bits (training's cache) and what is made on the spot (search) are equal bit for bit.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image

from cxrtext.images.arrays import Floats
from cxrtext.images.geometry import Geometry
from cxrtext.images.grey import Bytes, eight_bit

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

    def prepare(self, image: Floats | Bytes) -> Floats:
        """Resize, crop and normalise, as for evaluation and indexing.

        Args:
            image: As `square` takes it.

        Returns:
            [1, crop, crop]: `normalise` of `square`.
        """
        return self.normalise(self.square(image))

    def square(self, image: Floats | Bytes) -> Bytes:
        """Round to 8 bits, resize, and keep the centre square, as training caches it.

        Args:
            image: [1, H, W], of any size and aspect ratio; small ones are enlarged.  Floats in
                [0, 1] are rounded to 8 bits; uint8 values stand for x/255.

        Returns:
            [1, resize, resize].

        Raises:
            ValueError: When the shape is another, or a value is NaN.
        """
        if image.ndim != 3 or image.shape[0] != 1:
            raise ValueError(f"an image is [1, H, W], not {list(image.shape)}")
        grey = image[0] if image.dtype == np.uint8 else eight_bit(image[0])
        # Resampling only the part that is kept bounds the memory that a very long image takes.
        resized = Image.fromarray(np.ascontiguousarray(grey)).resize(
            (self.resize, self.resize),
            Image.Resampling.BILINEAR,
            box=self.geometry(*grey.shape).square_box,
        )
        return np.array(resized)[np.newaxis]  # a copy, which may be written to

    def normalise(self, square: Bytes) -> Floats:
        """Cut the centre crop out of 8-bit squares and normalise it.

        Args:
            square: [..., resize, resize], from `square`.

        Returns:
            [..., crop, crop], ``(x/255 − mean) / std`` of each value x.

        Raises:
            ValueError: When the squares are of another size, or not 8 bits.
        """
        if square.dtype != np.uint8 or square.shape[-2:] != (self.resize, self.resize):
            raise ValueError(
                f"squares are uint8 [..., {self.resize}, {self.resize}], "
                f"not {square.dtype} {list(square.shape)}"
            )
        first = (self.resize - self.crop) // 2  # as in `Geometry.crop_origin`
        kept = slice(first, first + self.crop)
        levels = np.arange(256, dtype=np.float32) / np.float32(255)
        levels = (levels - np.float32(self.mean)) / np.float32(self.std)
        return levels[square[..., kept, kept]]

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
