"""A contact sheet: every finding beside the same patients without it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cxrtext.errors import DataError
from cxrtext.files import replacing
from cxrtext.phantom.render import Patient, draw
from cxrtext.phantom.state import AXES, State

FIRST = (
    *("cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax", "atelectasis", "nodule"),
    *("granuloma", "emphysema", "fibrosis", "hernia", "diaphragm", "fracture", "tube", "line"),
    *("pacemaker", "drain", "wires"),
)
"""The first rows, by axis."""

ROWS: tuple[tuple[str, tuple[State, ...]], ...] = (
    *(
        (axis.finding, tuple(State(**{name: value}) for value in axis.examples))
        for name, axis in ((name, AXES[name]) for name in dict.fromkeys((*FIRST, *AXES)))
        if axis.examples
    ),
    (
        "scoliosis, aorta",
        (
            State(spine="scoliosis right"),
            State(aorta="tortuous", spine="degenerative"),
            State(aorta="calcified", spine="scoliosis left"),
        ),
    ),
)
"""The name of each row, and the states of its positives."""

LABEL = 14  # height of a label in pixels

Tile = Image.Image


def _tile(patient: Patient, size: int, label: str, *, boxes: bool) -> Tile:
    picture, placed = draw(patient, size)
    gray = np.round(picture * 255.0).astype(np.uint8)
    tile = Image.new("RGB", (size, size + LABEL), (24, 24, 24))
    tile.paste(Image.fromarray(gray), (0, LABEL))
    pen = ImageDraw.Draw(tile)
    pen.text((4, 1), label, fill=(235, 235, 235), font=ImageFont.load_default_imagefont())
    if boxes:
        for box in placed:
            x, y, w, h = box.bbox
            # Two pixels away, so that the outline of a small box does not hide what is in it.
            top = max(y - 2, 0) + LABEL
            pen.rectangle((x - 2, top, x + w + 1, y + h + 1 + LABEL), outline=(255, 196, 0))
    return tile


def _row(name: str, states: tuple[State, ...], seed: int, size: int, difficulty: float) -> Tile:
    """Positives and negatives by turns."""
    tiles = []
    for column, state in enumerate(states):
        sex, view = "MF"[column % 2], ("PA", "AP", "PA")[column % 3]
        key = sum(map(ord, name))
        patient = Patient(
            state, sex, view, (seed, 6, key, column), (seed, 7, key, column), difficulty
        )
        empty = replace(patient, state=State())
        tiles.append(_tile(patient, size, f"{name} {column + 1}", boxes=True))
        tiles.append(_tile(empty, size, "same patient without", boxes=False))
    row = Image.new("RGB", (sum(tile.width for tile in tiles), tiles[0].height))
    for column, tile in enumerate(tiles):
        row.paste(tile, (column * size, 0))
    return row


def write_gallery(path: Path, *, size: int = 256, seed: int = 0, difficulty: float = 1.0) -> None:
    """Write a contact sheet: one row a finding, three positives, each beside its negative.

    Boxes are outlined thinly on the positives.

    Raises:
        DataError: The name does not end in ``.png``, or the size is out of its range.
    """
    if path.suffix.lower() != ".png":
        raise DataError(f"{path}: the gallery is a PNG picture; give a name that ends in .png")
    if not 64 <= size <= 512:
        raise DataError(f"size is {size}; a tile of the gallery has from 64 to 512 pixels")
    rows = [_row(name, states, seed, size, difficulty) for name, states in ROWS]
    sheet = Image.new("RGB", (rows[0].width, sum(row.height for row in rows)))
    for number, row in enumerate(rows):
        sheet.paste(row, (0, number * row.height))
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG")
