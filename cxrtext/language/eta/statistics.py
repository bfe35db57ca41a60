"""How a class probability is spread over a corpus, and how it goes with how often text occurs."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.language.class_probability import class_probability
from cxrtext.language.eta.fit import Counts, EtaFit, Floats

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EtaReport:
    log_likelihood: Floats  # natural log-likelihood of each distinct sentence, at most 0, [D]
    count: Counts  # how often each occurs, at least 1, [D]
    a: float  # scale of the class probability, in (0, 1)
    k: float  # exponent on the likelihood, at least 0
    model: str  # name of the language model
    fit: EtaFit | None = None  # a and k fitted to the same corpus, to be shown beside

    @property
    def eta(self) -> Floats:
        """The class probability of each distinct sentence, [D]."""
        values = self.log_likelihood.tolist()
        return np.array([class_probability(value, self.a, self.k) for value in values])


def repeat_frequency(count: Counts) -> Floats:
    """Return the share of each sentence among the other occurrences, ``(n - 1) / (N - 1)``, [D].

    Unlike n / N it is an unbiased estimate for a sentence that was met by drawing an occurrence,
    as an anchor is: a sentence met once is no evidence that it comes back.

    Source: Simpson 1949, the unbiased index of concentration.
    """
    return (count.astype(np.float64) - 1.0) / max(float(count.sum()) - 1.0, 1.0)


def equal_parts(log_likelihood: Floats, count: Counts, parts: int) -> list[Indices]:
    """Indices, by log-likelihood, in parts of about equal occurrences; some may be empty."""
    order = np.argsort(log_likelihood, kind="stable")
    # By the middle of its occurrences, so that a sentence that covers several parts is in one.
    middle = np.cumsum(count[order]) - 0.5 * count[order]
    part = np.minimum((middle * parts / count.sum()).astype(np.int64), parts - 1)
    return np.split(order, np.searchsorted(part, np.arange(1, parts)))


@dataclass(frozen=True, slots=True)
class EtaStatistics:
    n_sentences: int  # sentences, N
    n_distinct: int  # distinct sentences, D
    repeated: int  # distinct sentences that occur more than once
    mean_eta: float  # mean class probability over the sentences
    median_eta: float
    # Correlation of log p with log frequency over distinct sentences; NaN where one of them
    # is constant.
    pearson: float
    spearman: float  # the same for ranks


def _middle(indices: Indices, count: Counts) -> int:
    ends = np.cumsum(count[indices])
    return int(indices[np.searchsorted(ends, 0.5 * ends[-1])])


def _correlation(x: Floats, y: Floats, weight: Floats) -> float:
    x, y = x - np.average(x, weights=weight), y - np.average(y, weights=weight)
    scale = math.sqrt(float(weight @ x**2)) * math.sqrt(float(weight @ y**2))
    return float(np.clip(float(x @ (weight * y)) / scale, -1.0, 1.0)) if scale > 0 else math.nan


def _ranks(values: Floats, weight: Floats) -> Floats:
    """The middle rank of each value, which occurs as often as its weight says."""
    place = np.unique(values, return_inverse=True)[1]
    times = np.bincount(place, weight)
    middle: Floats = (np.cumsum(times) - 0.5 * times)[place]
    return middle


def rank_correlation(x: Floats, y: Floats, weight: Floats) -> float:
    """Spearman's correlation of [n] pairs that occur as often as their weights; NaN of constants.

    Source: Spearman 1904, with middle ranks for ties.
    """
    return _correlation(_ranks(x, weight), _ranks(y, weight), weight)


def eta_statistics(report: EtaReport) -> EtaStatistics:
    log_p, count, eta = report.log_likelihood, report.count, report.eta
    alike = np.ones(len(count))
    return EtaStatistics(
        n_sentences=int(count.sum()),
        n_distinct=len(count),
        repeated=int((count > 1).sum()),
        mean_eta=float(np.average(eta, weights=count)),
        median_eta=float(eta[_middle(np.argsort(log_p, kind="stable"), count)]),
        pearson=_correlation(log_p, np.log(count), alike),
        spearman=rank_correlation(log_p, count.astype(np.float64), alike),
    )


def fit_line(fit: EtaFit) -> str:
    """Say in one line what was fitted and how well."""
    errors = "" if math.isnan(fit.k_error) else f" (standard error {fit.k_error:.2g})"
    return (
        f"fitted to equal sentences: a = {fit.a:.3g}, k = {fit.k:.3g}{errors}; "
        f"{100 * fit.explained:.0f} % of the deviance explained. "
        "Paraphrases are not counted, so a is a lower bound"
    )


def eta_summary(report: EtaReport, statistics: EtaStatistics) -> list[str]:
    """Give the lines that the command line prints: counts, correlations, the fit."""
    return [
        f"{statistics.n_sentences:,} sentences, {statistics.n_distinct:,} distinct, "
        f"{statistics.repeated:,} of them seen more than once; scored by {report.model}",
        f"eta = {report.a:.3g} p^{report.k:.3g}: mean {statistics.mean_eta:.2g}, "
        f"median {statistics.median_eta:.2g}",
        f"log p against log frequency of distinct sentences: Spearman {statistics.spearman:.2f}, "
        f"Pearson {statistics.pearson:.2f}",
        *([fit_line(report.fit)] if report.fit else []),
    ]
