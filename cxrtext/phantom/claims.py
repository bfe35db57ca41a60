"""Claims: the latent classes of sentences.

A claim is what a sentence says about a study, whatever its words: the allowed values on some axes
of the study's state.  The share of a set's studies for which it is true is the probability that one
of their images is a false negative for the sentence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.state import AXES, State


@dataclass(frozen=True, slots=True)
class Claim:
    name: str  # such as "effusion_right: 1"
    # Pairs of an axis and the indices of its allowed values, sorted by axis.
    allowed: tuple[tuple[str, frozenset[int]], ...] = ()

    def __and__(self, other: "Claim") -> "Claim":
        """Both claims at once; the name does not depend on their order."""
        merged = dict(self.allowed)
        for axis, indices in other.allowed:
            merged[axis] = merged.get(axis, indices) & indices
        names = sorted({*self.name.split(" + "), *other.name.split(" + ")})
        return Claim(" + ".join(names), tuple(sorted(merged.items())))


UNCHANGED = Claim("unchanged")
"""The patient has an earlier study with the same findings; no image shows this."""


def holding(claims: Sequence[Claim], states: Sequence[State]) -> NDArray[np.bool_]:
    """Whether each claim is true of each state, [claims, states]."""
    true = np.ones((len(claims), len(states)), dtype=np.bool_)
    values = {
        name: np.array([axis.values.index(getattr(state, name)) for state in states], np.int64)
        for name, axis in AXES.items()
    }
    for row, claim in zip(true, claims, strict=True):
        for axis, indices in claim.allowed:
            row &= np.isin(values[axis], list(indices))
    return true


def shares(claims: Sequence[Claim], states: Sequence[State]) -> NDArray[np.float64]:
    """ρ of each claim: how many states make it true, divided by their number plus one."""
    return np.asarray(holding(claims, states).sum(axis=1) / (len(states) + 1))


def _where(name: str, axis: str, true: Callable[[Any], bool]) -> Claim:
    """The claim that an axis has one of the values that ``true`` accepts."""
    indices = frozenset(i for i, value in enumerate(AXES[axis].values) if true(value))
    return Claim(f"{axis}: {name}", ((axis, indices),))


@cache
def exactly(axis: str, value: Any) -> Claim:
    """The axis has one value: a grade, a grade and a place, or a word."""
    name = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return _where(name, axis, lambda other: other == value)


@cache
def some(axis: str) -> Claim:
    return _where("any", axis, lambda value: value != AXES[axis].values[0])


@cache
def placed(axis: str, place: str) -> Claim:
    """A pneumonia is in a lobe, or a pneumothorax on a side."""
    return _where(f"any {place}", axis, lambda value: value[1] == place)


def none(*axes: str) -> Claim:
    """All of these axes are normal."""
    return reduce(Claim.__and__, map(_none, axes))


@cache
def _none(axis: str) -> Claim:
    return _where("none", axis, lambda value: value == AXES[axis].values[0])
