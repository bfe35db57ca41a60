"""What a reader process makes of an image before it sends it back."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cxrtext.images.arrays import Floats
from cxrtext.images.preprocessing import Preprocessing

Part = Literal["whole", "crop", "square"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is wanted of an image; the smaller it is, the less has to travel.

    Args:
        part: "whole" is the image as it was read; "crop" the model's input, as
            `Preprocessing.prepare` makes it; "square" the training cache's 8-bit grey, from
            `Preprocessing.square`.
        preprocessing: Sizes and normalisation for the last two.

    Raises:
        ValueError: When a crop or square is wanted without sizes.
    """

    part: Part = "whole"
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        if self.part not in ("whole", "crop", "square"):
            raise ValueError("part is whole, crop or square")
        if self.part != "whole" and self.preprocessing is None:
            raise ValueError(f"a {self.part} needs preprocessing")

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
        pixels: [1, h, w] float32, or uint8 for a square.
        height: Rows of the file's image.
        width: Columns of the file's image.
    """

    pixels: npt.NDArray[Any]
    height: int
    width: int


def prepare_image(image: Floats, preparation: Preparation) -> ReadImage:
    """Make what is wanted of an image, [1, H, W] in [0, 1]."""
    height, width = image.shape[1:]
    sizes = preparation.preprocessing
    if sizes is None or preparation.part == "whole":
        return ReadImage(image, height, width)
    if preparation.part == "crop":
        return ReadImage(sizes.prepare(image), height, width)
    return ReadImage(np.rint(sizes.square(image) * 255.0).astype(np.uint8), height, width)
