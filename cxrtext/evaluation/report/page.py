"""An evaluation as one HTML page that needs nothing beside it and runs no script."""

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from importlib.metadata import version

from cxrtext.evaluation.blocks import (
    EMPTY,
    Block,
    Figure,
    Gallery,
    Picture,
    Section,
    Table,
    Text,
)
from cxrtext.evaluation.report.markdown import RESEARCH, summary_line
from cxrtext.evaluation.report.paper_tables import headline
from cxrtext.evaluation.report.style import CSS
from cxrtext.evaluation.result import Evaluation

PROTECTED = (
    "This page holds pixels of patients' images and sentences of their reports: keep it where you "
    "keep them. --no-pictures leaves both out."
)

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_TILES = {
    "AUC": "zero-shot AUC",
    "ACC": "zero-shot ACC",
    "CNR": "grounding CNR",
    "mIoU": "grounding mIoU",
    "Recall": "box retrieval Recall",
    "MedR": "box retrieval MedR",
}

DENSE = 7
"""Columns from which on intervals stand below their figures."""


def html_page(result: Evaluation, sections: list[Section]) -> str:
    """The report as a page.

    Args:
        result: What was measured.
        sections: What stands in it.
    """
    pictures = any(isinstance(block, Gallery) for one in sections for block in one.blocks)
    warning = f'<p class="warn">{_code(PROTECTED)}</p>' if pictures else ""
    links = "".join(f'<a href="#{one.anchor}">{escape(one.title)}</a>' for one in sections)
    body = "".join(
        f'<section><h2 id="{one.anchor}">{escape(one.title)}</h2>{_blocks(one)}</section>\n'
        for one in sections
    )
    footer = f"{RESEARCH} cxrtext {version('cxrtext')}."
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Evaluation: {escape(result.data)}</title>\n<style>{CSS}</style></head>\n"
        f"<body><header><h1>Evaluation</h1><p>{_code(summary_line(result))}</p>\n"
        f'<dl class="tiles">{_tiles(result)}</dl>{warning}<nav>{links}</nav></header>\n'
        f"<main>{body}</main>\n<footer>{footer}</footer></body></html>\n"
    )


def _tiles(result: Evaluation) -> str:
    parts = []
    for name, text in headline(result).items():
        if text == EMPTY:
            continue
        value, _, ends = text.partition(" ")
        small = f"<small>{escape(ends)}</small>" if ends else ""
        parts.append(f"<div><dt>{_TILES[name]}</dt><dd>{escape(value)}{small}</dd></div>")
    return "".join(parts)


def _code(text: str) -> str:
    """A text, what stands between backquotes in a fixed-width face."""
    parts = escape(text).replace("--no-pictures", "`--no-pictures`").split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def _blocks(section: Section) -> str:
    if section.title == "Left out":
        items = (block.text for block in section.blocks if isinstance(block, Text))
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
    return "".join(map(_block, section.blocks))


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{_code(block.text)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Figure):
        return _figure(block)
    return _gallery(block)


def _table(table: Table) -> str:
    words = ' class="words"' if table.rows[0][-1] == "definition" else ""
    words = words or (' class="dense"' if len(table.rows[0]) >= DENSE else "")
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.rows[0])
    body = "".join(
        f"<tr{' class=strong' if place in table.strong else ''}>{''.join(map(_cell, row))}</tr>"
        for place, row in enumerate(table.rows[1:], 1)
    )
    return (
        f'<div class="wide"><table{words}>{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    value, bracket, ends = text.partition(" [")
    if bracket and ends.endswith("]"):
        return f"<td>{escape(value)} <small>[{escape(ends)}</small></td>"
    return f"<td>{escape(text)}</td>"


def _figure(figure: Figure) -> str:
    keys = "".join(map(_key, range(len(figure.legend)), figure.legend))
    legend = f'<div class="legend">{keys}</div>' if keys else ""
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    return f'<figure>{legend}<div class="charts">{"".join(figure.svg)}</div>{caption}</figure>'


def _key(place: int, name: str) -> str:
    levels, _, rest = name.rpartition("levels:")
    kind = "l" if levels == "" and name.startswith("levels:") else "c"
    return f'<span><i class="key {kind}{place}"></i>{escape(rest)}</span>'


def _gallery(gallery: Gallery) -> str:
    figures = "".join(map(_picture, gallery.pictures))
    small = " small" if gallery.small else ""
    return (
        f'<h3>{escape(gallery.title)}</h3><p class="note">{escape(gallery.note)}</p>'
        f'<div class="sheet{small}">{figures}</div>'
    )


def _picture(picture: Picture) -> str:
    images = "".join(_images(picture.pngs))
    first, *rest = picture.caption
    lines = "".join(f"{escape(line)}<br>" for line in rest)
    text = f"<b>{escape(first)}</b>{lines}" if rest else escape(first)
    kind = f' class="{picture.mark}"' if picture.mark else ""
    return f'<figure{kind}><div class="pair">{images}</div><figcaption>{text}</figcaption></figure>'


def _images(pngs: Iterable[bytes]) -> Iterable[str]:
    for png in pngs:
        yield f'<img alt="" src="data:image/png;base64,{b64encode(png).decode("ascii")}">'
