import json
from pathlib import Path

import pytest

from cxrtext.datasets.checking import CheckReport, Kind, Problem, Severity, write_check
from cxrtext.datasets.checking.report import FactTable, Histogram, histogram
from cxrtext.errors import DataError
from cxrtext.page import Gallery, Picture

PNG = b"\x89PNG"
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
        galleries=[Gallery(NASTY, "", [Picture([PNG], [NASTY, NASTY], title=NASTY)])],
    )


def test_html_escapes_and_runs_nothing(tmp_path: Path, report: CheckReport) -> None:
    path = tmp_path / "page.html"
    write_check(path, report)
    page = path.read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6
    assert "default-src 'none'" in page
    assert "data:image/png;base64,iVBORw==" in page
    assert "1,234" in page
    assert "http://" not in page
    assert "Fix the errors" in page


def test_the_page_says_that_pictures_were_left_out(tmp_path: Path, report: CheckReport) -> None:
    report.galleries = None
    path = tmp_path / "page.html"
    write_check(path, report)
    assert "left out on request" in path.read_text()
    assert "image/png" not in path.read_text()


def test_json_is_the_report(tmp_path: Path, report: CheckReport) -> None:
    path = tmp_path / "report.json"
    write_check(path, report)
    found = json.loads(path.read_text())
    assert found == report.to_dict()
    assert found["errors"] == 1
    assert found["problems"][0]["code"] == "code"


def test_other_endings_are_refused(tmp_path: Path, report: CheckReport) -> None:
    for name in ("report.pdf", "report.md"):
        with pytest.raises(DataError, match=r"ends in \.html or \.json"):
            write_check(tmp_path / name, report)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        write_check(tmp_path / "folder.html", report)


def test_histograms_are_drawn_with_their_median(tmp_path: Path, report: CheckReport) -> None:
    path = tmp_path / "page.html"
    for values, median in (([3, 4, 4, 900], "4"), ([0.25], "0.25"), ([7, 7], "7")):
        report.histograms = [histogram("a < b", values)]
        write_check(path, report)
        assert (
            f'alt="a &lt; b: median {median}" src="data:image/svg+xml;base64,' in path.read_text()
        )
