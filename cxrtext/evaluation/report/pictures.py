"""Pictures of patients: grounding at its best and its worst."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.evaluation.grounding.boxes import BoxRow, Phrase
from cxrtext.evaluation.grounding.phrases import CNR, MIOU, SIGNED, heat_map, phrase_grid
from cxrtext.evaluation.result import Details
from cxrtext.images import Geometry
from cxrtext.images.overlay import encode_png, render_overlay
from cxrtext.images.reader_pool import ReaderPool
from cxrtext.page import Gallery, Picture, number

LONGEST = 300
"""Longest side of a picture, in pixels."""
Grey = NDArray[np.float32]


def _read(paths: Iterable[Path]) -> dict[Path, Grey]:
    """Read images in another process, and make them small; those that fail are left out."""
    wanted = list(dict.fromkeys(paths))
    found: dict[Path, Grey] = {}
    with ReaderPool(1) as pool:
        for path, read in zip(wanted, pool.map(wanted), strict=True):
            if isinstance(read, ImageError):
                continue
            pixels = read.pixels[0]
            height, width = pixels.shape
            scale = LONGEST / max(height, width)
            size = max(1, round(width * scale)), max(1, round(height * scale))
            small = Image.fromarray((pixels * 255).astype(np.uint8)).resize(
                size, Image.Resampling.BILINEAR, reducing_gap=3.0
            )
            found[path] = np.asarray(small, dtype=np.float32) / np.float32(255)
    return found


def _spread(order: Sequence[int], rows: Sequence[int], most: int) -> list[int]:
    """The first of an order, no image twice."""
    chosen: list[int] = []
    seen: set[int] = set()
    for place in order:
        if rows[place] not in seen:
            seen.add(rows[place])
            chosen.append(place)
        if len(chosen) == most:
            break
    return chosen


def grounding_galleries(details: Details, most: int) -> list[Gallery]:
    """The sentences with the highest and with the lowest signed CNR, no image twice."""
    signed = np.array([values[SIGNED] for _, values in details.grounded])
    known = [int(i) for i in np.argsort(-signed, kind="stable") if not np.isnan(signed[i])]
    rows = [phrase.row for phrase, _ in details.grounded]
    best = _spread(known, rows, most)
    taken = {rows[place] for place in best}
    worst = _spread([i for i in reversed(known) if rows[i] not in taken], rows, most)
    records = details.cohort.records
    pixels = _read(records[rows[i]].path for i in (*best, *worst))
    galleries = []
    for title, places in (("Best grounded", best), ("Worst grounded", worst)):
        drawn = [_grounded(details, place, pixels) for place in places]
        pictures = [one for one in drawn if one is not None]
        if pictures:
            note = "By signed CNR. Left the boxes, right the map over them, shaded from its mean."
            galleries.append(Gallery(title, note, pictures))
    return galleries


def _grounded(details: Details, place: int, pixels: dict[Path, Grey]) -> Picture | None:
    (phrase, values), cohort = details.grounded[place], details.cohort
    image = pixels.get(cohort.records[phrase.row].path)
    if image is None:
        return None
    vector = details.model.embed_sentences([phrase.text])[0].cpu()
    grid = phrase_grid(cohort, phrase.row, vector)
    geometry, boxes = _placed(phrase, cohort.geometry(phrase.row), image.shape)
    heat = heat_map(grid, geometry)
    plain = render_overlay(image, np.full_like(image, np.nan), boxes=boxes)
    limits = float(grid.mean()), max(float(grid.max()), float(grid.mean()) + 1e-6)
    shaded = render_overlay(image, heat, limits=limits, boxes=boxes)
    figures = (
        f"CNR {number(values[CNR], 2)}, signed {number(values[SIGNED], 2)}, mIoU "
        f"{number(values[MIOU], 2)}"
    )
    lines = (phrase.text, phrase.finding if phrase.finding != phrase.text else "", figures)
    pngs = (encode_png(plain), encode_png(shaded))
    return Picture(pngs, tuple(line for line in lines if line))


def _placed(
    phrase: Phrase, geometry: Geometry, shape: tuple[int, ...]
) -> tuple[Geometry, list[BoxRow]]:
    across, down = shape[1] / geometry.width, shape[0] / geometry.height
    boxes = [(x * across, y * down, w * across, h * down) for x, y, w, h in phrase.boxes]
    return Geometry(shape[0], shape[1], geometry.preprocessing), boxes
