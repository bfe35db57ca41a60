"""Measures of retrieval."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

CUTOFFS = (1, 5, 10, 50, 100)


def positive_ranks(scores: ArrayLike, relevant: ArrayLike | None = None) -> NDArray[np.int64]:
    """Rank of the best right answer of each query, from 1; ties count against the model.

    Args:
        scores: [Q, C], queries in rows.
        relevant: [Q, C], boolean: the right answers; by default the diagonal.

    Returns:
        [Q].

    Raises:
        ValueError: The shapes do not fit, a score is NaN, or a query has no right answer.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"scores must be [queries, candidates], got {values.shape}")
    if np.isnan(values).any():
        raise ValueError("scores must not be NaN")
    right: NDArray[np.bool_] = (
        np.eye(*values.shape, dtype=np.bool_)
        if relevant is None
        else np.asarray(relevant, dtype=np.bool_)
    )
    if right.shape != values.shape:
        raise ValueError(f"relevant must be {values.shape}, got {right.shape}")
    if not right.any(axis=1).all():
        raise ValueError("every query wants at least one right answer")
    best = np.where(right, values, -np.inf).max(axis=1, keepdims=True)
    # Wrong answers that score as high as the best right one stand before it.
    ahead: NDArray[np.int64] = ((values >= best) & ~right).sum(axis=1)
    return 1 + ahead


def retrieval_metrics(
    scores: ArrayLike,
    relevant: ArrayLike | None = None,
    cutoffs: Sequence[int] = CUTOFFS,
) -> dict[str, float]:
    """Recall at cut-offs, median rank and mean reciprocal rank.

    >>> retrieval_metrics([[0.9, 0.1], [0.8, 0.3]], cutoffs=[1])
    {'R@1': 0.5, 'MedR': 1.5, 'MRR': 0.75}

    Args:
        scores: [Q, C], queries in rows.
        relevant: [Q, C], boolean: the right answers; by default the diagonal.
        cutoffs: The K of each R@K.

    Returns:
        ``R@K`` for each cut-off, ``MedR`` and ``MRR``.

    Raises:
        ValueError: See :func:`positive_ranks`.
    """
    ranks = positive_ranks(scores, relevant)
    metrics = {f"R@{k}": float((ranks <= k).mean()) for k in cutoffs}
    return {**metrics, "MedR": float(np.median(ranks)), "MRR": float((1 / ranks).mean())}
