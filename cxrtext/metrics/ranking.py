"""Measures of scores [n] against labels [n], and of the ranks of right answers.

Scores are finite, labels 1 or 0; anything else raises a ValueError, and so do labels without a
class that the measure needs.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]
Ranks = NDArray[np.int64]
Patients = Sequence[Hashable] | NDArray[np.integer[Any]] | None
Uncertain = Literal["ignore", "positive", "negative"]
UNKNOWN_LABEL = -2
"""Stands for an unknown label in an array of labels."""
CUTOFFS = (1, 5, 10, 50, 100)
SCORES_AT_ONCE = 1 << 22
"""Scores processed at the same time; bounds memory."""


def patient_codes(patients: Patients, n: int) -> NDArray[np.intp]:
    """Number the patients of n rows from 0, [n], in order of appearance.

    An array of numbers is numbered by size; without patients every row is its own patient.
    """
    if patients is None:
        return np.arange(n)
    if len(patients) != n:
        raise ValueError(f"{n} rows and {len(patients)} patients must be equally many")
    if isinstance(patients, np.ndarray):
        return np.unique(patients, return_inverse=True)[1]
    numbers: dict[Hashable, int] = {}
    codes = (numbers.setdefault(patient, len(numbers)) for patient in patients)
    return np.fromiter(codes, dtype=np.intp, count=n)


def settled(labels: NDArray[np.int8], uncertain: Uncertain) -> tuple[Truth, Truth]:
    """Which labels are known, and what they say, once the uncertain ones are settled.

    Labels [n] are 1, 0, −1 (uncertain; "ignore" leaves it out) or :data:`UNKNOWN_LABEL`, which is
    always left out.  Returns (known, truth), both [n]; truth is False for unknown labels.

    Source: Irvin et al. 2019 (U-Ignore, U-Ones, U-Zeros).
    """
    if uncertain not in get_args(Uncertain):
        raise ValueError(f"uncertain must be one of {get_args(Uncertain)}, not {uncertain!r}")
    known = (labels == 1) | (labels == 0)
    truth = labels == 1
    if uncertain != "ignore":
        known |= labels == -1
    if uncertain == "positive":
        truth |= labels == -1
    return known, truth


def scores_and_truth(
    scores: ArrayLike, labels: ArrayLike, *, positive: bool = True, negative: bool = True
) -> tuple[Floats, Truth]:
    """Check scores and labels, and return arrays; by default both classes must occur."""
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
        raise ValueError("no label is 1; this measure needs at least one positive")
    if negative and truth.all():
        raise ValueError("no label is 0; this measure needs at least one negative")
    return values, truth


def _counts(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Distinct scores from the highest, and true and false positives at or above each."""
    values, truth = scores_and_truth(scores, labels, negative=False)
    distinct, place = np.unique(-values, return_inverse=True)
    true: Floats = np.cumsum(np.bincount(place, weights=truth.astype(np.float64)))
    return -distinct, true, np.cumsum(np.bincount(place, weights=(~truth).astype(np.float64)))


def area_under_curve(scores: ArrayLike, labels: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative.

    In [0, 1]; a tie counts one half.  Both classes must occur.

    Source: Mann and Whitney 1947.
    """
    scores_and_truth(scores, labels)
    _, true, false = _counts(scores, labels)
    middle = true - np.diff(true, prepend=0.0) / 2
    return float((np.diff(false, prepend=0.0) * middle).sum() / (true[-1] * false[-1]))


def _below(high: float, low: float) -> float:
    """Halfway between two scores, which suits new rows best; never rounded to the upper one."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def youden_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """The threshold with the largest sensitivity + specificity − 1 on validation images.

    It is halfway between two scores; above it means present.  Of several equally good thresholds,
    the highest is returned.

    Source: Youden 1950.
    """
    scores_and_truth(scores, labels)
    thresholds, true, false = _counts(scores, labels)
    # In whole numbers, so that equally good thresholds compare equal.
    place = int((true * false[-1] - false * true[-1]).argmax())
    high = float(thresholds[place])
    if place + 1 == len(thresholds):
        return float(np.nextafter(high, -np.inf))
    return _below(high, float(thresholds[place + 1]))


def sensitivity_threshold(scores: ArrayLike, labels: ArrayLike, sensitivity: float) -> float:
    """The highest threshold that at least this share of the positives exceeds.

    It is halfway between two scores, as in :func:`youden_threshold`; above it means present.
    """
    values, truth = scores_and_truth(scores, labels, negative=False)
    if not 0 < sensitivity <= 1:
        raise ValueError(f"sensitivity must lie above 0 and be at most 1, not {sensitivity}")
    positives = np.sort(values[truth])[::-1]
    # Rounding must not require one positive more: 0.95 of 20 is 19.
    needed = int(np.ceil(sensitivity * len(positives) - 1e-9))
    high = float(positives[max(needed, 1) - 1])
    below = values[values < high]
    return _below(high, float(below.max())) if below.size else float(np.nextafter(high, -np.inf))


def positive_ranks(scores: ArrayLike, relevant: ArrayLike | None = None) -> Ranks:
    """The rank of each query's best right answer, [Q], from 1; ties count against the model.

    Args:
        scores: [Q, C], without NaN.
        relevant: [Q, C], boolean: the right answers, at least one for each query; by default the
            diagonal.
    """
    values = np.asarray(scores)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"scores must be [queries, candidates], got {values.shape}")
    right = np.eye(*values.shape, dtype=np.bool_) if relevant is None else np.asarray(relevant)
    if right.shape != values.shape:
        raise ValueError(f"relevant must be {values.shape}, got {right.shape}")
    rows = max(1, SCORES_AT_ONCE // values.shape[1])
    blocks = [slice(start, start + rows) for start in range(0, len(values), rows)]
    return np.concatenate([_ranks(values[b].astype(np.float64), right[b]) for b in blocks])


def _ranks(values: Floats, right: Truth) -> Ranks:
    if np.isnan(values.max()):  # the maximum is NaN where any score is
        raise ValueError("scores must not be NaN")
    rows, columns = np.nonzero(right)
    if len(np.unique(rows)) < len(values):
        raise ValueError("every query needs at least one right answer")
    # Right answers are few: go through their rows only, not the whole block once more.
    best = np.maximum.reduceat(values[rows, columns], np.searchsorted(rows, np.arange(len(values))))
    ahead = values >= best[:, None]
    ahead[rows, columns] = False
    counts: Ranks = np.count_nonzero(ahead, axis=1)
    return 1 + counts


def retrieval_metrics(
    scores: ArrayLike, relevant: ArrayLike | None = None, cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, float]:
    """Recall at cutoffs, median rank and mean reciprocal rank.

    >>> retrieval_metrics([[0.9, 0.1], [0.8, 0.3]], cutoffs=[1])
    {'R@1': 0.5, 'MedR': 1.5, 'MRR': 0.75}

    Returns ``R@K`` for each cutoff, ``MedR`` and ``MRR``; see :func:`positive_ranks`.
    """
    ranks = positive_ranks(scores, relevant)
    recall = {f"R@{k}": float((ranks <= k).mean()) for k in cutoffs}
    return {**recall, "MedR": float(np.median(ranks)), "MRR": float((1 / ranks).mean())}


def embedding_ranks(
    queries: ArrayLike, candidates: ArrayLike, *, keys: Sequence[Hashable] | None = None
) -> Ranks:
    """Ranks [n] by inner product; query i and candidate i of [n, D] are a pair.  Works in blocks.

    Args:
        keys: [n]; the candidates of all pairs with an equal key are right.  By default candidate i
            is the only right answer of query i.
    """
    left, right = (np.asarray(given, dtype=np.float64) for given in (queries, candidates))
    if left.ndim != 2 or left.shape != right.shape or not right.size:
        raise ValueError(f"embeddings {left.shape} and {right.shape} must be [n, D] both")
    own = patient_codes(keys, len(left))
    rows = max(1, SCORES_AT_ONCE // len(right))
    ranks = []
    for start in range(0, len(left), rows):
        block = slice(start, start + rows)
        ranks.append(positive_ranks(left[block] @ right.T, own[block, None] == own))
    return np.concatenate(ranks)


def chance_median_rank(right: Ranks, candidates: int) -> float:
    """The median rank of the first right answer in a random order.

    >>> chance_median_rank(np.array([1, 1]), 9), chance_median_rank(np.array([5]), 9)
    (5.0, 1.0)

    ``right`` [Q] says how many of the candidates are right for each query, at least 1.
    """
    left = candidates - np.arange(candidates)
    missed = np.zeros(candidates)  # share of queries without a right answer among the first r
    for count, times in zip(*np.unique(right, return_counts=True), strict=True):
        missed += times / len(right) * np.cumprod(np.maximum(1 - count / left, 0))
    return float(np.argmax(missed <= 0.5) + 1)
