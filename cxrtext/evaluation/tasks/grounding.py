"""Grounding of a cohort: a map for every sentence with boxes, and how well it agrees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.grounding import (
    COMMON_THRESHOLDS,
    PAPER_THRESHOLDS,
    contrast_to_noise,
    overlap_by_threshold,
    pointing_game,
)
from cxrtext.evaluation.heat_map import heat_map
from cxrtext.evaluation.settings import Settings
from cxrtext.evaluation.tasks.phrases import Phrase
from cxrtext.evaluation.tasks.resampling import Resampled, draw, intervals_of
from cxrtext.evaluation.weighted import weighted_mean
from cxrtext.images import Geometry
from cxrtext.models import ImageTextModel

Floats = NDArray[np.float64]

LONGEST_SIDE = 640
"""Larger images are measured on maps of this longest side, their boxes scaled alike: more than 40
pixels a region, which changed the mean CNR and mIoU of 2048 x 2500 images by 0.2 % and took a tenth
of the time."""

CNR, SIGNED, MIOU, COMMON, POINTING = (
    "CNR",
    "signed CNR",
    "mIoU",
    "mIoU 0.1-0.5",
    "pointing game",
)
MEASURES = (CNR, SIGNED, MIOU, COMMON, POINTING)


@dataclass(frozen=True, slots=True)
class Grounded:
    """Grounding of a cohort.

    Args:
        summary: "mean" (each sentence weighs the same), "mean of findings" and "by finding":
            measures, counts and intervals.
        phrases: [n].
        values: By measure, [n]; NaN where it is not defined.
        resampled: "CNR", "mIoU" and "pointing game", means over sentences.
    """

    summary: dict[str, Any]
    phrases: list[Phrase]
    values: dict[str, Floats]
    resampled: dict[str, Resampled] = field(default_factory=dict)


@torch.inference_mode()
def phrase_grid(cohort: Cohort, phrase: Phrase, vector: Tensor) -> NDArray[np.float32]:
    """Region scores of a sentence in its image, [h, w], in [−1, 1]."""
    grid: NDArray[np.float32] = (cohort.grid(phrase.row) @ vector).numpy()  # [h, w, D] @ [D]
    return grid


def _measuring(geometry: Geometry, boxes: Floats) -> tuple[Geometry, Floats]:
    """The geometry and the boxes of a copy of bounded size."""
    longest = max(geometry.height, geometry.width)
    if longest <= LONGEST_SIDE:
        return geometry, boxes
    height, width = (
        max(1, round(side * LONGEST_SIDE / longest)) for side in (geometry.height, geometry.width)
    )
    across, down = width / geometry.width, height / geometry.height
    return Geometry(height, width, geometry.preprocessing), boxes * [across, down, across, down]


def _measure(grid: NDArray[np.float32], phrase: Phrase, geometry: Geometry, sigma: float) -> Floats:
    """The five measures of one sentence, [5]; NaN where the boxes vanish in a smaller copy."""
    place, boxes = _measuring(geometry, np.asarray(phrase.boxes, dtype=np.float64))
    heat = heat_map(grid, place, sigma)
    try:
        signed = contrast_to_noise(heat, boxes, signed=True)
    except ValueError:
        return np.full(len(MEASURES), np.nan)
    overlap = overlap_by_threshold(heat, boxes)
    common = overlap[[PAPER_THRESHOLDS.index(cut) for cut in COMMON_THRESHOLDS]]
    numbers = [abs(signed), signed, overlap.mean(), common.mean(), pointing_game(heat, boxes)]
    values = np.array(numbers, dtype=np.float64)
    values[np.isinf(values)] = np.nan  # one value inside and another outside: no noise to compare
    return values


def measure_grounding(
    model: ImageTextModel,
    cohort: Cohort,
    phrases: Sequence[Phrase],
    settings: Settings,
    progress: Callable[[int, int], None] | None = None,
) -> Grounded:
    """Measure every sentence that has boxes.

    Args:
        model: The model.
        cohort: The images.
        phrases: Sentences with their boxes; at least one.
        settings: How.
        progress: Called with (done, total) sentences.
    """
    texts = list(dict.fromkeys(phrase.text for phrase in phrases))
    vectors = model.embed_sentences(texts).cpu()
    place = {text: row for row, text in enumerate(texts)}
    rows = []
    for number, phrase in enumerate(phrases, 1):
        grid = phrase_grid(cohort, phrase, vectors[place[phrase.text]])
        rows.append(_measure(grid, phrase, cohort.geometry(phrase.row), settings.sigma))
        if progress:
            progress(number, len(phrases))
    values = dict(zip(MEASURES, np.stack(rows, axis=1), strict=True))
    return summarise(list(phrases), values, cohort.patients, settings)


def summarise(
    phrases: list[Phrase], values: dict[str, Floats], patients: Sequence[str], settings: Settings
) -> Grounded:
    """Means and intervals, of all sentences and by finding."""
    own = [patients[phrase.row] for phrase in phrases]
    everyone = np.arange(len(phrases))
    counts = draw(own, settings.resamples, (settings.seed, 1))
    keys = tuple((phrase.row, phrase.text) for phrase in phrases)
    mean, resampled = _block(phrases, values, everyone, counts)
    names: dict[str, list[int]] = {}
    for number, phrase in enumerate(phrases):
        names.setdefault(phrase.finding or "no finding", []).append(number)
    findings = {}
    for name in sorted(names):
        at = np.array(names[name])
        some = draw([own[number] for number in at], settings.resamples, (settings.seed, 2))
        findings[name], _ = _block(phrases, values, at, some)
    each = {
        measure: [one[measure] for one in findings.values() if one[measure] is not None]
        for measure in MEASURES
    }
    macro = {name: float(np.mean(some)) if some else None for name, some in each.items()}
    return Grounded(
        {"mean": mean, "mean of findings": macro, "by finding": findings},
        phrases,
        values,
        {
            name: Resampled(mean[name], resampled[name], keys)
            for name in (CNR, MIOU, POINTING)
            if name in resampled
        },
    )


def _block(
    phrases: Sequence[Phrase], values: dict[str, Floats], at: NDArray[np.intp], counts: Any
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Means of some sentences with intervals, and the means on every resample."""
    block: dict[str, Any] = {}
    resampled: dict[str, Floats] = {}
    for name in MEASURES:
        some = values[name][at]
        known = ~np.isnan(some)
        block[name] = float(some[known].mean()) if known.any() else None
        if known.any():
            resampled[name] = weighted_mean(some[known], counts[:, known])
    return {
        **block,
        "sentences": len(at),
        "images": len({phrases[number].row for number in at}),
        "boxes": sum(len(phrases[number].boxes) for number in at),
        "undefined": int(np.isnan(values[CNR][at]).sum()),
        "intervals": intervals_of(resampled),
    }, resampled
