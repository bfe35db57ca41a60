"""A contact sheet of the phantoms: each finding beside the same patients without it.

python benchmarks/phantom/gallery.py FILE.png [--size 256] [--seed 0] [--difficulty 1]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cxrtext.phantom import Patient, draw_phantom
from cxrtext.phantom.state import AXES, State

ROWS = [
    *((axis.finding, [State(**{name: v}) for v in axis.examples]) for name, axis in AXES.items()),
    ("scoliosis", [State(spine=f"scoliosis {side}") for side in ("left", "right")]),
    ("aorta", [State(aorta=shape) for shape in ("tortuous", "calcified")]),
]
LABEL = 14  # height of a label in pixels


def tile(patient: Patient, size: int, label: str) -> Image.Image:
    """A drawing with its label above and its boxes outlined."""
    picture, placed = draw_phantom(patient, size)
    made = Image.new("RGB", (size, size + LABEL), (24, 24, 24))
    made.paste(Image.fromarray(np.round(picture * 255).astype(np.uint8)), (0, LABEL))
    pen = ImageDraw.Draw(made)
    pen.text((4, 1), label, fill=(235, 235, 235), font=ImageFont.load_default_imagefont())
    for box in placed:
        x, y, w, h = box.bbox
        # Two pixels away, so that the outline of a small box does not hide what is in it.
        pen.rectangle(
            (x - 2, max(y - 2, 0) + LABEL, x + w + 1, y + h + 1 + LABEL), outline=(255, 196, 0)
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--difficulty", type=float, default=1.0)
    given = parser.parse_args()
    rows = [(name, states) for name, states in ROWS if states]
    height = given.size + LABEL
    sheet = Image.new("RGB", (6 * given.size, len(rows) * height))
    for row, (name, states) in enumerate(rows):
        for column, state in enumerate(states):
            seeds = ((given.seed, 6, row, column), (given.seed, 7, row, column))
            view = ("PA", "AP", "PA")[column]
            patient = Patient(state, "MF"[column % 2], view, *seeds, given.difficulty)
            empty = replace(patient, state=State())
            for number, (who, label) in enumerate(
                ((patient, f"{name} {column + 1}"), (empty, "same patient without"))
            ):
                place = ((2 * column + number) * given.size, row * height)
                sheet.paste(tile(who, given.size, label), place)
    sheet.save(given.file)


if __name__ == "__main__":
    main()
