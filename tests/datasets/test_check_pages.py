import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cxrtext.datasets.checking import CheckReport, Kind, Problem, Severity, write_check
from cxrtext.datasets.checking.histogram_svg import svg
from cxrtext.datasets.checking.report import FactTable, Histogram, Picture, PictureGroup, histogram
from cxrtext.errors import DataError

NASTY = '<script>alert("|")</script>`*_\n'


@pytest.fixture
def report() -> CheckReport:
    kind = Kind("code", Severity.ERROR, "images that are gone", "bring them back")
    return CheckReport(
        data=NASTY,
        summary={"images": 1234},
        problems=[Problem(kind, 7, [NASTY])],
        tables=[FactTable(NASTY, ("view", "images"), [(NASTY, "3")])],
        histograms=[Histogram(NASTY, [0, 1, 2], [3, 0], 0.5)],
        picture_groups=[PictureGroup(NASTY, [Picture(NASTY, NASTY, b"png")])],
    )


def test_html_escapes_and_runs_nothing(tmp_path: Path, report: CheckReport) -> None:
    path = tmp_path / "page.html"
    write_check(path, report)
    page = path.read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6
    assert "default-src 'none'" in page
    assert "data:image/png;base64,cG5n" in page
    assert "1,234" in page
    assert "http://" not in page
    assert "Mend the errors" in page


def test_markdown_escapes(tmp_path: Path, report: CheckReport) -> None:
    path = tmp_path / "page.md"
    write_check(path, report)
    page = path.read_text()
    assert "<script" not in page.replace("\\<script", "")
    assert "data:image/png;base64,cG5n" in page
    assert "| error | 7 | images that are gone |" in page


@pytest.mark.parametrize("ending", ["html", "md"])
def test_pages_say_that_pictures_were_left_out(
    tmp_path: Path, report: CheckReport, ending: str
) -> None:
    report.picture_groups = None
    path = tmp_path / f"page.{ending}"
    write_check(path, report)
    assert "left out on request" in path.read_text()
    assert "base64" not in path.read_text()


def test_json_is_the_report(tmp_path: Path, report: CheckReport) -> None:
    path = tmp_path / "report.json"
    write_check(path, report)
    found = json.loads(path.read_text())
    assert found == report.to_dict()
    assert found["errors"] == 1
    assert found["problems"][0]["code"] == "code"


def test_other_endings_are_refused(tmp_path: Path, report: CheckReport) -> None:
    with pytest.raises(DataError, match=r"ends in \.html, \.md, \.json"):
        write_check(tmp_path / "report.pdf", report)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        write_check(tmp_path / "folder.html", report)


def test_svg_is_well_formed() -> None:
    for values in ([3, 4, 4, 900], [0.25], [7, 7]):
        drawn = histogram("a < b", values)
        assert drawn is not None
        root = ElementTree.fromstring(svg(drawn))  # noqa: S314 - our own text
        assert len(root.findall(".//rect")) == len(drawn.counts)
