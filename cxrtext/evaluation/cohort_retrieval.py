"""Ranks in cohorts whose score matrix would not fit in memory."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.retrieval import Codes, numbered, positive_ranks

SCORES_AT_ONCE = 1 << 22
"""Scores computed at the same time; bounds memory."""


def embedding_ranks(
    queries: ArrayLike,
    candidates: ArrayLike,
    *,
    query_keys: Sequence[Hashable] | None = None,
    candidate_keys: Sequence[Hashable] | None = None,
    query_groups: Sequence[Hashable] | None = None,
    candidate_groups: Sequence[Hashable] | None = None,
) -> NDArray[np.int64]:
    """Ranks by inner product, a block of queries at a time.

    Args:
        queries: [Q, D].
        candidates: [C, D].
        query_keys: [Q]; a candidate with an equal key is right.  By default candidate i is the
            one right answer of query i.
        candidate_keys: [C].
        query_groups: [Q]; wrong candidates of an equal group (the same patient's) are not counted.
        candidate_groups: [C].

    Returns:
        [Q], as :func:`~cxrtext.evaluation.retrieval.positive_ranks`.

    Raises:
        ValueError: The shapes do not fit, one of two lists is missing, or see
            :func:`~cxrtext.evaluation.retrieval.positive_ranks`.
    """
    left, right = (np.asarray(given, dtype=np.float64) for given in (queries, candidates))
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1] or not right.size:
        raise ValueError(f"embeddings {left.shape} and {right.shape} must be [Q, D] and [C, D]")
    keys = _pair("keys", query_keys, candidate_keys, left, right)
    groups = _pair("groups", query_groups, candidate_groups, left, right)
    if keys is None:
        keys = np.arange(len(left)), np.arange(len(right))
    rows = max(1, SCORES_AT_ONCE // len(right))
    ranks = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(left), rows):
        block = slice(start, start + rows)
        relevant = keys[0][block, None] == keys[1]
        left_out = None if groups is None else groups[0][block, None] == groups[1]
        ranks.append(positive_ranks(left[block] @ right.T, relevant, left_out))
    return np.concatenate(ranks)


def _pair(
    name: str,
    of_queries: Sequence[Hashable] | None,
    of_candidates: Sequence[Hashable] | None,
    queries: NDArray[np.float64],
    candidates: NDArray[np.float64],
) -> tuple[Codes, Codes] | None:
    if of_queries is None and of_candidates is None:
        return None
    if of_queries is None or of_candidates is None:
        raise ValueError(f"{name} must be given for queries and candidates, or for neither")
    if (len(of_queries), len(of_candidates)) != (len(queries), len(candidates)):
        raise ValueError(f"{name} must be as many as the queries and the candidates")
    return numbered(of_queries, of_candidates)
