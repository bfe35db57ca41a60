"""What a class probability means for a corpus, in a few lines for a terminal."""

import math

from cxrtext.language.eta.fit import EtaFit
from cxrtext.language.eta.report import EtaReport
from cxrtext.language.eta.statistics import EtaStatistics, FalseNegatives

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


def one_line(text: str, longest: int) -> str:
    """Put a sentence on one line without control characters, and shorten it to a length."""
    visible = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(visible.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def fit_line(fit: EtaFit) -> str:
    """Say what was fitted and how well.

    Args:
        fit: The fitted class probability.

    Returns:
        One line.
    """
    errors = "" if math.isnan(fit.k_error) else f" (standard error {fit.k_error:.2g})"
    return (
        f"fitted to equal sentences: a = {fit.a:.3g}, k = {fit.k:.3g}{errors}; "
        f"{100 * fit.explained:.0f} % of the deviance explained. "
        "Paraphrases are not counted, so a is a lower bound"
    )


def _row(name: str, sentences: int, span: str, values: FalseNegatives) -> tuple[str, ...]:
    return (
        name,
        f"{sentences:,}",
        span,
        f"{values.eta:#.2g}",
        shown_number(values.expected),
        shown_share(values.at_least_one),
        shown_number(values.same_expected),
    )


def _rows(statistics: EtaStatistics) -> list[tuple[str, ...]]:
    rows = [
        _row(
            str(decile.number),
            decile.sentences,
            f"{decile.low:.1f} … {decile.high:.1f}",
            decile.false_negatives,
        )
        for decile in statistics.deciles
    ]
    return [*rows, _row("all", statistics.n_sentences, "", statistics.overall)]


def eta_summary(report: EtaReport, statistics: EtaStatistics, example_width: int = 40) -> list[str]:
    """Give the lines that the command line prints.

    Args:
        report: The scored corpus, and a and k.
        statistics: What ``eta_statistics`` computed of it.
        example_width: Letters of an example sentence that are shown.

    Returns:
        Lines of plain text: counts, correlations, a table by decile with one example each, and
        what its columns mean.
    """
    rows = _rows(statistics)
    examples = ["example"] if report.example else [""]
    for decile in statistics.deciles:
        middle = decile.examples[len(decile.examples) // 2]
        examples.append(one_line(report.example(middle), example_width) if report.example else "")
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]
    table = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (HEADS, *rows)
    ]
    table = [f"{line}  {text}".rstrip() for line, text in zip(table, [*examples, ""], strict=True)]
    negatives = report.batch_size - 1
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
        f"expected: false negatives among {negatives} negatives; any: chance of at least one; "
        "same: expected negatives with the very same sentence, a lower bound",
    ]
