"""From a radiograph to the encoder's square input, and exact maps between the two.

There is one definition for every kind of image: gray values in [0, 1] are rounded to 8 bits, the
center square is resized as 8 bits, and its center crop is normalized.  So the 8-bit squares of
training's cache and those that search makes on the spot are equal bit for bit.
"""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image

from cxrtext.images.gray import Bytes, Floats, eight_bit

MAX_RESIZE = 8192
LONGEST = 16
"""For ``fit`` "center", an image up to this many times as long as wide is resized as a whole."""

Resample = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
"""Pillow's filters."""
Fit = Literal["crop", "center", "stretch", "pad"]


def strided_offset(stride: int) -> float:
    """How many pixels a strided network's region is centered left of and above its cell's middle.

    This holds for padded convolutions and poolings with odd kernels, as in a ResNet: region i of
    stride s is centered on pixel i · s, and the middle of its cell is (s − 1) / 2 further.
    """
    return (stride - 1) / 2


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How an image is prepared: shorter side to ``resize``, center crop, normalization.

    A checkpoint's ``config.json`` keeps these values in the form of `to_dict` and `from_dict`.

    ``fit`` says which square is kept before the crop:

    - "crop": the shorter side becomes ``resize``, and the center square is kept; only that part is
      resampled, which may move a pixel by one gray level of 255.
    - "center": the same, but bit for bit equal to resizing the whole image with Pillow and one
      center crop, as transformers and torchvision do; use it for backbones from elsewhere.
    - "stretch": both sides become ``resize``, whatever the aspect ratio.
    - "pad": the longer side becomes ``resize``, with black beside the shorter one.
    """

    resize: int = 512  # length of the shorter side after resizing, in pixels
    crop: int = 480  # side of the square that is cut from the center, in pixels; at most ``resize``
    # subtracted from gray values in [0, 1].  This default and that of ``std`` bring windowed chest
    # radiographs to about zero mean and unit variance.
    mean: float = 0.5
    std: float = 0.25  # gray values are divided by this.  BioViL needs mean 0 and std 1
    resample: Resample = "bilinear"  # the filter
    fit: Fit = "crop"
    # how far left of and above the middle of its cell a region is centered, in pixels of the crop;
    # it comes from the encoder, not from a file: see `ImageTextModel`.
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (
            isinstance(self.resize, int)
            and isinstance(self.crop, int)
            and 1 <= self.crop <= self.resize <= MAX_RESIZE
        ):
            raise ValueError(f"crop and resize must be whole, 1 <= crop <= resize <= {MAX_RESIZE}")
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0):
            raise ValueError("mean and std must be finite, std above 0")
        for value, known in ((self.resample, Resample), (self.fit, Fit)):
            if value not in get_args(known):
                raise ValueError(f"{value!r} is not one of {', '.join(get_args(known))}")

    @property
    def kind(self) -> str:
        """The name for a way to make squares of a size: equal kinds give equal squares.

        "" is the default; others join the filter and the fit, as in "bicubic-stretch".
        """
        if (self.resample, self.fit) == ("bilinear", "crop"):
            return ""
        return f"{self.resample}-{self.fit}" + ("-odd" if self._rounded_up else "")

    @property
    def _rounded_up(self) -> int:
        """1 if the square must lie half a pixel further right and down for the crop to be right.

        A center crop rounds once; the square and the crop in it round twice.
        """
        return (self.resize - self.crop) % 2 if self.fit == "center" else 0

    def prepare(self, image: Floats | Bytes) -> Floats:
        """Resize, crop and normalize to [1, crop, crop]: `normalize` of `square`."""
        return self.normalize(self.square(image))

    @property
    def least(self) -> int | None:
        """The fewest pixels that a picture's shorter side needs; None if it needs them all."""
        return None if self.kind else self.resize

    def square(self, image: Floats | Bytes, size: tuple[int, int] | None = None) -> Bytes:
        """Round to 8 bits, resize, and keep the center square, as training caches it.

        Args:
            image: [1, H, W], of any size and aspect ratio; small ones are enlarged.  Floats in [0,
                1] are rounded to 8 bits; uint8 values stand for x/255.
            size: Height and width of the picture if decoding halved its sides, which `least` must
                allow.

        Returns:
            [1, resize, resize].
        """
        if image.ndim != 3 or image.shape[0] != 1:
            raise ValueError(f"an image is [1, H, W], not {list(image.shape)}")
        gray = image[0] if image.dtype == np.uint8 else eight_bit(image[0])
        picture = Image.fromarray(np.ascontiguousarray(gray))
        geometry = self.geometry(*(size or gray.shape))
        resample, side = Image.Resampling[self.resample.upper()], self.resize
        height, width = geometry.resized
        if self.fit == "pad":
            x, y = geometry.square_origin
            padded = Image.new("L", (side, side))
            padded.paste(picture.resize((max(width, 1), max(height, 1)), resample), (-x, -y))
            return np.array(padded)[np.newaxis]
        if self.fit == "center" and height * width <= LONGEST * side * side:
            x, y = geometry.square_origin
            whole = picture.resize((width, height), resample)
            return np.asarray(whole)[np.newaxis, y : y + side, x : x + side].copy()
        # Resampling only the part that is kept bounds the memory for a very long image.
        resized = picture.resize((side, side), resample, box=geometry.square_box_in(*gray.shape))
        return np.array(resized)[np.newaxis]  # a writable copy

    def normalize(self, square: Bytes) -> Floats:
        """Cut the center crop out of 8-bit squares and normalize it.

        [..., resize, resize] -> [..., crop, crop], ``(x/255 − mean) / std`` of each value x.
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

    def geometry(self, height: int, width: int) -> "Geometry":
        return Geometry(height, width, self)

    def to_dict(self) -> dict[str, Any]:
        """The parameters for JSON, without a default filter or fit."""
        values = asdict(self)
        del values["offset"]
        for field in fields(self):
            if field.name in ("resample", "fit") and values[field.name] == field.default:
                del values[field.name]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """Read the result of `to_dict`; other keys are dropped, wrong values raise a ValueError."""
        old = {"resample": "bilinear", "fit": "crop"}  # for files without these keys
        names = [name for name in cls.__slots__ if name != "offset"]
        try:
            return cls(**{name: (old | values)[name] for name in names})
        except KeyError as error:
            raise ValueError(f"preprocessing has no {error.args[0]!r}") from None
        except TypeError:
            raise ValueError("a value of preprocessing is not a number") from None


@dataclass(frozen=True, slots=True)
class Geometry:
    """Exact maps between an original image and its prepared crop.

    Coordinates are continuous, x to the right and y down from the upper left corner: pixel (i, j)
    covers x in [j, j + 1] and y in [i, i + 1], its center being at +0.5.  Boxes are
    (x, y, width, height), as COCO has them.
    """

    height: int
    width: int  # columns of the original
    preprocessing: Preprocessing

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise ValueError("an image has at least one row and one column")

    @property
    def resized(self) -> tuple[int, int]:
        """(height, width) after resizing, the longer side rounded down as torchvision does."""
        short, size = min(self.height, self.width), self.preprocessing.resize
        if self.preprocessing.fit == "stretch":
            return size, size
        if self.preprocessing.fit == "pad":
            short = max(self.height, self.width)
        return size * self.height // short, size * self.width // short

    @property
    def scale(self) -> tuple[float, float]:
        """Resized pixels for each original pixel, along x and y."""
        height, width = self.resized
        return width / self.width, height / self.height

    @property
    def square_origin(self) -> tuple[int, int]:
        """(x, y) of the center square in the resized image."""
        height, width = self.resized
        size, up = self.preprocessing.resize, self.preprocessing._rounded_up
        return (width - size + up) // 2, (height - size + up) // 2

    @property
    def crop_origin(self) -> tuple[int, int]:
        """(x, y) of the crop in the resized image."""
        x, y = self.square_origin
        margin = (self.preprocessing.resize - self.preprocessing.crop) // 2
        return x + margin, y + margin

    def square_box_in(self, height: int, width: int) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of the center square in a picture of that size.

        The picture is the original, or the original with its sides halved.  Wavelets keep every
        second pixel, from the first on: a pixel's middle stays where it is.
        """
        halved = round(self.height / height)
        box = self._place(self.square_origin, self.preprocessing.resize)
        ends = [(end - 0.5) / halved + 0.5 for end in box]
        left, top = (max(0.0, end) for end in ends[:2])
        return left, top, min(ends[2], width), min(ends[3], height)

    @property
    def crop_box(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of the crop in the original."""
        return self._place(self.crop_origin, self.preprocessing.crop)

    @property
    def grid_shift(self) -> float:
        """How far left of and above the crop the region grid lies, as a share of the crop's side.

        The grid is as large as the crop, and moved so that each cell lies around the center of its
        region.
        """
        return self.preprocessing.offset / self.preprocessing.crop

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

    def boxes_to_cells(
        self, boxes: npt.ArrayLike, grid: tuple[int, int]
    ) -> npt.NDArray[np.float64]:
        """Map boxes of the original to cells of a grid (h, w) over the crop, [..., 4] -> [..., 4].

        Boxes are cut to the crop; a box wholly outside gets no area.
        """
        box, crop = np.asarray(boxes, dtype=np.float64), self.preprocessing.crop
        corners = (box[..., :2], box[..., :2] + box[..., 2:])
        first, last = (np.clip(self.points_to_crop(corner), 0, crop) for corner in corners)
        size = np.array([grid[1], grid[0]]) / crop
        start = (first + self.preprocessing.offset) * size
        return np.concatenate([start, (last - first) * size], axis=-1)

    def boxes_of_cells(
        self, boxes: npt.ArrayLike, grid: tuple[int, int]
    ) -> npt.NDArray[np.float64]:
        """Map boxes in cells of a grid (h, w) to the original, [..., 4] -> [..., 4].

        They are cut to the crop; the outermost cells reach to its border.
        """
        box, crop = np.asarray(boxes, dtype=np.float64), self.preprocessing.crop
        ends, size = box[..., :2] + box[..., 2:], np.array([crop / grid[1], crop / grid[0]])
        first = np.maximum(box[..., :2] * size - self.preprocessing.offset, 0)
        last = np.where(ends >= grid[::-1], crop, ends * size - self.preprocessing.offset)
        sides = (last - first) / np.asarray(self.scale)
        return np.concatenate([self.points_to_original(first), sides], axis=-1)

    def center_of_cell(self, row: int, column: int, grid: tuple[int, int]) -> tuple[float, float]:
        """The point (x, y) of the original that a cell of a grid (h, w) is centered on."""
        crop, offset = self.preprocessing.crop, self.preprocessing.offset
        place = ((column + 0.5) * crop / grid[1] - offset, (row + 0.5) * crop / grid[0] - offset)
        x, y = self.points_to_original(place).tolist()
        return x, y

    def map_to_original(self, grid: npt.NDArray[np.floating[Any]]) -> Floats:
        """Enlarge a region grid, [h, w], onto the crop's place in the original.

        Bilinear between the centers of regions (``align_corners=False``), constant beyond the
        outermost centers.

        Returns:
            [H, W]; NaN at pixels whose center lies outside the crop.
        """
        if grid.ndim != 2 or 0 in grid.shape:
            raise ValueError(f"a grid is [h, w], not {list(grid.shape)}")
        rows, down = self._weights(1, self.height, grid.shape[0])
        columns, across = self._weights(0, self.width, grid.shape[1])
        full = np.full((self.height, self.width), np.nan, dtype=np.float32)
        full[np.ix_(rows, columns)] = down @ grid.astype(np.float32) @ across.T
        return full

    def _weights(self, axis: int, extent: int, cells: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """The pixels along an axis that lie in the crop, and the share of each cell in each."""
        crop = self.preprocessing.crop
        centers = (np.arange(extent) + 0.5) * self.scale[axis] - self.crop_origin[axis]
        pixels = np.flatnonzero((centers >= 0) & (centers < crop))
        at = (centers[pixels] + self.preprocessing.offset) * cells / crop - 0.5
        ramps = [np.interp(at, np.arange(cells), cell) for cell in np.eye(cells)]
        return pixels, np.stack(ramps, axis=-1).astype(np.float32)
