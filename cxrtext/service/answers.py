"""What a service takes and gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Image = NDArray[np.float32]
Square = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class EmbeddedImage:
    """An image as the model sees it.

    Args:
        regions: [N, D], unit vectors.
        height: Height of the original, in pixels.
        width: Width of the original, in pixels.
    """

    regions: Tensor
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class FindingScore:
    """A finding in an image.

    Args:
        finding: Its name.
        probability: Logistic of the score difference, or its calibrated form.
        score: ``γ² (s_pos − s_neg)``; above 0 says present.
        calibrated: Whether the probability is one that the checkpoint's calibration gives.
    """

    finding: str
    probability: float
    score: float
    calibrated: bool = False
