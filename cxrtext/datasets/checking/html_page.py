"""The data-check report as one HTML page that needs nothing beside it and runs no script."""

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from pathlib import Path

from cxrtext.datasets.checking.histogram_svg import svg
from cxrtext.datasets.checking.problems import Problem
from cxrtext.datasets.checking.report import CheckReport, FactTable, PictureGroup
from cxrtext.datasets.checking.words import PICTURES_LEFT_OUT, PROTECTED, ROWS, verdict

_STYLE = """
:root { color-scheme: light dark; --line: #d5d9de; --soft: #f4f6f8; --bar: #4878a8;
  --error: #b3261e; --warning: #8a5a00; --note: #4a5a6a; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4048; --soft: #1e2329; --bar: #7fa8d0;
  --error: #ff8a80; --warning: #f0b95a; --note: #a8b4c0; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .4rem; }
p.path { margin: .2rem 0 1rem; color: var(--note); overflow-wrap: anywhere; }
p.verdict { font-size: 1.1rem; font-weight: 600; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .5rem; }
dl div { background: var(--soft); border-radius: .4rem; padding: .5rem .7rem; }
dt { font-size: .8rem; color: var(--note); } dd { margin: 0; font-size: 1.25rem; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
table.problems { table-layout: fixed; }
.tables { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr));
  gap: 0 2rem; align-items: start; }
.error { color: var(--error); font-weight: 600; } .warning { color: var(--warning);
  font-weight: 600; } .note { color: var(--note); }
.examples { color: var(--note); font-size: .85rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; }
code { white-space: nowrap; }
figure { margin: 0; } figcaption { font-size: .85rem; overflow-wrap: anywhere; }
svg { width: 100%; background: var(--soft); border-radius: .4rem; } svg .bars { fill: var(--bar); }
svg text { font-size: 10px; fill: currentColor; } svg .axis { stroke: var(--note); }
svg .median { stroke: var(--error); stroke-dasharray: 3 2; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, 10rem); gap: .8rem 1rem; }
.sheet figcaption { font-size: .72rem; color: var(--note); }
.sheet img { display: block; width: 10rem; height: 10rem; object-fit: contain; background: #000; }
"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def html_page(report: CheckReport) -> str:
    """Return the report as a page.

    Args:
        report: What was found.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Data check: {escape(report.data)}</title>\n<style>{_STYLE}</style></head>\n"
        f'<body><h1>Data check</h1><p class="path">{escape(report.data)}</p>\n'
        f'<p class="verdict">{escape(verdict(report))}</p>\n'
        f"<dl>{_summary(report.summary)}</dl>\n"
        f"<h2>Problems</h2>\n{_problems(report.problems)}\n"
        f"<h2>Pictures</h2>\n{_pictures(report.picture_groups)}\n"
        "<h2>Distributions</h2>\n"
        f'<div class="charts">{"".join(map(svg, report.histograms))}</div>\n'
        f'<h2>Tables</h2>\n<div class="tables">{"".join(map(_table, report.tables))}</div>\n'
        f'<p class="path">{ROWS}</p>\n'
        "</body></html>\n"
    )


def _summary(summary: dict[str, int]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{count:,}</dd></div>" for name, count in summary.items()
    )


def _problems(problems: Iterable[Problem]) -> str:
    rows = "".join(map(_problem, problems))
    if not rows:
        return "<p>None was found.</p>"
    return (
        '<table class="problems"><colgroup><col style="width:6rem"><col style="width:5rem"><col>'
        '<col style="width:42%"></colgroup><tr><th>severity</th><th class="number">count</th>'
        f"<th>problem</th><th>what to do</th></tr>{rows}</table>"
    )


def _problem(problem: Problem) -> str:
    kind = problem.kind
    examples = "<br>".join(map(escape, problem.examples))
    more = f"<br>and {problem.unnamed:,} more" if examples and problem.unnamed else ""
    return (
        f'<tr><td class="{kind.severity}">{kind.severity}</td>'
        f'<td class="number">{problem.count:,}</td><td>{escape(kind.title)}'
        f'<div class="examples">{examples}{more}</div></td>'
        f"<td>{escape(kind.advice)}</td></tr>"
    )


def _table(table: FactTable) -> str:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        return "".join(
            f"<{tag}{' class=number' if place else ''}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )

    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    head = f"<tr>{cells('th', table.columns)}</tr>"
    return f"<div><h3>{escape(table.title)}</h3><table>{head}{rows}</table></div>"


def _pictures(groups: list[PictureGroup] | None) -> str:
    if groups is None:
        return f"<p>{PICTURES_LEFT_OUT}</p>"
    return (
        f"<p>{escape(PROTECTED).replace('--no-pictures', '<code>--no-pictures</code>')}</p>"
        + "".join(map(_sheet, groups))
    )


def _sheet(group: PictureGroup) -> str:
    figures = "".join(
        f'<figure><img alt="" src="data:image/png;base64,{b64encode(picture.png).decode()}">'
        f'<figcaption title="{escape(picture.name)}">{escape(Path(picture.name).name)}<br>'
        f"{escape(picture.caption)}</figcaption></figure>"
        for picture in group.pictures
    )
    return f'<h3>{escape(group.title)}</h3><div class="sheet">{figures}</div>'
