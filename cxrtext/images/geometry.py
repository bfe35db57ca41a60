"""Exact maps between a radiograph and the crop that the encoder sees."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cxrtext.images.arrays import Floats

if TYPE_CHECKING:
    from cxrtext.images.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True)
class Geometry:
    """Exact maps between an original image and its prepared crop.

    Coordinates are continuous, x to the right and y down from the upper left corner: pixel (i, j)
    covers x in [j, j + 1] and y in [i, i + 1], its centre being at +0.5.  Boxes are
    (x, y, width, height), as COCO has them.

    Args:
        height: Rows of the original.
        width: Columns of the original.
        preprocessing: How the crop was made.

    Raises:
        ValueError: When the original is empty.
    """

    height: int
    width: int
    preprocessing: "Preprocessing"

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise ValueError("an image has at least one row and one column")

    @property
    def resized(self) -> tuple[int, int]:
        """(height, width) after resizing, the longer side rounded down as torchvision does."""
        short, size = min(self.height, self.width), self.preprocessing.resize
        return size * self.height // short, size * self.width // short

    @property
    def scale(self) -> tuple[float, float]:
        """Resized pixels an original pixel, along x and y."""
        height, width = self.resized
        return width / self.width, height / self.height

    @property
    def square_origin(self) -> tuple[int, int]:
        """(x, y) of the centre square in the resized image."""
        height, width = self.resized
        size = self.preprocessing.resize
        return (width - size) // 2, (height - size) // 2

    @property
    def crop_origin(self) -> tuple[int, int]:
        """(x, y) of the crop in the resized image."""
        x, y = self.square_origin
        margin = (self.preprocessing.resize - self.preprocessing.crop) // 2
        return x + margin, y + margin

    @property
    def square_box(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of the centre square in the original."""
        return self._place(self.square_origin, self.preprocessing.resize)

    @property
    def crop_box(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of the crop in the original."""
        return self._place(self.crop_origin, self.preprocessing.crop)

    def _place(self, origin: tuple[int, int], size: int) -> tuple[float, float, float, float]:
        height, width = self.resized
        (x, y), (w, h) = origin, (self.width, self.height)
        # One rounding each, so that the box cannot stick out of the image.
        return x * w / width, y * h / height, (x + size) * w / width, (y + size) * h / height

    def points_to_original(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map points (x, y) of the crop to the original, [..., 2] -> [..., 2]."""
        return (np.asarray(points, dtype=np.float64) + self.crop_origin) / self.scale

    def points_to_crop(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map points (x, y) of the original to the crop, [..., 2] -> [..., 2]; may lie outside."""
        return np.asarray(points, dtype=np.float64) * self.scale - self.crop_origin

    def boxes_to_crop(self, boxes: npt.ArrayLike, *, clip: bool = False) -> npt.NDArray[np.float64]:
        """Map boxes (x, y, width, height) of the original to the crop.

        Args:
            boxes: [..., 4] in original pixels.
            clip: Cut off what lies outside the crop; a box wholly outside gets no area.

        Returns:
            [..., 4] in crop pixels.
        """
        box = np.asarray(boxes, dtype=np.float64)
        first = self.points_to_crop(box[..., :2])
        last = self.points_to_crop(box[..., :2] + box[..., 2:])
        if clip:
            first, last = (np.clip(one, 0, self.preprocessing.crop) for one in (first, last))
        return np.concatenate([first, last - first], axis=-1)

    def boxes_to_original(self, boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map boxes (x, y, width, height) of the crop to the original, [..., 4] -> [..., 4]."""
        box = np.asarray(boxes, dtype=np.float64)
        return np.concatenate(
            [self.points_to_original(box[..., :2]), box[..., 2:] / np.asarray(self.scale)], axis=-1
        )

    def map_to_original(self, grid: npt.NDArray[np.floating[Any]]) -> Floats:
        """Enlarge a region grid onto the crop's place in the original.

        Bilinear between the centres of regions (``align_corners=False``), constant beyond the
        outermost centres.

        Args:
            grid: [h, w], covering the crop evenly.

        Returns:
            [H, W]; NaN at pixels whose centre lies outside the crop.
        """
        if grid.ndim != 2 or 0 in grid.shape:
            raise ValueError(f"a grid is [h, w], not {list(grid.shape)}")
        rows = self._along(1, self.height, grid.shape[0])
        columns = self._along(0, self.width, grid.shape[1])
        full = np.full((self.height, self.width), np.nan, dtype=np.float32)
        values = _between(_between(grid.astype(np.float32), rows).T, columns).T
        full[np.ix_(rows.pixels, columns.pixels)] = values
        return full

    def _along(self, axis: int, extent: int, cells: int) -> "_Axis":
        crop = self.preprocessing.crop
        centres = (np.arange(extent) + 0.5) * self.scale[axis] - self.crop_origin[axis]
        pixels = np.flatnonzero((centres >= 0) & (centres < crop))
        at = np.clip(centres[pixels] * cells / crop - 0.5, 0, cells - 1)
        before = at.astype(np.int64)
        share = (at - before).astype(np.float32)
        return _Axis(pixels, before, np.minimum(before + 1, cells - 1), share)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Which pixels along an axis lie in the crop, and the two cells each lies between."""

    pixels: npt.NDArray[np.intp]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    share: Floats


def _between(grid: Floats, axis: _Axis) -> Floats:
    """Interpolate the rows of a grid, [h, w] -> [len(axis.pixels), w]."""
    share = axis.share[:, np.newaxis]
    return grid[axis.before] * (1 - share) + grid[axis.after] * share
