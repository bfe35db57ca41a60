"""What a reader process makes of an image before it sends it back."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy.typing as npt

from cxrtext.images.grey import Grey
from cxrtext.images.preprocessing import Preprocessing

Part = Literal["whole", "square"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is wanted of an image; the smaller it is, the less has to travel.

    Args:
        part: "whole" is the image as it was read; "square" the 8-bit grey square that
            `Preprocessing.square` makes of it, and `Preprocessing.normalise` the model's input.
        preprocessing: Sizes of the square.

    Raises:
        ValueError: When a square is wanted without sizes.
    """

    part: Part = "whole"
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        if self.part not in ("whole", "square"):
            raise ValueError("part is whole or square")
        if self.part == "square" and self.preprocessing is None:
            raise ValueError("a square needs preprocessing")

    def to_dict(self) -> dict[str, Any]:
        """Give the form that travels."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preparation":
        """Read what `to_dict` gave."""
        sizes = values["preprocessing"]
        return cls(values["part"], Preprocessing.from_dict(sizes) if sizes else None)


WHOLE = Preparation()


@dataclass(frozen=True, slots=True)
class ReadImage:
    """An image that was read.

    Args:
        pixels: [1, H, W] float32 in [0, 1], or [1, resize, resize] uint8 for a square.
        height: Rows of the file's image.
        width: Columns of the file's image.
    """

    pixels: npt.NDArray[Any]
    height: int
    width: int


def prepare_image(grey: Grey, preparation: Preparation) -> ReadImage:
    """Make what is wanted of a decoded image."""
    height, width = grey.pixels.shape
    sizes = preparation.preprocessing
    if sizes is None or preparation.part == "whole":
        return ReadImage(grey.floats(), height, width)
    return ReadImage(sizes.square(grey.bytes()), height, width)
