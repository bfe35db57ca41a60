"""Is it a frontal chest radiograph?  A guess from the picture alone, which is shown, never obeyed.

A small network, shipped with the package (``weights.npz``), looks at 64 x 64 pixels.  It knows
nothing of findings.  What it was trained on, how often it errs and what it cannot tell are in
docs/reference/images.md; ``benchmarks/images/frontal_check.py`` trains and measures it.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy.typing as npt

from cxrtext.images.frontal.network import Network, prepare, read_network

FRONTAL = "frontal"
KINDS = (FRONTAL, "lateral", "turned", "mirrored", "inverted", "other")
"""The answers: a frontal chest as it should be; a lateral chest; a frontal chest that lies on its
side or on its head; one with left and right exchanged; one with black and white exchanged; and
anything else."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a picture looks like."""

    kind: str  # one of ``KINDS``
    score: float  # how sure that is, 0 to 1
    scores: dict[str, float]  # of every kind; they add up to 1

    @property
    def frontal(self) -> bool:
        """Whether it looks like a frontal chest that stands upright."""
        return self.kind == FRONTAL


def look(pixels: npt.NDArray[Any]) -> Look:
    """Say what a picture looks like; under a thousandth of a second beside making it small.

    Args:
        pixels: [1, H, W] or [H, W] gray values, float in [0, 1] or uint8, bone bright, as
            `read_image` gives them, or the square that `Preprocessing.square` makes of them.
    """
    scores = _network()(prepare(pixels))
    best = int(scores.argmax())
    named = {kind: float(score) for kind, score in zip(KINDS, scores, strict=True)}
    return Look(KINDS[best], named[KINDS[best]], named)


@cache
def _network() -> Network:
    return read_network((files(__package__) / "weights.npz").read_bytes())
