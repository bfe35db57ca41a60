"""Retrieval between boxes and the sentences they illustrate, in both directions."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.retrieval import CUTOFFS, PAPER_CUTOFFS, retrieval_metrics, same


def box_sentence_retrieval(
    scores: ArrayLike,
    *,
    sentences: Sequence[Hashable] | None = None,
    equal_sentences: Literal["wrong", "right"] = "wrong",
    patients: Sequence[Hashable] | None = None,
    cutoffs: Sequence[int] = CUTOFFS,
) -> dict[str, dict[str, float]]:
    """Measure retrieval where sentence i was written of box i.

    Args:
        scores: [n, n], sentences in rows, boxes in columns.
        sentences: [n], the sentences or keys of them; wanted where equal ones are right.
        equal_sentences: Whether another pair with an equal sentence is a wrong answer (strict;
            its equal score then counts against the model) or a right one.
        patients: [n]; given, the other pairs of the query's own patient are no candidates.
        cutoffs: The K of each R@K.

    Returns:
        ``R@K``, ``MedR`` and ``MRR`` by direction: "sentence to box" and "box to sentence".

    Raises:
        ValueError: The scores are not square, a list is not [n] or is missing, or see
            :func:`~cxrtext.evaluation.retrieval.positive_ranks`.
    """
    values = np.asarray(scores)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise ValueError(f"scores must be [n, n], one box a sentence, got {values.shape}")
    for name, given in (("sentences", sentences), ("patients", patients)):
        if given is not None and len(given) != len(values):
            raise ValueError(f"{name} must be {len(values)}, one a row, got {len(given)}")
    relevant = left_out = None
    if equal_sentences == "right":
        if sentences is None:
            raise ValueError("give the sentences, to tell which are equal")
        relevant = same(sentences, sentences)
    if patients is not None:
        left_out = same(patients, patients)
    # Both masks are symmetric, and serve either direction.
    return {
        "sentence to box": retrieval_metrics(values, relevant, cutoffs, left_out),
        "box to sentence": retrieval_metrics(values.T, relevant, cutoffs, left_out),
    }


def mean_recall(directions: Mapping[str, Mapping[str, float]]) -> float:
    """The paper's "Recall": mean of R@10, R@50 and R@100 over both directions.

    Args:
        directions: As :func:`box_sentence_retrieval` returns them, with these three cut-offs.

    Raises:
        ValueError: A direction lacks one of the three.
    """
    return _mean(directions, [f"R@{k}" for k in PAPER_CUTOFFS])


def mean_median_rank(directions: Mapping[str, Mapping[str, float]]) -> float:
    """The paper's single "MedR": mean of the median ranks of both directions.

    Args:
        directions: As :func:`box_sentence_retrieval` returns them.

    Raises:
        ValueError: A direction lacks MedR.
    """
    return _mean(directions, ["MedR"])


def _mean(directions: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> float:
    for direction, metrics in directions.items():
        missing = [name for name in names if name not in metrics]
        if missing:
            raise ValueError(f"'{direction}' has no {', '.join(missing)}")
    if not directions:
        raise ValueError("there is no direction to average over")
    return float(np.mean([metrics[name] for metrics in directions.values() for name in names]))
