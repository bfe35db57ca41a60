"""Drawing states from the population, and the exact probability of any set of them."""

from functools import cache
from typing import Any

import numpy as np

from cxrtext.phantom.population import VALUES, State
from cxrtext.phantom.prevalence import (
    CHANGING,
    FRAME,
    GROUP_SHARE,
    KEEP,
    STUDY_COUNT,
    Floats,
    tables,
)

_CUMULATIVE: dict[str, Floats] = {}


def _draw(generator: np.random.Generator, axis: str, *given: int) -> Any:
    """A value of an axis; ``given`` are the indices of what it depends on, age group or value."""
    if axis not in _CUMULATIVE:
        _CUMULATIVE[axis] = tables()[axis].cumsum(axis=-1)
    row = _CUMULATIVE[axis][given]
    place = int(np.searchsorted(row, generator.random(), side="right"))
    return VALUES[axis][min(place, len(row) - 1)]


def draw_findings(generator: np.random.Generator, group: int, emphysema: int = 0) -> State:
    """Draw what changes between the studies of a patient of an age group, and the lung volume."""

    def index(axis: str, value: Any) -> int:
        return VALUES[axis].index(value)

    cardiomegaly = _draw(generator, "cardiomegaly", group)
    edema = _draw(generator, "edema", cardiomegaly)
    effusion = _draw(generator, "effusion", cardiomegaly, index("edema", edema))
    pneumothorax = _draw(generator, "pneumothorax", group)
    tube = _draw(generator, "tube", index("edema", edema))
    fluid, air = index("effusion", effusion), index("pneumothorax", pneumothorax)
    return State(
        cardiomegaly=cardiomegaly,
        edema=edema,
        effusion=effusion,
        pneumonia=_draw(generator, "pneumonia", fluid),
        pneumothorax=pneumothorax,
        volume=_draw(generator, "volume", group, emphysema),
        atelectasis=_draw(generator, "atelectasis", fluid),
        nodule=_draw(generator, "nodule", group),
        diaphragm=_draw(generator, "diaphragm", group),
        tube=tube,
        line=_draw(generator, "line", index("tube", tube)),
        drain=_draw(generator, "drain", fluid, air),
    )


def draw_frame(generator: np.random.Generator, group: int) -> dict[str, Any]:
    """Draw what stays with a patient, by axis."""
    return {axis: _draw(generator, axis, group) for axis in FRAME}


def probability(masks: dict[str, Floats], power: int = 1) -> float:
    """Probability that a random study's value lies in the mask of every axis.

    Args:
        masks: One vector of 0 and 1 an axis, in the order of ``VALUES``; no vector: any value.
        power: 2 gives the probability that two independent studies of one patient agree on all
            that may change between them.

    Returns:
        The exact probability, summed along the tree.
    """
    full = {axis: masks.get(axis, np.ones(len(values))) for axis, values in VALUES.items()}
    table = {
        axis: values**power if axis in CHANGING else values for axis, values in tables().items()
    }
    of_tube = table["line"] @ full["line"]
    of_edema = table["tube"] @ (full["tube"] * of_tube) * full["edema"]
    of_effusion = (
        table["pneumonia"] @ full["pneumonia"] * (table["atelectasis"] @ full["atelectasis"])
    )
    # What hangs on effusion: [F, X] for the drain, with X for pneumothorax, becomes [G, F].
    of_air = full["pneumothorax"] * (table["drain"] @ full["drain"])
    of_effusion = table["pneumothorax"] @ of_air.T * (full["effusion"] * of_effusion)
    along_edema = np.einsum("cef,gf->gce", table["effusion"], of_effusion)
    of_heart = np.einsum("ce,gce,e->gc", table["edema"], along_edema, of_edema)
    of_group = (table["cardiomegaly"] * of_heart) @ full["cardiomegaly"]
    of_emphysema = full["emphysema"] * (table["volume"] @ full["volume"])
    of_group = of_group * (table["emphysema"] * of_emphysema).sum(axis=-1)
    for axis in ("nodule", "diaphragm", *(axis for axis in FRAME if axis != "emphysema")):
        of_group = of_group * (table[axis] @ full[axis])
    return float(GROUP_SHARE @ of_group)


@cache
def unchanged_probability() -> float:
    """Probability that a random study has an earlier one with the same findings.

    The lung volume may differ.  The last patient of a set may lack studies; that is not counted.
    """
    later = 1.0 - 1.0 / float(STUDY_COUNT @ np.arange(1, len(STUDY_COUNT) + 1))
    return later * (KEEP + (1.0 - KEEP) * probability({}, power=2))
