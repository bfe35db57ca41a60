"""Measures of retrieval.

Scores have queries in rows and candidates in columns.  A rank is 1 plus the number of wrong
candidates that score at least as high as the best right one: nothing is sorted, ties count against
the model, and a block of rows is looked at at a time, so that memory stays bounded.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

CUTOFFS = (1, 5, 10, 50, 100)

Codes = NDArray[np.int64]

PAPER_CUTOFFS = (10, 50, 100)
"""Those whose mean over both directions the paper calls Recall."""

SCORES_AT_ONCE = 1 << 22
"""Scores looked at at the same time; bounds memory."""


def positive_ranks(
    scores: ArrayLike, relevant: ArrayLike | None = None, left_out: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Rank of the best right answer of each query, from 1; ties count against the model.

    Args:
        scores: [Q, C], queries in rows.
        relevant: [Q, C], boolean: the right answers; by default the diagonal.
        left_out: [Q, C], boolean: candidates that are not counted, as those of the query's own
            patient (:func:`same`); a right answer always stays in.

    Returns:
        [Q].

    Raises:
        ValueError: The shapes do not fit, a score is NaN, or a query has no right answer.
    """
    values = np.asarray(scores)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"scores must be [queries, candidates], got {values.shape}")
    right, apart = (
        None if given is None else np.asarray(given, dtype=np.bool_)
        for given in (relevant, left_out)
    )
    for name, mask in (("relevant", right), ("left_out", apart)):
        if mask is not None and mask.shape != values.shape:
            raise ValueError(f"{name} must be {values.shape}, got {mask.shape}")
    if right is None and values.shape[0] > values.shape[1]:
        raise ValueError("every query wants at least one right answer; give relevant")
    rows = max(1, SCORES_AT_ONCE // values.shape[1])
    ranks = []
    for start in range(0, len(values), rows):
        block = slice(start, start + rows)
        part = values[block].astype(np.float64)
        columns = np.arange(values.shape[1])
        places = np.arange(start, start + len(part))
        answers = places[:, None] == columns if right is None else right[block]
        ranks.append(_ranks(part, answers, None if apart is None else apart[block]))
    return np.concatenate(ranks)


def _ranks(
    values: NDArray[np.float64], right: NDArray[np.bool_], apart: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    if np.isnan(values.max()):  # the maximum is NaN where any score is
        raise ValueError("scores must not be NaN")
    rows, columns = np.nonzero(right)
    if len(np.unique(rows)) < len(values):
        raise ValueError("every query wants at least one right answer")
    # Right answers are few: their rows are gone through, and not the whole block once more.
    scores = values[rows, columns]
    best = np.maximum.reduceat(scores, np.searchsorted(rows, np.arange(len(values))))
    ahead = values >= best[:, None]
    ahead[rows, columns] = False
    if apart is not None:
        ahead &= ~apart
    counts: NDArray[np.int64] = np.count_nonzero(ahead, axis=1)
    return 1 + counts


def same(first: Sequence[Hashable], second: Sequence[Hashable]) -> NDArray[np.bool_]:
    """Which of two lists' entries are equal, such as sentences or patients.

    Args:
        first: [Q].
        second: [C].

    Returns:
        [Q, C].
    """
    rows, columns = numbered(first, second)
    equal: NDArray[np.bool_] = rows[:, None] == columns
    return equal


def numbered(first: Sequence[Hashable], second: Sequence[Hashable]) -> tuple[Codes, Codes]:
    """Number the entries of two lists, equal ones alike, [Q] and [C]."""
    numbers: dict[Hashable, int] = {}
    rows, columns = (
        np.array([numbers.setdefault(entry, len(numbers)) for entry in entries], dtype=np.int64)
        for entries in (first, second)
    )
    return rows, columns


def rank_metrics(ranks: ArrayLike, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """Recall at cut-offs, median rank and mean reciprocal rank.

    Args:
        ranks: [Q], from 1, as :func:`positive_ranks` gives them.
        cutoffs: The K of each R@K.

    Returns:
        ``R@K`` for each cut-off, ``MedR`` and ``MRR``.

    Raises:
        ValueError: There is no rank, or one is below 1.
    """
    values = np.asarray(ranks)
    if values.ndim != 1 or not values.size or (values < 1).any():
        raise ValueError("ranks must be a list of numbers from 1")
    metrics = {f"R@{k}": float((values <= k).mean()) for k in cutoffs}
    return {**metrics, "MedR": float(np.median(values)), "MRR": float((1 / values).mean())}


def retrieval_metrics(
    scores: ArrayLike,
    relevant: ArrayLike | None = None,
    cutoffs: Sequence[int] = CUTOFFS,
    left_out: ArrayLike | None = None,
) -> dict[str, float]:
    """Recall at cut-offs, median rank and mean reciprocal rank.

    >>> retrieval_metrics([[0.9, 0.1], [0.8, 0.3]], cutoffs=[1])
    {'R@1': 0.5, 'MedR': 1.5, 'MRR': 0.75}

    Args:
        scores: [Q, C], queries in rows.
        relevant: [Q, C], boolean: the right answers; by default the diagonal.
        cutoffs: The K of each R@K.
        left_out: [Q, C], boolean: candidates that are not counted.

    Returns:
        ``R@K`` for each cut-off, ``MedR`` and ``MRR``.

    Raises:
        ValueError: See :func:`positive_ranks`.
    """
    return rank_metrics(positive_ranks(scores, relevant, left_out), cutoffs)
