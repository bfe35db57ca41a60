"""Check-data's pages, and the cache of what it found."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cxrtext.datasets.checking import CheckReport, Kind, Problem, Severity, write_check
from cxrtext.datasets.checking.facts import CACHE_NAME, ImageFacts, open_cache
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
        galleries=[Gallery(NASTY, "", [Picture([PNG], [NASTY, NASTY], title=NASTY)])],
    )


def test_html_escapes_and_runs_nothing_and_says_that_pictures_were_left_out(
    tmp_path: Path, report: CheckReport
) -> None:
    path = tmp_path / "page.html"
    write_check(path, report)
    page = path.read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 5
    assert "default-src 'none'" in page
    assert "data:image/png;base64,iVBORw==" in page
    assert "1,234" in page
    assert "http://" not in page
    assert "Fix the errors" in page
    report.galleries = None
    write_check(path, report)
    assert "left out on request" in path.read_text()
    assert "image/png" not in path.read_text()


def test_json_is_the_report_and_other_endings_are_refused(
    tmp_path: Path, report: CheckReport
) -> None:
    path = tmp_path / "report.json"
    write_check(path, report)
    found = json.loads(path.read_text())
    assert found == report.to_dict()
    assert found["errors"] == 1
    assert found["problems"][0]["code"] == "code"
    for name in ("report.pdf", "report.md"):
        with pytest.raises(DataError, match=r"ends in \.html or \.json"):
            write_check(tmp_path / name, report)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        write_check(tmp_path / "folder.html", report)


FACTS = ImageFacts(width=3, height=2, mean=1.5, pixel_digest="ab")


def test_what_was_done_before_an_error_is_kept_and_faults_are_looked_at_again(
    tmp_path: Path,
) -> None:
    with pytest.raises(KeyboardInterrupt), open_cache(tmp_path) as cache:
        cache.put("a", (1, 2), FACTS)
        cache.put("b", (1, 2), ImageFacts(fault="is damaged"))
        raise KeyboardInterrupt
    with open_cache(tmp_path) as cache:
        assert cache.get("a", (1, 2)) == FACTS
        assert cache.get("b", (1, 2)) is None


def test_facts_outlive_the_run_until_the_file_or_the_version_changes(tmp_path: Path) -> None:
    path = tmp_path / CACHE_NAME
    with open_cache(tmp_path) as cache:
        assert cache.get("a", (1, 2)) is None
        cache.put("a", (1, 2), FACTS)
    with open_cache(tmp_path) as cache:
        assert cache.get("a", (1, 2)) == FACTS
        assert cache.get("a", (1, 3)) is None
        assert cache.get("b", (1, 2)) is None
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 999")
    with open_cache(tmp_path) as cache:
        assert cache.get("a", (1, 2)) is None


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / CACHE_NAME).write_text("longer than the header of a database would be" * 20)
    with pytest.raises(DataError, match="remove it and start again"), open_cache(tmp_path):
        pass


def test_folder_that_cannot_be_written_is_done_without_a_cache(tmp_path: Path) -> None:
    with open_cache(tmp_path / "missing") as cache:
        cache.put("a", (1, 2), FACTS)
        assert cache.get("a", (1, 2)) is None
    assert not list(tmp_path.iterdir())
