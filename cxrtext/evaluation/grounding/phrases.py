"""Grounding: how well a map of scores agrees with the boxes a radiologist drew.

A map is [H, W] in original pixels, NaN where the model saw nothing.  Boxes are COCO's
(x, y, width, height) [n, 4] in original pixels; several boxes of one sentence count as their
union.  A map or box of another form, and a box that covers no pixel, is a ValueError.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.grounding.boxes import Map, Phrase, map_and_mask
from cxrtext.evaluation.intervals.bootstrap import draw, interval_of
from cxrtext.evaluation.intervals.estimates import Estimate
from cxrtext.evaluation.intervals.methods import RESAMPLED, SHARE
from cxrtext.evaluation.intervals.proportions import cluster_codes, proportion
from cxrtext.evaluation.metrics import Floats, weighted_mean
from cxrtext.evaluation.predictions.columns import (
    Images,
    as_table,
    floats,
    images_of,
    lists,
    matrix,
    texts,
    words,
)
from cxrtext.evaluation.rows import (
    ELSEWHERE,
    GAIN,
    GROUNDING,
    MEAN_OF_FINDINGS,
    MEAN_OF_SENTENCES,
    NO_FINDING,
    Rows,
    estimate,
)
from cxrtext.evaluation.settings import Settings
from cxrtext.images import Geometry
from cxrtext.models import ImageTextModel

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_SIDE = 640
"""Larger images are measured on maps of this longest side, their boxes scaled alike: more than 40
pixels a region, which changed the mean CNR and mIoU of 2048 x 2500 images by 0.2 % and took a tenth
of the time."""

MEASURES = SIGNED, CNR, MIOU, COMMON, POINTING = (
    "signed CNR", "CNR", "mIoU", "mIoU 0.1-0.5", "pointing game",
)  # fmt: skip

COLUMNS = ("cnr_signed", "cnr", "miou", "miou_common", "pointing")
"""What :data:`MEASURES` are called in a table, and in images of other patients with this after."""
OF_OTHERS = "_elsewhere"
OTHERS = 4
"""Images of other patients that each sentence is also measured in: of sentences whose words alone
say where to look, that is what they get whatever the image shows."""

PAPER_THRESHOLDS: tuple[float, ...] = tuple(k / 20 for k in range(-20, 21))
"""−1, −0.95, …, 1, as the paper has them."""
COMMON_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Those of other evaluations on MS-CXR."""


def contrast_to_noise(heat: ArrayLike, boxes: ArrayLike, *, signed: bool = False) -> float:
    """Contrast-to-noise ratio of a map: |μ_in − μ_out| / √(σ²_in + σ²_out).

    >>> contrast_to_noise(np.array([[3.0, 1.0], [0.0, 0.0]]), [0, 0, 2, 1])
    2.0

    "in" is the union of the boxes, "out" the rest of the image; pixels that are NaN are left out.
    ``signed`` keeps the sign of μ_in − μ_out, so that a map that avoids the boxes is below 0.

    Returns:
        The ratio; NaN where nothing inside or nothing outside is defined (say, a box beyond the
        crop) or the map is constant; infinite where it has one value inside and another outside.

    Source: Boecking et al. 2022 (BioViL, MS-CXR), not signed.
    """
    values, mask = map_and_mask(heat, boxes)
    defined = ~np.isnan(values)
    inside, outside = values[mask & defined], values[~mask & defined]
    if not inside.size or not outside.size:
        return math.nan
    (mean_in, variance_in), (mean_out, variance_out) = _moments(inside), _moments(outside)
    contrast = mean_in - mean_out if signed else abs(mean_in - mean_out)
    noise = math.sqrt(variance_in + variance_out)
    if noise == 0:
        return math.copysign(math.inf, contrast) if contrast else math.nan
    return contrast / noise


def _moments(values: Map) -> tuple[float, float]:
    """Mean and variance, which is exactly 0 of equal values."""
    first = float(values[0])
    rest = values.astype(np.float64) - first
    return first + float(rest.mean()), float(rest.var())


def overlap_by_threshold(heat: ArrayLike, boxes: ArrayLike) -> Floats:
    """Intersection over union of {map ≥ threshold} and the union of the boxes, [41].

    At each of :data:`PAPER_THRESHOLDS`.  Pixels of a box where the map is NaN count as missed,
    since the finding is there.

    Source: Jaccard 1912; Boecking et al. 2022.
    """
    values, mask = map_and_mask(heat, boxes)
    inside = at_or_above(values[mask])
    overlap: Floats = inside / (mask.sum() + at_or_above(values.ravel()) - inside)
    return overlap


def at_or_above(values: Map) -> NDArray[np.int64]:
    """How many values reach each of :data:`PAPER_THRESHOLDS`, [41], by one histogram."""
    cuts = np.asarray(PAPER_THRESHOLDS)
    reached = np.searchsorted(cuts, values.astype(np.float64), side="right")
    counts = np.bincount(reached, minlength=len(cuts) + 1)
    counts[-1] -= np.isnan(values).sum()  # NaN is sorted behind every number
    return counts[::-1].cumsum()[::-1][1:]


def pointing_game(heat: ArrayLike, boxes: ArrayLike) -> float:
    """Whether the peak of a map lies in a box: 1 or 0.

    Where several pixels are equally high it is the share of them that lies in a box, so that a
    constant map gets what chance would.  NaN is never the peak; NaN where the map is nowhere
    defined.

    Source: Zhang et al. 2018 (excitation backprop).
    """
    values, mask = map_and_mask(heat, boxes)
    if np.isnan(values).all():
        return math.nan
    return float(mask[values == np.nanmax(values)].mean())


def smooth_grid(grid: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Smooth a grid [h, w] with a Gaussian of σ cells cut off at 4 σ, mirrored at its edges.

    Source: The heat maps of BioViL (Boecking et al. 2022) have σ = 1.5.
    """
    from scipy.ndimage import gaussian_filter

    values = np.asarray(grid, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"a grid is [h, w], not {list(values.shape)}")
    if not sigma >= 0:
        raise ValueError(f"sigma must be 0 or more, not {sigma}")
    smooth: NDArray[np.float64] = gaussian_filter(values, sigma)
    return smooth


def heat_map(grid: ArrayLike, geometry: Geometry, sigma: float = 0.0) -> NDArray[np.float32]:
    """Enlarge a grid of region scores onto the crop's place in the original image.

    Bilinear between the centers of regions, as ``align_corners=False``: [h, w], which covers the
    crop evenly, -> [H, W] in original pixels, NaN outside the crop.  For ``sigma`` see
    :func:`smooth_grid`; the paper has 0.
    """
    return geometry.map_to_original(smooth_grid(grid, sigma))


@dataclass(frozen=True, slots=True)
class PhraseValues:
    """Part "grounding": the measures of n sentences, each with its boxes in one image.

    ``phrases`` name their images by place in ``images``.  ``values`` [n, 5] are :data:`MEASURES`,
    NaN where one is not defined; ``elsewhere`` [n, 5] their means where the same boxes are laid
    over the sentence's maps of :data:`OTHERS` other patients; ``overlap`` [n, 41] is the overlap at
    :data:`PAPER_THRESHOLDS`; ``peaks`` [n, 2] are x and y of the highest pixel, in original pixels.
    """

    images: Images
    phrases: list[Phrase]
    values: Floats
    elsewhere: Floats
    overlap: Floats
    peaks: Floats

    def to_table(self) -> "pa.Table":
        """A row a sentence; ``boxes`` are COCO's, ``iou`` has a number a threshold."""
        import pyarrow as pa

        places = np.array([phrase.row for phrase in self.phrases], dtype=np.intp)
        columns = {
            **self.images.to_columns(places),
            "finding": words([phrase.finding for phrase in self.phrases]),
            "sentence": words([phrase.text for phrase in self.phrases]),
            "boxes": pa.array(
                [list(map(list, phrase.boxes)) for phrase in self.phrases],
                pa.list_(pa.list_(pa.float64())),
            ),
        }
        columns |= dict(zip(COLUMNS, self.values.T, strict=True))
        columns |= dict(zip([name + OF_OTHERS for name in COLUMNS], self.elsewhere.T, strict=True))
        return as_table(
            {
                **columns,
                "iou": lists(self.overlap),
                "peak_x": self.peaks[:, 0],
                "peak_y": self.peaks[:, 1],
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        images, places = Images.from_columns(table)
        findings, sentences = texts(table, "finding"), texts(table, "sentence")
        boxes = table["boxes"].to_pylist()
        phrases = [
            Phrase(int(place), finding, text, tuple((x, y, w, h) for x, y, w, h in some))
            for place, finding, text, some in zip(places, findings, sentences, boxes, strict=True)
        ]
        values, elsewhere = (
            np.stack([floats(table, name + end) for name in COLUMNS], axis=1)
            for end in ("", OF_OTHERS)
        )
        peaks = np.stack([floats(table, name) for name in ("peak_x", "peak_y")], axis=1)
        return cls(images, phrases, values, elsewhere, matrix(table, "iou"), peaks)


@torch.inference_mode()
def phrase_grid(cohort: Cohort, row: int, vector: Tensor) -> NDArray[np.float32]:
    """Region scores of a sentence in the image at a row, [h, w], in [−1, 1]."""
    grid: NDArray[np.float32] = (cohort.grid(row) @ vector).numpy()  # [h, w, D] @ [D]
    return grid


def measuring(geometry: Geometry, boxes: Floats) -> tuple[Geometry, Floats]:
    longest = max(geometry.height, geometry.width)
    if longest <= LONGEST_SIDE:
        return geometry, boxes
    height, width = (
        max(1, round(side * LONGEST_SIDE / longest)) for side in (geometry.height, geometry.width)
    )
    across, down = width / geometry.width, height / geometry.height
    return Geometry(height, width, geometry.preprocessing), boxes * [across, down, across, down]


def _measure(
    grid: NDArray[np.float32], phrase: Phrase, geometry: Geometry, sigma: float
) -> tuple[Floats, Floats, Floats]:
    """Measures, overlaps and peak (x, y) of a sentence; NaN where its boxes vanish in the copy."""
    place, boxes = measuring(geometry, np.asarray(phrase.boxes, dtype=np.float64))
    heat = heat_map(grid, place, sigma)
    row, column = np.unravel_index(int(np.nanargmax(heat)), heat.shape)
    scale = np.array([geometry.width / place.width, geometry.height / place.height])
    peak = (np.array([column, row]) + 0.5) * scale
    try:
        signed = contrast_to_noise(heat, boxes, signed=True)
    except ValueError:
        return np.full(len(MEASURES), np.nan), np.full(len(PAPER_THRESHOLDS), np.nan), peak
    overlap = overlap_by_threshold(heat, boxes)
    common = overlap[[PAPER_THRESHOLDS.index(cut) for cut in COMMON_THRESHOLDS]]
    numbers = [signed, abs(signed), overlap.mean(), common.mean(), pointing_game(heat, boxes)]
    values = np.array(numbers, dtype=np.float64)
    values[np.isinf(values)] = np.nan  # one value inside and another outside: no noise to compare
    return values, overlap, peak


def ground_phrases(
    model: ImageTextModel, cohort: Cohort, phrases: Sequence[Phrase], settings: Settings
) -> PhraseValues:
    distinct = list(dict.fromkeys(phrase.text for phrase in phrases))
    vectors = dict(zip(distinct, model.embed_sentences(distinct).cpu(), strict=True))

    def measured(phrase: Phrase, row: int) -> tuple[Floats, Floats, Floats]:
        grid = phrase_grid(cohort, row, vectors[phrase.text])
        return _measure(grid, phrase, cohort.geometry(phrase.row), settings.sigma)

    rows = np.array(sorted({phrase.row for phrase in phrases}))
    patients = np.array([cohort.records[row].patient_id for row in rows])
    generator = np.random.default_rng(0)
    parts, elsewhere = [], np.full((len(phrases), len(MEASURES)), np.nan)
    for number, phrase in enumerate(phrases):
        parts.append(measured(phrase, phrase.row))
        others = rows[patients != cohort.records[phrase.row].patient_id]
        drawn = generator.permutation(others)[:OTHERS].tolist()
        if drawn:
            elsewhere[number] = np.mean([measured(phrase, row)[0] for row in drawn], axis=0)
    values, overlap, peaks = map(np.stack, zip(*parts, strict=True))
    return PhraseValues(images_of(cohort.records), list(phrases), values, elsewhere, overlap, peaks)


def measure_grounding(given: PhraseValues, settings: Settings) -> Rows:
    """Means and intervals, of all sentences (each weighs the same), of findings and by finding."""
    rows = Rows()
    phrases = given.phrases
    own = [given.images.patients[phrase.row] for phrase in phrases]
    findings = np.array([phrase.finding or NO_FINDING for phrase in phrases])
    names = sorted(set(findings.tolist()))
    for name in names:
        at = np.flatnonzero(findings == name)
        theirs = [own[number] for number in at]
        _add(rows, name, given, at, draw(theirs, settings.resamples, (settings.seed, 2)), theirs)
    for measure in MEASURES:
        each = [rows.value(GROUNDING, name, measure) for name in names]
        known = [value for value in each if value is not None]
        rows.add(GROUNDING, MEAN_OF_FINDINGS, measure, float(np.mean(known)) if known else None)
    counts = draw(own, settings.resamples, (settings.seed, 1))
    resampled = _add(rows, MEAN_OF_SENTENCES, given, np.arange(len(phrases)), counts, own)
    # By boxes, since sentences may be numbered in place of written out.
    keys = tuple((given.images.names[phrase.row], phrase.boxes) for phrase in phrases)
    for name in (CNR, MIOU, POINTING):
        if name in resampled:
            place = GROUNDING, MEAN_OF_SENTENCES, name
            rows.compare_by(name, place, resampled[name], keys, len(set(own)))
    return rows


def _add(
    rows: Rows,
    group: str,
    given: PhraseValues,
    at: NDArray[np.intp],
    counts: NDArray[np.uint16],
    patients: Sequence[str],
) -> dict[str, Floats]:
    """Means of some sentences, of so many patients; returns them on every resample."""
    resampled: dict[str, Floats] = {}
    codes = cluster_codes(patients)
    figures = zip(MEASURES, given.values[at].T, given.elsewhere[at].T, strict=True)
    for name, values, others in figures:
        known = ~np.isnan(values)
        found = Estimate()
        if known.any():
            own = codes[known]
            resampled[name] = weighted_mean(values[known], counts[:, known])
            ends = interval_of(resampled[name], len(np.unique(own)))
            if name == POINTING:
                ends = proportion(values[known], own).interval()
            found = estimate(float(values[known].mean()), ends)
        method = SHARE if name == POINTING else RESAMPLED
        rows.add(GROUNDING, group, name, found, int(known.sum()), method)
        both = known & ~np.isnan(others)
        mean = float(others[both].mean()) if both.any() else None
        rows.add(GROUNDING, group, name + ELSEWHERE, mean, int(both.sum()))
        gain = Estimate()
        if both.any():
            ahead = values[both] - others[both]
            ends = interval_of(weighted_mean(ahead, counts[:, both]), len(set(codes[both])))
            gain = estimate(float(ahead.mean()), ends)
        rows.add(GROUNDING, group, name + GAIN, gain, int(both.sum()), RESAMPLED)
    some = [given.phrases[number] for number in at]
    rows.add(GROUNDING, group, "sentences", len(some))
    rows.add(GROUNDING, group, "boxes", sum(len(phrase.boxes) for phrase in some))
    rows.add(GROUNDING, group, "images", len({phrase.row for phrase in some}))
    rows.add(GROUNDING, group, "undefined", int(np.isnan(given.values[at, 0]).sum()))
    return resampled
