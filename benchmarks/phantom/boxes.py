"""Whether the boxes of the phantoms surround what their findings change.

    python benchmarks/phantom/boxes.py --studies 400 --size 256

Draws each study with and without each of its findings, from the same seeds, and compares.  By
finding: how many; how well its boxes fit the truth masks (intersection over union with the
smallest rectangle round the mask, which is 1 where both are of one making) and the pixels that
really change (the rectangle round those that change by more than ``--level`` gray values of 255);
the share of mask pixels outside the boxes; the share of the change inside the boxes.
"""

import argparse
from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.findings import DRAWN
from cxrtext.phantom.findings.effect import Effect
from cxrtext.phantom.render import Patient, paint
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import draw_studies

AXES = ("cardiomegaly", "pneumothorax", *DRAWN)
Mask = NDArray[np.bool_]
Picture = NDArray[np.float32]


def rectangle(mask: Mask) -> tuple[int, int, int, int]:
    """Left, top, right, bottom round the pixels of a mask that is not empty."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> float:
    """Intersection over union of two rectangles."""
    wide = max(0, min(one[2], other[2]) - max(one[0], other[0]))
    tall = max(0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)]
    return wide * tall / (sum(areas) - wide * tall)


def corners(effect: Effect) -> tuple[int, int, int, int]:
    """The box of a finding as left, top, right, bottom."""
    x, y, w, h = (int(value) for value in effect.box())
    return x, y, x + w, y + h


def compare(
    patient: Patient, axis: str, without: Picture, level: float
) -> tuple[str, list[float]] | None:
    """One finding of one study: its name and the figures of the table; None where none is boxed.

    Args:
        patient: Whom.
        axis: The finding, as an axis of the state.
        without: The picture without any finding, [size, size].
        level: Gray values of 255 from which a pixel counts as changed.
    """
    alone = replace(State(), **{axis: getattr(patient.state, axis)})
    picture, effects = paint(replace(patient, state=alone), len(without))
    if not effects:
        return None
    change = np.abs(picture - without)
    inside = np.zeros(change.shape, bool)
    masks = np.zeros(change.shape, bool)
    fits = []
    for effect in effects:
        left, top, right, bottom = corners(effect)
        inside[top:bottom, left:right] = True
        masks |= effect.mask()
        fits.append(overlap(corners(effect), rectangle(effect.mask())))
    changed = change > level / 255
    around = np.nan
    if len(effects) == 1 and changed.any():
        around = overlap(corners(effects[0]), rectangle(changed))
    visible = change * changed
    share = float(visible[inside].sum() / visible.sum()) if changed.any() else np.nan
    outside = float((masks & ~inside).sum() / masks.sum())
    return effects[0].finding, [float(np.mean(fits)), around, outside, share]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", type=float, default=12.0)
    options = parser.parse_args()
    found: dict[str, list[list[float]]] = defaultdict(list)
    for study in draw_studies(options.studies, options.seed):
        patient = study.patient
        shown = [axis for axis in AXES if patient.state.present(axis)]
        if not shown:
            continue
        without, _ = paint(replace(patient, state=State()), options.size)
        for axis in shown:
            figures = compare(patient, axis, without, options.level)
            if figures is not None:
                found[figures[0]].append(figures[1])
    print("| finding | n | box / mask | box / changed pixels | mask outside | change inside |")
    print("|---|---|---|---|---|---|")
    for name, rows in sorted(found.items()):
        values = np.asarray(rows)
        known = [column[~np.isnan(column)] for column in values.T]
        cells = [f"{column.mean():.3f}" if len(column) else "" for column in known]
        print(f"| {name} | {len(rows)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
