"""A page, or a figure, by which a person can judge a class probability."""

import base64
from html import escape
from pathlib import Path

from cxrtext.errors import ConfigError
from cxrtext.files import replacing
from cxrtext.language.eta.figure import caption, panel_svgs, save_figure
from cxrtext.language.eta.page_style import CSS
from cxrtext.language.eta.report import EtaReport
from cxrtext.language.eta.statistics import (
    Decile,
    EtaStatistics,
    FalseNegatives,
    eta_statistics,
)
from cxrtext.language.eta.summary import fit_line, one_line, shown_number, shown_share

ENDINGS = (".html", ".png", ".svg", ".pdf")

PANEL_TEXTS = (
    (
        "Distribution of the log-likelihood of all and of distinct sentences",
        "Stock phrases lie at the right; most distinct sentences are seen once and lie far left.",
    ),
    (
        "Share of sentences with a class probability above a value",
        "If nearly all lie at the right, the loss takes every negative for a false one; if nearly "
        "all lie at the left, it is the plain contrastive loss.",
    ),
    (
        "Class probability against the frequency of sentences",
        "Grey cells count distinct sentences; single ones make the lowest row. The dots are how "
        "often a sentence comes back. A class is wider than one wording, so the blue line "
        "should run above the dots, and about parallel to them.",
    ),
    (
        "Expected false negatives of an anchor, by decile of log-likelihood",
        "The dashed line counts equal wording alone. Where the solid line lies above it, the gap "
        "is what η adds for other wordings of a finding; where it lies below, η is too small.",
    ),
)


def _signed(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _cells(values: FalseNegatives) -> list[str]:
    return [
        f"{values.eta:#.2g}",
        shown_number(values.expected),
        shown_share(values.at_least_one),
        f"{values.same_frequency:#.2g}",
        shown_number(values.same_expected),
        shown_share(values.same_at_least_one),
    ]


def _table(report: EtaReport, statistics: EtaStatistics) -> str:
    rows = [
        [
            str(decile.number),
            f"{decile.sentences:,}",
            f"{decile.distinct:,}",
            f"{_signed(decile.low)} … {_signed(decile.high)}",
            *_cells(decile.false_negatives),
        ]
        for decile in statistics.deciles
    ]
    total = [f"{statistics.n_sentences:,}", f"{statistics.n_distinct:,}", ""]
    rows.append(["all", *total, *_cells(statistics.overall)])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    among = f"<small>among {report.batch_size - 1}</small>"
    pair = f"<th scope=col>expected{among}</th><th scope=col>at least one</th>"
    return (
        "<div class=wide><table><thead><tr><th rowspan=2>decile</th>"
        "<th rowspan=2>sentences</th><th rowspan=2>distinct</th>"
        "<th rowspan=2>log p<small>nats</small></th>"
        "<th colspan=3>false negatives by η</th>"
        "<th colspan=3>the very same sentence</th></tr><tr>"
        f"<th scope=col>mean η</th>{pair}<th scope=col>mean share</th>{pair}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _figures(report: EtaReport, statistics: EtaStatistics) -> str:
    parts = []
    for svg, (name, text) in zip(panel_svgs(report, statistics), PANEL_TEXTS, strict=True):
        # As images, because the names inside the four files are the same.
        data = base64.b64encode(svg).decode("ascii")
        parts.append(
            f'<figure><img alt="{escape(name)}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{escape(text)}</figcaption></figure>"
        )
    return f'<div class="figures">{"".join(parts)}</div>'


def _examples(report: EtaReport, statistics: EtaStatistics) -> str:
    if report.example is None:
        return ""
    example = report.example

    def listed(decile: Decile) -> str:
        items = "".join(
            f"<li>{escape(one_line(example(index), 300))} <span class=note>log&nbsp;p&nbsp;"
            f"{_signed(report.log_likelihood[index])}, seen&nbsp;{report.count[index]:,}&nbsp;"
            f"time{'s' if report.count[index] > 1 else ''}</span></li>"
            for index in decile.examples
        )
        eta = f"{decile.false_negatives.eta:#.2g}"
        term = f"<dt>decile {decile.number}<small>mean η {eta}</small></dt>"
        return f"{term}<dd><ul>{items}</ul></dd>"

    items = "".join(map(listed, statistics.deciles))
    return (
        f"<h2>Example sentences</h2><p class=note>This page holds report text.</p><dl>{items}</dl>"
    )


def eta_page(report: EtaReport, statistics: EtaStatistics) -> str:
    """Make the page.

    Args:
        report: The scored corpus, and a and k.
        statistics: What was computed of it.

    Returns:
        HTML that needs no other file and runs no script.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    title = f"Class probability η = {report.a:.3g} · p^{report.k:.3g}"
    heading = f"Class probability η = {report.a:.3g} · p<sup>{report.k:.3g}</sup>"
    fit = f"<p>For comparison, {escape(fit_line(report.fit))}.</p>" if report.fit else ""
    overall = statistics.overall
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{CSS}</style></head><body>
<h1>{heading}</h1>
<p>{escape(caption(report, statistics))}</p>
<p>By η, an anchor has {shown_number(overall.expected)} false negatives among
{report.batch_size - 1} negatives on average; {shown_number(overall.same_expected)} of its negatives
have the very same sentence, which is the least that η must account for. Correlation of log p with
log frequency over distinct sentences: Spearman {statistics.spearman:.2f}, Pearson
{statistics.pearson:.2f}.</p>
{fit}
{_figures(report, statistics)}
<h2>False negatives in a batch of {report.batch_size}</h2>
<p class="note">Each decile is a tenth of all sentences, equal ones counted as often as they occur,
from the least likely (1) to the likeliest (10). The share of the very same sentence is that among
the other sentences of the corpus.</p>
{_table(report, statistics)}
{_examples(report, statistics)}
</body></html>
"""


def check_target(path: Path) -> None:
    """Refuse a file of another ending.

    Raises:
        ConfigError: It is one.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"{path}: the report ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")


def write_eta_report(path: Path, report: EtaReport) -> EtaStatistics:
    """Write what a class probability means for a corpus, as a page or as a figure.

    Args:
        path: A page where it ends in .html; a figure alone where in .png, .svg or .pdf.
        report: The scored corpus, and a and k.

    Returns:
        What was computed, for ``eta_summary``.

    Raises:
        ConfigError: The file has another ending, or matplotlib is not installed.
    """
    check_target(path)
    statistics = eta_statistics(report)
    if path.suffix.lower() == ".html":
        page = eta_page(report, statistics)
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    else:
        save_figure(path, report, statistics)
    return statistics
