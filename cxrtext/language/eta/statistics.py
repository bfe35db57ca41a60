"""What a class probability means for a corpus: false negatives in a batch, by decile."""

import math
from collections.abc import Callable
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
    # Gives the text of the distinct sentence of an index in 0 … D - 1; without it the report
    # shows no text.
    example: Callable[[int], str] | None = None
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


DECILES = 10
NEGATIVES = 63
"""Of an anchor: the other image-sentence pairs of a training batch of 64."""
EXAMPLE_WIDTH = 40  # letters, at most


@dataclass(frozen=True, slots=True)
class FalseNegatives:
    """False negatives that an anchor has to expect in a batch: mean over some anchors."""

    eta: float  # mean class probability
    expected: float  # expected false negatives among its negatives, ``NEGATIVES · η``
    at_least_one: float  # chance of at least one, ``1 - (1 - η)^NEGATIVES``
    # Expected negatives with the very same sentence: a lower bound, as classes are wider than
    # equal sentences.
    same_expected: float


@dataclass(frozen=True, slots=True)
class Decile:
    number: int  # 1 for the least likely tenth to 10 for the likeliest
    sentences: int  # occurrences in it; a frequent sentence is not split, so not all are alike
    distinct: int  # distinct sentences
    low: float  # least log-likelihood, in nats
    high: float  # largest log-likelihood, in nats
    false_negatives: FalseNegatives  # means over its occurrences
    example: int  # index of the sentence in its middle


@dataclass(frozen=True, slots=True)
class EtaStatistics:
    n_sentences: int  # sentences, N
    n_distinct: int  # distinct sentences, D
    repeated: int  # distinct sentences that occur more than once
    median_eta: float  # median class probability over the sentences
    overall: FalseNegatives  # means over all sentences
    # From the least likely to the likeliest; one that a single frequent sentence covers whole
    # is left out.
    deciles: tuple[Decile, ...]
    # Correlation of log p with log frequency over distinct sentences; NaN where one of them
    # is constant.
    pearson: float
    spearman: float  # the same for ranks


def _false_negatives(eta: Floats, same: Floats, count: Counts) -> FalseNegatives:
    # Short of 1, where the logarithm has no value; the result is 1 all the same.
    at_least_one = -np.expm1(NEGATIVES * np.log1p(-np.minimum(eta, 1.0 - 1e-16)))
    mean_eta, chance, mean_same = (
        float(np.average(values, weights=count)) for values in (eta, at_least_one, same)
    )
    return FalseNegatives(mean_eta, NEGATIVES * mean_eta, chance, NEGATIVES * mean_same)


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
    log_p, count, alike = report.log_likelihood, report.count, np.ones(len(report.count))
    eta, same = report.eta, repeat_frequency(count)
    deciles = [
        Decile(
            number=number,
            sentences=int(count[part].sum()),
            distinct=len(part),
            low=float(log_p[part[0]]),
            high=float(log_p[part[-1]]),
            false_negatives=_false_negatives(eta[part], same[part], count[part]),
            example=_middle(part, count),
        )
        for number, part in enumerate(equal_parts(log_p, count, DECILES), start=1)
        if len(part)
    ]
    return EtaStatistics(
        n_sentences=int(count.sum()),
        n_distinct=len(count),
        repeated=int((count > 1).sum()),
        median_eta=float(eta[_middle(np.argsort(log_p, kind="stable"), count)]),
        overall=_false_negatives(eta, same, count),
        deciles=tuple(deciles),
        pearson=_correlation(log_p, np.log(count), alike),
        spearman=rank_correlation(log_p, count.astype(np.float64), alike),
    )


HEADS = ("decile", "sentences", "log p (nats)", "mean eta", "expected", "any", "same")


def shown_number(value: float) -> str:
    """Write a small number with two digits, and one that hardly is any as such."""
    if value == 0.0:
        return "0"
    if value < 0.001:
        return "<0.001"
    return f"{value:#.2g}" if value < 9.95 else f"{value:.1f}"


def shown_share(value: float) -> str:
    """Write a share as a percentage; neither 0 nor 100 % unless it is."""
    if 0.0 < value < 0.001:
        return "<0.1 %"
    if 0.999 < value < 1.0:
        return ">99.9 %"
    return f"{100 * value:.1f} %"


def one_line(text: str) -> str:
    """Put a sentence on one line without control characters, and shorten it."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= EXAMPLE_WIDTH else line[: EXAMPLE_WIDTH - 1].rstrip() + "…"


def fit_line(fit: EtaFit) -> str:
    """Say in one line what was fitted and how well."""
    errors = "" if math.isnan(fit.k_error) else f" (standard error {fit.k_error:.2g})"
    return (
        f"fitted to equal sentences: a = {fit.a:.3g}, k = {fit.k:.3g}{errors}; "
        f"{100 * fit.explained:.0f} % of the deviance explained. "
        "Paraphrases are not counted, so a is a lower bound"
    )


def _row(name: str, sentences: int, span: str, values: FalseNegatives) -> tuple[str, ...]:
    expected, same = shown_number(values.expected), shown_number(values.same_expected)
    chance = shown_share(values.at_least_one)
    return name, f"{sentences:,}", span, f"{values.eta:#.2g}", expected, chance, same


def eta_summary(report: EtaReport, statistics: EtaStatistics) -> list[str]:
    """Give the lines that the command line prints: counts, correlations, a table by decile."""
    rows = [
        _row(str(d.number), d.sentences, f"{d.low:.1f} … {d.high:.1f}", d.false_negatives)
        for d in statistics.deciles
    ]
    rows.append(_row("all", statistics.n_sentences, "", statistics.overall))
    examples = ["example"] if report.example else [""]
    for decile in statistics.deciles:
        examples.append(one_line(report.example(decile.example) if report.example else ""))
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]
    table = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (HEADS, *rows)
    ]
    table = [f"{line}  {text}".rstrip() for line, text in zip(table, [*examples, ""], strict=True)]
    return [
        f"{statistics.n_sentences:,} sentences, {statistics.n_distinct:,} distinct, "
        f"{statistics.repeated:,} of them seen more than once; scored by {report.model}",
        f"eta = {report.a:.3g} p^{report.k:.3g}: mean {statistics.overall.eta:.2g}, "
        f"median {statistics.median_eta:.2g}",
        f"log p against log frequency of distinct sentences: Spearman {statistics.spearman:.2f}, "
        f"Pearson {statistics.pearson:.2f}",
        *([fit_line(report.fit)] if report.fit else []),
        "",
        *table,
        "",
        f"expected: false negatives among {NEGATIVES} negatives; any: chance of at least one; "
        "same: expected negatives with the very same sentence, a lower bound",
    ]
