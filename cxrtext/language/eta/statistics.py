"""What a class probability means for a corpus: deciles, and false negatives in a batch."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.language.eta.report import (
    EtaReport,
    Indices,
    class_probabilities,
    equal_parts,
    repeat_frequency,
)
from cxrtext.language.eta.solve import Counts, Floats

DECILES = 10
EXAMPLES = 3
"""Example sentences a decile."""


@dataclass(frozen=True, slots=True)
class FalseNegatives:
    """False negatives that an anchor has to expect in a batch of B: mean over some anchors.

    Args:
        eta: Mean class probability.
        expected: Expected false negatives among the B - 1 negatives, ``(B - 1) η``.
        at_least_one: Chance of at least one, ``1 - (1 - η)^(B - 1)``.
        same_frequency: Mean share of the very same sentence among the other sentences.
        same_expected: Expected negatives with the very same sentence: a lower bound, as classes
            are wider than equal sentences.
        same_at_least_one: Chance of at least one of these.
    """

    eta: float
    expected: float
    at_least_one: float
    same_frequency: float
    same_expected: float
    same_at_least_one: float


@dataclass(frozen=True, slots=True)
class Decile:
    """A tenth of the corpus's sentences, by log-likelihood.

    Args:
        number: 1 for the least likely tenth to 10 for the likeliest.
        sentences: Occurrences in it; a frequent sentence is not split, so not all are alike.
        distinct: Distinct sentences.
        low: Least log-likelihood, in nats.
        high: Largest log-likelihood, in nats.
        false_negatives: Means over its occurrences.
        examples: Indices of sentences spread over it, at most ``EXAMPLES``.
    """

    number: int
    sentences: int
    distinct: int
    low: float
    high: float
    false_negatives: FalseNegatives
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EtaStatistics:
    """What a class probability means for a corpus.

    Args:
        n_sentences: Sentences, N.
        n_distinct: Distinct sentences, D.
        repeated: Distinct sentences that occur more than once.
        median_eta: Median class probability over the sentences.
        overall: Means over all sentences.
        deciles: From the least likely to the likeliest; one that a single frequent sentence
            covers whole is left out.
        pearson: Correlation of log p with log frequency over distinct sentences; NaN where one
            of them is constant.
        spearman: The same for ranks.
    """

    n_sentences: int
    n_distinct: int
    repeated: int
    median_eta: float
    overall: FalseNegatives
    deciles: tuple[Decile, ...]
    pearson: float
    spearman: float


def _false_negatives(eta: Floats, same: Floats, count: Counts, batch_size: int) -> FalseNegatives:
    negatives = batch_size - 1

    def mean(values: Floats) -> float:
        return float(np.average(values, weights=count))

    def at_least_one(probability: Floats) -> Floats:
        # Short of 1, where the logarithm has no value; the result is 1 all the same.
        below = np.minimum(probability, 1.0 - 1e-16)
        chance: Floats = -np.expm1(negatives * np.log1p(-below))
        return chance

    return FalseNegatives(
        eta=mean(eta),
        expected=negatives * mean(eta),
        at_least_one=mean(at_least_one(eta)),
        same_frequency=mean(same),
        same_expected=negatives * mean(same),
        same_at_least_one=mean(at_least_one(same)),
    )


def _spread(indices: Indices, count: Counts) -> tuple[int, ...]:
    """Sentences in the middle of equal shares of the occurrences, each once."""
    ends = np.cumsum(count[indices])
    wanted = (np.arange(EXAMPLES) + 0.5) / EXAMPLES * ends[-1]
    places = np.searchsorted(ends, wanted, side="left")
    return tuple(dict.fromkeys(int(indices[place]) for place in places))


def _ranks(values: NDArray[np.generic]) -> Floats:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, number = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(number)
    ranks: Floats = last - 0.5 * (number + 1.0)
    return ranks[inverse]


def _correlation(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(np.clip(float(x @ y) / scale, -1.0, 1.0)) if scale > 0 else math.nan


def eta_statistics(report: EtaReport) -> EtaStatistics:
    """Compute what a class probability means for a corpus.

    Args:
        report: The scored corpus, and a and k.

    Returns:
        Deciles, false negatives in a batch, and correlations.
    """
    log_p, count = report.log_likelihood, report.count
    eta, same = class_probabilities(log_p, report.a, report.k), repeat_frequency(count)
    deciles = []
    parts = equal_parts(log_p, count, DECILES)
    for number, part in enumerate(parts, start=1):
        if len(part):
            deciles.append(
                Decile(
                    number=number,
                    sentences=int(count[part].sum()),
                    distinct=len(part),
                    low=float(log_p[part[0]]),
                    high=float(log_p[part[-1]]),
                    false_negatives=_false_negatives(
                        eta[part], same[part], count[part], report.batch_size
                    ),
                    examples=_spread(part, count),
                )
            )
    order = np.argsort(log_p, kind="stable")
    ends = np.cumsum(count[order])
    middle = order[np.searchsorted(ends, 0.5 * ends[-1])]
    return EtaStatistics(
        n_sentences=int(count.sum()),
        n_distinct=len(count),
        repeated=int((count > 1).sum()),
        median_eta=float(eta[middle]),
        overall=_false_negatives(eta, same, count, report.batch_size),
        deciles=tuple(deciles),
        pearson=_correlation(log_p, np.log(count)),
        spearman=_correlation(_ranks(log_p), _ranks(count)),
    )
