"""What a service takes and returns: images, findings, and where a sentence fits an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from torch import Tensor

from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import KeptCalibration
from cxrtext.images import Geometry, render_overlay
from cxrtext.images.placement import Placement
from cxrtext.models.familiar import Unlike
from cxrtext.text.sides import Side

Image = NDArray[np.float32]
Grid = NDArray[np.float32]
Square = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class EmbeddedImage:
    """An image as the model sees it."""

    regions: Tensor  # [N, D], unit vectors
    height: int  # of the original, in pixels
    width: int
    # how the picture lies over the pixels of its file; None if they are the same, or if unknown
    placement: Placement | None = None
    unlike: Unlike | None = None  # how unlike the training images it is; None if unknown
    metadata: Mapping[str, str] = field(default_factory=dict)  # such as its view and its device

    @property
    def is_unlike(self) -> bool:
        """Whether it is known to be unlike the training images, so that answers mean little."""
        return self.unlike is not None and self.unlike.flagged


@dataclass(frozen=True, slots=True)
class FindingScore:
    finding: str
    probability: float  # logistic of the score difference, or its calibrated form
    score: float  # ``γ² (s_pos − s_neg)``, or a head's logit; above 0 means present
    calibrated: bool = False  # whether the checkpoint's calibration gave the probability
    flagged: bool | None = None  # whether the score is above the group's threshold
    group: str | None = None  # the group of that threshold: "column=value", or "pooled"
    by_head: bool = False  # whether a head, not the prompts, gave the score


def calibrated(
    findings: Sequence[FindingScore],
    calibration: KeptCalibration | None,
    prompts: Mapping[str, Prompts],
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> list[FindingScore]:
    """Findings with calibrated probabilities if their prompts were calibrated.

    Scores do not change.  An image's ``metadata`` decide its group.
    """
    findings_now = []
    for one in findings:
        asked = prompts[one.finding]
        known = (
            calibration.measured_of(one.finding, asked, by_head=one.by_head)
            if calibration
            else None
        )
        if known is not None:
            probability = float(known.calibration.probabilities(one.score))
            group, point = known.point_of(metadata)
            one = replace(one, probability=probability, calibrated=True)
            if point is not None:
                one = replace(one, flagged=one.score > point.threshold, group=group)
        findings_now.append(one)
    return findings_now


@dataclass(frozen=True, slots=True)
class GroundedBox:
    """A group of neighboring regions above the threshold."""

    bbox: tuple[float, float, float, float]  # x, y, w, h in original pixels
    score: float  # highest region score in it


@dataclass(frozen=True, slots=True)
class Grounding:
    """Where an image supports a sentence."""

    score: float  # score of the whole image, in [−1, 1]
    grid: Grid  # [h, w], region scores in [−1, 1]
    geometry: Geometry  # where the grid lies in the original
    peak: tuple[float, float]  # x and y of the center of the best region, in original pixels
    threshold: float  # the lowest score of a region that counts for the boxes
    boxes: list[GroundedBox]  # groups of regions above it, best first
    # scores where color begins and is full for this sentence, the same for every image
    scale: tuple[float, float] | None = None
    read_as: str | None = None  # the sentence as it was embedded; None if unchanged
    # the side that the head of the side finds in the image, if the sentence names a side
    side: Side = ""
    # per cent of the reference images that fit the sentence less; None without any
    support: float | None = None

    @property
    def limits(self) -> tuple[float, float]:
        """The scores where color begins and is full; without a scale, the mean and the maximum.

        Those limits of the image's own color every image, even one that shows nothing.
        """
        return self.scale or (float(self.grid.mean()), float(self.grid.max()))

    @property
    def stands_out(self) -> bool | None:
        """Whether any region stands out; None without a scale."""
        return None if self.scale is None else bool(self.grid.max() > self.scale[0])

    def map_over(self, size: tuple[int, int] | None = None) -> Grid:
        """The map [H, W] over the original, or over a copy of another size (height, width).

        NaN outside the crop that the model saw.
        """
        height, width = size or (self.geometry.height, self.geometry.width)
        return replace(self.geometry, height=height, width=width).map_to_original(self.grid)

    def drawn_on(self, pixels: Square) -> Pictures.Image:
        """The map, the boxes and the peak over the image in 8 bits, [H, W], or a smaller copy."""
        height, width = pixels.shape
        scale = np.array([width / self.geometry.width, height / self.geometry.height] * 2)
        x, y = (scale[:2] * self.peak).tolist()
        return render_overlay(
            np.divide(pixels[np.newaxis], np.float32(255), dtype=np.float32),
            self.map_over((height, width)),
            limits=self.limits,
            boxes=[(scale * box.bbox).tolist() for box in self.boxes],
            peak=(x, y),
        )


def ground_grid(
    grid: Grid,
    score: float,
    geometry: Geometry,
    threshold: float | None = None,
    scale: tuple[float, float] | None = None,
) -> Grounding:
    """Describe a grid [h, w] of region scores; see :class:`Grounding`.

    The default threshold is where color begins on the sentence's scale, so that there is no box if
    nothing stands out; without a scale, it is halfway between the grid's mean and maximum.
    """
    from scipy import ndimage

    middle = float((grid.mean() + grid.max()) / 2) if scale is None else scale[0]
    cut = middle if threshold is None else threshold
    shape = grid.shape[0], grid.shape[1]
    row, column = divmod(int(grid.argmax()), shape[1])
    peak = geometry.center_of_cell(row, column, shape)
    groups, _ = ndimage.label(grid >= cut)  # of cells that share an edge
    boxes = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(groups), 1):
        cells = columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start
        x, y, w, h = geometry.boxes_of_cells(cells, shape).tolist()
        boxes.append(GroundedBox((x, y, w, h), float(grid[groups == number].max())))
    boxes.sort(key=lambda box: -box.score)
    return Grounding(score, grid, geometry, peak, cut, boxes, scale)
