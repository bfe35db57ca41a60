"""Resamples that the measures of a task share."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.bootstrap import interval, resample_patients

Floats = NDArray[np.float64]
Counts = NDArray[np.uint16]
Interval = tuple[float, float]

RESAMPLES_AT_ONCE = 64
"""Resamples drawn at the same time; bounds memory."""


@dataclass(frozen=True, slots=True)
class Resampled:
    """A measure on the data as they are, and on every resample of them.

    Args:
        estimate: On the data as they are.
        values: [R].
        rows: What was resampled: measures of two models on equal rows are paired.
    """

    estimate: float
    values: Floats
    rows: tuple[Hashable, ...] = field(repr=False)


def draw(patients: Sequence[Hashable], resamples: int, seed: Sequence[int]) -> Counts:
    """Resamples of rows by patient, [R, n]; the same for the same patients and seed.

    Counts are 16 bits wide, and drawn some resamples at a time, so that those of a hundred
    thousand sentences fit in memory.
    """
    generator = np.random.default_rng(list(seed))
    parts = [np.zeros((0, len(patients)), dtype=np.uint16)]
    for start in range(0, resamples if len(patients) else 0, RESAMPLES_AT_ONCE):
        some = min(RESAMPLES_AT_ONCE, resamples - start)
        parts.append(resample_patients(patients, some, generator).astype(np.uint16))
    return np.concatenate(parts)


def interval_of(values: Floats) -> Interval | None:
    """The interval of a measure; None where there are no resamples.

    Resamples in which the measure is not defined, because no row of a small group was drawn, are
    left out; where they are more than a tenth there is no interval.
    """
    known = values[~np.isnan(values)]
    if not len(values) or len(known) < 0.9 * len(values):
        return None
    return interval(known)


def intervals_of(measures: Mapping[str, Floats]) -> dict[str, Interval]:
    """The intervals of measures, as far as they have one."""
    found = {name: interval_of(values) for name, values in measures.items()}
    return {name: ends for name, ends in found.items() if ends is not None}
