"""The page that every report is written with."""

import io
import re
from html.parser import HTMLParser

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure as Drawing
from PIL import Image

from cxrtext.page import (
    Bullets,
    Cell,
    Columns,
    Figure,
    Gallery,
    Picture,
    Section,
    Table,
    Text,
    Tile,
    draw_svg,
    html_page,
    number,
    with_interval,
)

VOID = {"meta", "br", "img"}


class Nesting(HTMLParser):
    """Checks that tags nest, and collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def line(drawing: Drawing) -> None:
    drawing.add_subplot(title="a <b & $5").plot([0, 1], [0, 1])


def png() -> bytes:
    file = io.BytesIO()
    Image.new("L", (2, 2)).save(file, "png")
    return file.getvalue()


def test_all_blocks_in_a_page_that_stands_alone() -> None:
    table = Table([["m", "v"], ["a <b", "0.81 [0.78, 0.84]"], ["c", Cell("2", ["<x"], "error")]])
    svg = draw_svg(300, 200, line)
    first = Section(
        "One & all",
        [
            Text("use `--a <b>` & see", "note"),
            Bullets(["<i>"]),
            table,
            Figure([(svg, 'a "line"')], "<caption>"),
            Gallery("G<", "n<", [Picture([png()], ["first <", "second"], "<t>")]),
            Columns([table, Text("beside")]),
            Markup("<hr-own></hr-own>"),
        ],
    )
    page = html_page("<h>", [first, Section("Two")], tiles=[Tile("<n>", "<v>", "<s>")])
    parser = Nesting()
    parser.feed(page)
    assert parser.open == []
    assert not {"script", "link", "iframe", "object", "svg", "i"} & parser.tags
    assert "hr-own" in parser.tags
    data = ("data:image/png;base64,", "data:image/svg+xml;base64,")
    assert [s for s in parser.sources if not s.startswith(data)] == ["#one-all", "#two"]
    assert set(re.findall(r'<h2 id="([^"]+)"', page)) == {"one-all", "two"}
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?:", page)
    assert "<code>--a &lt;b&gt;</code> &amp; see" in page
    assert "<td>0.81 <small>[0.78, 0.84]</small></td>" in page
    assert 'alt="a &#34;line&#34;"' in page
    for text in ("<h>", "<n>", "<v>", "<s>", "a <b", "<x", "<i>"):
        assert escape(text) in page
    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page


def test_a_drawing_is_the_same_again_and_leaves_the_style_of_matplotlib() -> None:
    before = dict(mpl.rcParams)
    assert draw_svg(300, 200, line) == draw_svg(300, 200, line)
    assert dict(mpl.rcParams) == before


def test_numbers() -> None:
    assert number(-0.5, 2) == "−0.50"
    assert with_interval(None, None) == "–"
    assert with_interval(0.5, (0.25, 0.75), 2) == "0.50 [0.25, 0.75]"
