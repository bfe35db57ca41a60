"""Boxes and masks placed on a cohort's images, and the features of boxes (RoIAlign).

Boxes are COCO's, (x, y, width, height).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from cxrtext.evaluation.cohort import Cohort
from cxrtext.images import Geometry
from cxrtext.images.dicom.orientation import placement_of
from cxrtext.images.placement import Placement
from cxrtext.metrics.maps import Mask, box_slices
from cxrtext.records import Box
from cxrtext.records.masks import Runs, mask_of_runs

BoxRow = tuple[float, float, float, float]
BOXES_AT_ONCE = 64
"""Boxes pooled at the same time; bounds memory."""
ASPECT = 0.02
"""Boxes are left out if their image's sides are scaled more unevenly than this share."""
NO_SENTENCE = "boxes without a sentence"
NOT_ONE_SIZE = "boxes that count in another image's size"
NO_PIXEL = "boxes that cover no pixel of their image"


def region_boxes(boxes: ArrayLike, geometry: Geometry, grid: tuple[int, int]) -> Tensor:
    """Map COCO boxes [n, 4] in original pixels into cells of a grid (h, w), float64, clipped.

    A box wholly outside the crop has no area; the caller leaves it out and counts it.
    """
    return torch.from_numpy(geometry.boxes_to_cells(boxes, grid))


def region_of_interest_align(features: Tensor, boxes: Tensor, bins: int) -> Tensor:
    """Pool each region grid over one box: RoIAlign.

    Each box is divided into ``bins`` x ``bins`` parts.  A part's value is the mean of bilinear
    samples at regular points in it, along each side as many as the part has cells, rounded up.
    Bilinear sampling and the mean act on rows and columns separately, so the whole is two matrix
    products for each box.

    Args:
        features: [R, D, h, w], values at the centers of the cells.
        boxes: [R, 4], COCO boxes (x, y, width, height) in cells (:func:`region_boxes`), with width
            and height above 0.
        bins: Parts down and across.

    Returns:
        [R, D, bins, bins], in the type of the features.

    Source: He et al. 2017, section 3; cell centers at +0.5, as in Detectron2.
    """
    x, y, width, height = boxes.to(torch.float64).unbind(dim=1)
    down = _weights(y, height, bins, features.shape[2]).to(features)
    across = _weights(x, width, bins, features.shape[3]).to(features)
    # [r, p, h], [r, D, h, w], [r, q, w] -> [r, D, p, q]
    rows = torch.einsum("rph,rdhw->rdpw", down, features)
    return torch.einsum("rdpw,rqw->rdpq", rows, across)


def _weights(start: Tensor, extent: Tensor, bins: int, cells: int) -> Tensor:
    """How much each cell of an axis adds to each bin, [R], [R] -> [R, bins, cells]."""
    start = start - 0.5
    wide = extent / bins
    samples = wide.ceil().clamp(min=1.0)
    steps = torch.arange(int(samples.max()), device=wide.device)
    share = (steps + 0.5) / samples[:, None]  # [R, s]
    bin_starts = start[:, None] + wide[:, None] * torch.arange(bins, device=wide.device)
    at = bin_starts[:, :, None] + (share * wide[:, None])[:, None, :]  # [R, bins, s]
    # Boxes have different numbers of samples; samples beyond a box's own number, and those more
    # than one cell outside the grid, weigh nothing.
    counts = (steps < samples[:, None])[:, None, :] & (at >= -1) & (at <= cells)
    at = at.clamp(0, cells - 1)
    before = at.floor().clamp(max=max(cells - 2, 0))
    after = (before + 1).clamp(max=cells - 1)
    part = at - before
    each = counts / samples[:, None, None]
    weights = torch.zeros(*wide.shape, bins, cells, dtype=wide.dtype, device=wide.device)
    weights.scatter_add_(2, before.long(), each * (1 - part))
    weights.scatter_add_(2, after.long(), each * part)
    return weights


@dataclass(frozen=True, slots=True)
class DrawnMask:
    """A mask as in its file: runs over height x width of stored pixels, or of a copy."""

    runs: Runs
    height: int
    width: int
    placement: Placement | None

    def shown(self, height: int, width: int) -> Mask:
        """The mask for the picture shown, resized to [height, width] by nearest pixels."""
        mask, placement = mask_of_runs(self.runs, self.height, self.width), self.placement
        if placement is not None:
            across, down = (
                self.width * placement.stored_height,
                self.height * placement.stored_width,
            )
            if abs(across / down - 1) <= ASPECT:
                mask = placement.turned(mask)
        rows, columns = (
            ((np.arange(size) + 0.5) * own / size).astype(np.intp)
            for size, own in zip((height, width), mask.shape, strict=True)
        )
        return mask[np.ix_(rows, columns)]


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box in original pixels, with mask and sentence, of the image at a row of the cohort."""

    row: int
    finding: str
    text: str
    bbox: BoxRow
    mask: DrawnMask | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence with all its boxes and masks in one image, and its first finding."""

    row: int
    finding: str
    text: str
    boxes: tuple[BoxRow, ...]
    masks: tuple[DrawnMask, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """The usable boxes by image, and how many of the cohort's boxes are not usable, by reason."""

    boxes: list[PlacedBox]
    left_out: Counter[str]

    @property
    def phrases(self) -> list[Phrase]:
        gathered: dict[tuple[int, str], list[PlacedBox]] = defaultdict(list)
        for box in self.boxes:
            gathered[box.row, box.text].append(box)
        return [
            Phrase(
                row,
                some[0].finding,
                text,
                tuple(box.bbox for box in some),
                tuple(box.mask for box in some if box.mask is not None),
            )
            for (row, text), some in gathered.items()
        ]


def place_boxes(boxes: Iterable[Box], cohort: Cohort) -> Placed:
    """Place boxes on the images of a cohort.

    An image is found by its name, or else by the stem of its file if only one has it (MS-CXR says
    ``.jpg``, an archive ``.dcm``).  Boxes drawn on a resized copy are scaled to the image.  Boxes
    are in the pixels that a file stores; if the picture shown was turned, mirrored or made square,
    the boxes are too.
    """
    find = image_finder([record.name for record in cohort.records])
    placement = lru_cache(maxsize=1024)(lambda row: placement_in(cohort, row))
    placed: list[PlacedBox] = []
    left_out: Counter[str] = Counter()
    for box in boxes:
        row = find(box.image)
        if row is None:
            continue
        bbox = _shown(box, cohort.sizes[row], placement(row))
        if not box.label_text.strip():
            left_out[NO_SENTENCE] += 1
        elif bbox is None:
            left_out[NOT_ONE_SIZE] += 1
        elif not _covers(bbox, cohort.sizes[row]):
            left_out[NO_PIXEL] += 1
        else:
            runs, text = box.segmentation, box.label_text.strip()
            mask = runs and DrawnMask(runs, box.height, box.width, placement(row))
            placed.append(PlacedBox(row, box.finding, text, bbox, mask or None))
    return Placed(sorted(placed, key=lambda box: box.row), left_out)


def image_finder(names: Sequence[str]) -> Callable[[str], int | None]:
    rows = {name: row for row, name in enumerate(names)}
    stems = [PurePosixPath(name).stem for name in names]
    counts = Counter(stems)
    alone = {stem: row for row, stem in enumerate(stems) if counts[stem] == 1}
    return lambda name: rows.get(name, alone.get(PurePosixPath(name).stem))


def placement_in(cohort: Cohort, row: int) -> Placement | None:
    """How the picture shown lies over the pixels of its file; None if it is the same."""
    try:
        placement = placement_of(cohort.records[row].path)
    except OSError:  # removed since it was embedded
        return None
    if placement is None or placement.plain:
        return None
    return placement if (placement.height, placement.width) == cohort.sizes[row] else None


def _shown(box: Box, size: tuple[int, int], placement: Placement | None) -> BoxRow | None:
    """Map a box to the picture shown, of size (height, width)."""
    if placement is None:
        return _scaled(box, size)
    stored = _scaled(box, (placement.stored_height, placement.stored_width))
    if stored is None:  # drawn on a copy of the picture shown
        return _scaled(box, size)
    x, y, w, h = placement.boxes_to_shown(stored).tolist()
    return x, y, w, h


def _scaled(box: Box, size: tuple[int, int]) -> BoxRow | None:
    height, width = size
    if not (box.width and box.height) or (box.width, box.height) == (width, height):
        return box.bbox
    across, down = width / box.width, height / box.height
    if abs(across / down - 1) > ASPECT:
        return None
    x, y, w, h = box.bbox
    return x * across, y * down, w * across, h * down


def _covers(bbox: BoxRow, size: tuple[int, int]) -> bool:
    values = np.array(bbox)
    if not np.isfinite(values).all() or (values[2:] <= 0).any():
        return False
    rows, columns = box_slices(values, size)
    return bool(rows.start < rows.stop and columns.start < columns.stop)
