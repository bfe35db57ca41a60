"""Scores beside labels: what every measure of a yes-or-no question takes."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]
Uncertain = Literal["ignore", "positive", "negative"]


def known_labels(
    labels: Sequence[int | None], uncertain: Uncertain = "ignore"
) -> tuple[Truth, Truth]:
    """Which labels are known, and what they say, once the uncertain ones are settled.

    Args:
        labels: [n], 1, 0, −1 (uncertain) or None (unknown); unknown ones are always left out.
        uncertain: What −1 counts as: "ignore" leaves it out.

    Returns:
        (known, truth), both [n]; truth is False where the label is not known.

    Raises:
        ValueError: A label or ``uncertain`` is something else.

    Source: Irvin et al. 2019 (U-Ignore, U-Ones, U-Zeros).
    """
    if uncertain not in get_args(Uncertain):
        raise ValueError(f"uncertain must be one of {get_args(Uncertain)}, not {uncertain!r}")
    for row, label in enumerate(labels):
        if label not in (1, 0, -1, None):
            raise ValueError(f"label {row} is {label!r}; a label is 1, 0, -1 or None")
    present = np.asarray([label == 1 for label in labels], dtype=np.bool_)
    unsure = np.asarray([label == -1 for label in labels], dtype=np.bool_)
    known = np.asarray([label in (0, 1) for label in labels], dtype=np.bool_)
    if uncertain != "ignore":
        known |= unsure
    if uncertain == "positive":
        present |= unsure
    return known, present


def scores_and_truth(
    scores: ArrayLike, labels: ArrayLike, *, positive: bool = True, negative: bool = True
) -> tuple[Floats, Truth]:
    """Check scores and labels, and give them as arrays.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0.
        positive: Whether a positive must occur.
        negative: Whether a negative must occur.

    Raises:
        ValueError: The shapes differ, there is no row, a score is not finite, a label is neither
            1 nor 0, or a class is missing.
    """
    values, given = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if values.ndim != 1 or values.shape != given.shape or not values.size:
        raise ValueError(
            f"scores {values.shape} and labels {given.shape} must be equally long and not empty"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    if not np.isin(given, (0, 1)).all():
        raise ValueError("labels must be 1 or 0")
    truth: Truth = given == 1
    if positive and not truth.any():
        raise ValueError("no label is 1; this measure wants at least one positive")
    if negative and truth.all():
        raise ValueError("no label is 0; this measure wants at least one negative")
    return values, truth


def probabilities_and_truth(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Floats, Truth]:
    """Check probabilities and labels; as :func:`scores_and_truth`, one class being enough.

    Raises:
        ValueError: As there, or a probability lies outside [0, 1].
    """
    values, truth = scores_and_truth(probabilities, labels, positive=False, negative=False)
    if (values < 0).any() or (values > 1).any():
        raise ValueError("probabilities must lie in [0, 1]; turn scores into probabilities first")
    return values, truth
