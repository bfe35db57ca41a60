"""The data-check report as Markdown, its pictures inside it."""

import re
from base64 import b64encode

from cxrtext.datasets.checking.histogram_svg import short
from cxrtext.datasets.checking.report import (
    CheckReport,
    FactTable,
    Histogram,
    PictureGroup,
)
from cxrtext.datasets.checking.words import PICTURES_LEFT_OUT, PROTECTED, ROWS, verdict

_BAR = 30
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def markdown_page(report: CheckReport) -> str:
    """Return the report as Markdown.

    Args:
        report: What was found.
    """
    summary = FactTable(
        "", ("what", "count"), [(name, f"{count:,}") for name, count in report.summary.items()]
    )
    parts = [
        "# Data check",
        _plain(report.data),
        f"**{_plain(verdict(report))}**",
        _table(summary),
        "## Problems",
        _problems(report),
        "## Pictures",
        *_pictures(report.picture_groups),
        "## Distributions",
        *map(_histogram, report.histograms),
        "## Tables",
        *(f"### {_plain(table.title)}\n\n{_table(table)}" for table in report.tables),
        ROWS,
    ]
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(table: FactTable) -> str:
    lines = [table.columns, tuple("---" if i == 0 else "---:" for i in range(len(table.columns)))]
    text = ["| " + " | ".join(map(_plain, lines[0])) + " |", "| " + " | ".join(lines[1]) + " |"]
    text += ["| " + " | ".join(map(_plain, row)) + " |" for row in table.rows]
    return "\n".join(text)


def _problems(report: CheckReport) -> str:
    if not report.problems:
        return "None was found."
    lines = ["| severity | count | problem | examples | what to do |", "|---|---:|---|---|---|"]
    for problem in report.problems:
        kind = problem.kind
        examples = "<br>".join(map(_plain, problem.examples))
        if examples and problem.unnamed:
            examples += f"<br>and {problem.unnamed:,} more"
        lines.append(
            f"| {kind.severity} | {problem.count:,} | {_plain(kind.title)} | {examples} | "
            f"{_plain(kind.advice)} |"
        )
    return "\n".join(lines)


def _histogram(histogram: Histogram) -> str:
    most = max(histogram.counts) or 1
    labels = [
        f"{short(low)} to {short(high)}"
        for low, high in zip(histogram.edges[:-1], histogram.edges[1:], strict=True)
    ]
    width = max(map(len, labels))
    lines = [
        f"{label:>{width}}  {'█' * round(_BAR * count / most):<{_BAR}} {count:,}".rstrip()
        for label, count in zip(labels, histogram.counts, strict=True)
    ]
    title = f"{_plain(histogram.title)} (median {short(histogram.median)})"
    return f"### {title}\n\n```text\n" + "\n".join(lines) + "\n```"


def _pictures(groups: list[PictureGroup] | None) -> list[str]:
    if groups is None:
        return [PICTURES_LEFT_OUT]
    parts = [PROTECTED]
    for group in groups:
        shown = "\n".join(
            f"![{_plain(picture.name)}, {_plain(picture.caption)}]"
            f"(data:image/png;base64,{b64encode(picture.png).decode()})"
            for picture in group.pictures
        )
        parts += [f"### {_plain(group.title)}", shown]
    return parts
