"""A scored corpus with the class probability to be judged on it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.language.eta.fit import EtaFit, check_corpus
from cxrtext.language.eta.solve import Counts, Floats

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EtaReport:
    """A scored corpus and the class probability to be judged on it.

    Args:
        log_likelihood: Natural log-likelihood of each distinct sentence, at most 0, [D].
        count: How often each occurs, at least 1, [D].
        a: Scale of the class probability, in (0, 1).
        k: Exponent on the likelihood, at least 0.
        model: Name of the language model.
        batch_size: Image-sentence pairs in a training batch, B; an anchor has B - 1 negatives.
        example: Gives the text of the distinct sentence of an index in 0 … D - 1; without it the
            report shows no text.  It is called for 30 sentences at most.
        fit: a and k fitted to the same corpus, to be shown beside.
    """

    log_likelihood: Floats
    count: Counts
    a: float
    k: float
    model: str
    batch_size: int = 64
    example: Callable[[int], str] | None = None
    fit: EtaFit | None = None

    def __post_init__(self) -> None:
        check_corpus(self.log_likelihood, self.count)
        if len(self.count) == 0:
            raise ValueError("a report needs at least one sentence")
        if not 0.0 < self.a < 1.0:
            raise ValueError(f"a must lie in (0, 1), got {self.a}")
        if not 0.0 <= self.k < math.inf:
            raise ValueError(f"k must be at least 0 and finite, got {self.k}")
        if self.batch_size < 2:
            raise ValueError(f"batch_size must be at least 2, got {self.batch_size}")


def class_probabilities(log_likelihood: Floats, a: float, k: float) -> Floats:
    """Return ``η = a · p^k`` in float64, at least the smallest normal number.

    Args:
        log_likelihood: Natural log-likelihoods, at most 0, any shape.
        a: Scale, in (0, 1).
        k: Exponent, at least 0.

    Returns:
        η in (0, a], the shape of ``log_likelihood``.
    """
    least = math.log(np.finfo(np.float64).tiny)
    eta: Floats = np.exp(np.maximum(math.log(a) + k * log_likelihood, least))
    return eta


def repeat_frequency(count: Counts) -> Floats:
    """Return the share of each sentence among the other occurrences, ``(n - 1) / (N - 1)``.

    Unlike n / N it is an unbiased estimate for a sentence that was met by drawing an occurrence,
    as an anchor is: a sentence met once is no evidence that it comes back.

    Args:
        count: How often each distinct sentence occurs, [D].

    Returns:
        Frequencies in [0, 1], [D].

    Source: Simpson 1949, the unbiased index of concentration.
    """
    others = max(float(count.sum()) - 1.0, 1.0)
    return (count.astype(np.float64) - 1.0) / others


def equal_parts(log_likelihood: Floats, count: Counts, parts: int) -> list[Indices]:
    """Split sentences, by log-likelihood, into parts of about equal numbers of occurrences.

    Args:
        log_likelihood: Of each distinct sentence, in nats, [D].
        count: How often each occurs, [D].
        parts: How many parts.

    Returns:
        Indices of the sentences of each part in order of log-likelihood; some may have none.
    """
    order = np.argsort(log_likelihood, kind="stable")
    # By the middle of its occurrences, so that a sentence that covers several parts is in one.
    middle = np.cumsum(count[order]) - 0.5 * count[order]
    part = np.minimum((middle * parts / count.sum()).astype(np.int64), parts - 1)
    return np.split(order, np.searchsorted(part, np.arange(1, parts)))
