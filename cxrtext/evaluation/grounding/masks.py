"""Masks: how well a map of scores agrees with the outlines that a radiologist drew.

A map is [H, W], NaN where the model saw nothing; a mask [H, W] is of the same size.  What does not
fit is a ValueError.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.grounding.boxes import ASPECT, Mask, image_finder, placement_in
from cxrtext.evaluation.grounding.phrases import PAPER_THRESHOLDS, at_or_above, heat_map, measuring
from cxrtext.evaluation.intervals.delong import placements
from cxrtext.evaluation.intervals.estimates import Estimate, means_of
from cxrtext.evaluation.intervals.methods import RESAMPLED
from cxrtext.evaluation.metrics import Floats, Truth
from cxrtext.evaluation.predictions.columns import (
    Images,
    Places,
    as_table,
    flags,
    floats,
    images_of,
    lists,
    matrix,
    texts,
    words,
)
from cxrtext.evaluation.rows import ALL, DICE_CURVE, MASKS, NO_FINDING, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.images.placement import Placement
from cxrtext.models import ImageTextModel
from cxrtext.records import Box
from cxrtext.records.masks import Runs, mask_of_runs

if TYPE_CHECKING:
    import pyarrow as pa

VALIDATION = "validation sentences"
NOT_ONE_SIZE = "masks that are of another image's size"


def dice_by_threshold(heat: ArrayLike, mask: ArrayLike) -> Floats:
    """Dice coefficient of {map ≥ threshold} and a mask at each of ``PAPER_THRESHOLDS``, [41].

    2 |A ∩ B| / (|A| + |B|).  Pixels of the mask where the map is NaN count as missed.  The mask
    covers at least one pixel.

    Source: Dice 1945.
    """
    values, inside = _checked(heat, mask)
    dice: Floats = 2 * at_or_above(values[inside]) / (at_or_above(values.ravel()) + inside.sum())
    return dice


def pixel_auroc(heat: ArrayLike, mask: ArrayLike) -> float:
    """The chance that a pixel inside a mask is higher than one outside; a tie counts one half.

    NaN pixels are left out; NaN where none is left inside, or outside.
    """
    values, inside = _checked(heat, mask)
    defined = ~np.isnan(values)
    truth = inside[defined]
    if not truth.any() or truth.all():
        return float("nan")
    return float(placements(values[defined], truth)[0].mean())


def _checked(heat: ArrayLike, mask: ArrayLike) -> tuple[Floats, Mask]:
    values, inside = np.asarray(heat, dtype=np.float64), np.asarray(mask, dtype=np.bool_)
    if values.ndim != 2 or values.shape != inside.shape or not inside.any():
        raise ValueError(
            f"a map {list(values.shape)} and a mask {list(inside.shape)} must be [H, W], and the "
            "mask cover a pixel"
        )
    return values, inside


@dataclass(frozen=True, slots=True)
class DrawnMask:
    """A mask as its file has it: runs over height x width of stored pixels, or of a copy."""

    runs: Runs
    height: int
    width: int

    def shown(self, height: int, width: int, placement: Placement | None) -> Mask:
        """The mask of the picture shown, at a size of it, [height, width]; the nearest pixels."""
        mask = mask_of_runs(self.runs, self.height, self.width)
        if placement is not None and _alike(
            (self.height, self.width), (placement.stored_height, placement.stored_width)
        ):
            mask = placement.turned(mask)
        rows, columns = (
            ((np.arange(size) + 0.5) * own / size).astype(np.intp)
            for size, own in zip((height, width), mask.shape, strict=True)
        )
        return mask[np.ix_(rows, columns)]

    def fits(self, size: tuple[int, int], placement: Placement | None) -> bool:
        """Whether it is of an image of a size (height, width), or of its stored pixels."""
        own, sizes = (self.height, self.width), [size]
        if placement is not None:
            sizes.append((placement.stored_height, placement.stored_width))
        return any(_alike(own, one) for one in sizes)


def _alike(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return abs(one[0] * other[1] / (one[1] * other[0]) - 1) <= ASPECT


@dataclass(frozen=True, slots=True)
class MaskedPhrase:
    """A sentence with all its masks in the image at a row of the cohort."""

    row: int
    finding: str
    text: str
    masks: tuple[DrawnMask, ...]
    placement: Placement | None


def place_masks(boxes: Iterable[Box], cohort: Cohort) -> tuple[list[MaskedPhrase], int]:
    """Bring masks to images as :func:`~.boxes.place_boxes`; and how many are of other shapes."""
    find = image_finder([record.name for record in cohort.records])
    placement = lru_cache(maxsize=1024)(lambda row: placement_in(cohort, row))
    gathered: dict[tuple[int, str], list[tuple[str, DrawnMask]]] = defaultdict(list)
    apart = 0
    for box in boxes:
        text = box.label_text.strip()
        row = find(box.image) if box.segmentation is not None and text else None
        if row is None or box.segmentation is None:
            continue
        drawn = DrawnMask(box.segmentation, box.height, box.width)
        if drawn.fits(cohort.sizes[row], placement(row)):
            gathered[row, text].append((box.finding, drawn))
        else:
            apart += 1
    found = [
        MaskedPhrase(row, some[0][0], text, tuple(mask for _, mask in some), placement(row))
        for (row, text), some in gathered.items()
    ]
    return sorted(found, key=lambda one: one.row), apart


@dataclass(frozen=True, slots=True)
class MaskValues:
    """Part "masks": the measures of n sentences, each with its masks in one image.

    ``rows`` [n] are places in ``images``; ``measured`` [n] whether a row counts, or is of a
    validation image, which chooses the threshold; ``share`` [n] is that of the picture that the
    mask covers; ``auroc`` [n] and ``dice`` [n, 41], at :data:`~.phrases.PAPER_THRESHOLDS`, are NaN
    where not defined.
    """

    images: Images
    rows: list[int]
    findings: list[str]
    sentences: list[str]
    measured: Truth
    share: Floats
    auroc: Floats
    dice: Floats

    def to_table(self) -> "pa.Table":
        return as_table(
            {
                **self.images.to_columns(np.array(self.rows, dtype=np.intp)),
                "finding": words(self.findings),
                "sentence": words(self.sentences),
                "measured": self.measured,
                "mask_share": self.share,
                "pixel_auroc": self.auroc,
                "dice": lists(self.dice),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        images, places = Images.from_columns(table)
        dice = matrix(table, "dice")
        if dice.shape[1] != len(PAPER_THRESHOLDS):
            raise ValueError(f"column 'dice' wants {len(PAPER_THRESHOLDS)} numbers a row")
        return cls(
            images,
            places.tolist(),
            texts(table, "finding"),
            texts(table, "sentence"),
            flags(table, "measured"),
            floats(table, "mask_share"),
            floats(table, "pixel_auroc"),
            dice,
        )


@torch.inference_mode()
def map_masks(
    model: ImageTextModel,
    cohorts: Sequence[tuple[Cohort, Sequence[MaskedPhrase]]],
    settings: Settings,
) -> MaskValues:
    """Measure sentences with masks: of the images measured, and second of validation images."""
    records = [record for cohort, _ in cohorts for record in cohort.records]
    phrases = [phrase for _, some in cohorts for phrase in some]
    distinct = list(dict.fromkeys(phrase.text for phrase in phrases))
    vectors = dict(zip(distinct, model.embed_sentences(distinct).cpu(), strict=True))
    rows: list[int] = []
    values: list[tuple[float, float, Floats]] = []
    first = 0
    for cohort, some in cohorts:
        for phrase in some:
            grid = (cohort.grid(phrase.row) @ vectors[phrase.text]).numpy()
            place, _ = measuring(cohort.geometry(phrase.row), np.zeros((0, 4)))
            values.append(_measure(heat_map(grid, place, settings.sigma), phrase))
            rows.append(first + phrase.row)
        first += len(cohort.records)
    share, auroc, dice = (np.array(one) for one in zip(*values, strict=True))
    return MaskValues(
        images_of(records),
        rows,
        [phrase.finding for phrase in phrases],
        [phrase.text for phrase in phrases],
        np.arange(len(rows)) < len(cohorts[0][1]),
        share,
        auroc,
        dice,
    )


def _measure(heat: ArrayLike, phrase: MaskedPhrase) -> tuple[float, float, Floats]:
    """The share that the masks cover, AUROC and Dice; NaN where they vanish in a smaller copy."""
    values = np.asarray(heat)
    mask = np.zeros(values.shape, dtype=np.bool_)
    for drawn in phrase.masks:
        mask |= drawn.shown(values.shape[0], values.shape[1], phrase.placement)
    if not mask.any():
        return 0.0, float("nan"), np.full(len(PAPER_THRESHOLDS), np.nan)
    return float(mask.mean()), pixel_auroc(values, mask), dice_by_threshold(values, mask)


def measure_masks(given: MaskValues, settings: Settings) -> Rows:
    """Means of sentences, of all and by finding, and the mean Dice by threshold.

    "Dice" is at the threshold whose mean over validation sentences is the highest; "best Dice" at
    the one that is best for the very rows, which flatters.
    """
    rows = Rows()
    seen = given.dice[~given.measured]
    seen = seen[~np.isnan(seen).any(axis=1)]
    chosen = int(seen.mean(axis=0).argmax()) if len(seen) else None
    own = np.flatnonzero(given.measured)
    findings = np.array(given.findings)
    groups: dict[str, Places] = {ALL: own}
    for name in sorted(set(findings[own].tolist())):
        groups[name or NO_FINDING] = own[findings[own] == name]
    columns = np.full((len(own), 2 * len(groups)), np.nan)
    place = np.searchsorted(own, np.arange(len(findings)))
    for number, at in enumerate(groups.values()):
        columns[place[at], 2 * number] = given.auroc[at]
        if chosen is not None:
            columns[place[at], 2 * number + 1] = given.dice[at, chosen]
    patients = [given.images.patients[given.rows[row]] for row in own.tolist()]
    means = means_of(columns, patients, settings.resamples, (settings.seed, 8))
    found = dict(zip(groups, [means[at : at + 2] for at in range(0, len(means), 2)], strict=True))
    for name in (*[*groups][1:], ALL):
        _add(rows, name, given, groups[name], *found[name])
    rows.add(MASKS, ALL, "threshold", None if chosen is None else PAPER_THRESHOLDS[chosen])
    rows.add(MASKS, ALL, VALIDATION, len(seen))
    known = own[~np.isnan(given.dice[own]).any(axis=1)]
    if len(known):
        for cut, value in zip(PAPER_THRESHOLDS, given.dice[known].mean(axis=0), strict=True):
            rows.add(DICE_CURVE, ALL, f"{cut:.2f}", float(value), len(known))
    return rows


def _add(
    rows: Rows, group: str, given: MaskValues, at: Places, auroc: Estimate, dice: Estimate
) -> None:
    values = given.dice[at]
    known = ~np.isnan(values).any(axis=1)
    best = int(values[known].mean(axis=0).argmax()) if known.any() else None
    rows.add(MASKS, group, "Dice", dice, len(at), RESAMPLED)
    rows.add(MASKS, group, "pixel AUROC", auroc, len(at), RESAMPLED)
    rows.add(MASKS, group, "best Dice", None if best is None else float(values[known, best].mean()))
    rows.add(MASKS, group, "at", None if best is None else PAPER_THRESHOLDS[best])
    rows.add(MASKS, group, "mask's share", float(given.share[at].mean()))
    rows.add(MASKS, group, "sentences", len(at))
    rows.add(MASKS, group, "images", len({given.rows[row] for row in at.tolist()}))
    rows.add(MASKS, group, "undefined", int((~known).sum()))
