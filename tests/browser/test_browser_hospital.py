"""What the page shows of an image that came from a hospital system, and of what was sent back."""

import sqlite3
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import build_index, open_index
from cxrtext.models import ImageTextModel
from cxrtext.pacs.results.folder import FILE, Kept, ResultsFolder
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.browser.conftest import CONTRAST, fits
from tests.conftest import as_received, write_data
from tests.server import served

RECEIVED, SENTENCE = "2026-11-23T06:12:05+00:00", "Left pleural effusion."


@pytest.fixture(scope="module")
def received(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of four images, the first two of which came from a peer."""
    folder = write_data(tmp_path_factory.mktemp("received"), 4)
    head, *rows = (folder / "manifest.csv").read_text().splitlines()
    come = [f"archive,{RECEIVED}", f"archive,{RECEIVED}", ",", ","]
    lines = [f"{head},source,came", *map(",".join, zip(rows, come, strict=True))]
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    build_index(folder / "manifest.csv", checkpoint, folder / "index")
    return as_received(folder / "index")


def keep(folder: ResultsFolder, kind: str, **more: Any) -> str:
    """Note a result of the first study; its UID."""
    facts: dict[str, Any] = {field.name: f"{kind} {field.name}" for field in fields(Kept)}
    facts |= {"kind": kind, "study_id": "s00", "sentence": SENTENCE, "made": RECEIVED}
    facts |= {"instance": f"2.25.{len(folder.all()) + 1}", "revoked": None, "calibrated": 0}
    facts |= {"probability": 0.776, **more}
    with sqlite3.connect(folder.path / FILE) as database:
        marks = ",".join("?" * len(facts))
        database.execute(f"INSERT INTO results VALUES ({marks})", [*facts.values()])  # noqa: S608
    return str(facts["instance"])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four results of two sentences: two sent, one of these revoked, two sent to nobody."""
    folder = ResultsFolder(tmp_path_factory.mktemp("results"))
    sent = [keep(folder, "sc"), keep(folder, "sr")]
    folder.note_sent(sent, "archive")
    folder.note_revoked(sent[1:])
    keep(folder, "gsps")
    keep(folder, "sc", sentence='<img src=x onerror="window.owned=1">', probability=None)
    return folder.path


@pytest.fixture(scope="module")
def hospital_url(
    browser: Any, model: ImageTextModel, received: Path, results: Path
) -> Iterator[str]:
    service = Service(model, open_index(received, model))
    with served(Settings(port=0, results=results), service) as address:
        yield address


def open_study(visit: Any, image: str, address: str) -> Any:
    page = visit(f"#/read?image=images/{image}.png", address)
    page.click("#tab-study")
    page.wait_for_selector("#study-report .line")
    return page


def test_an_image_of_a_peer_says_so_and_what_was_sent_back(visit: Any, hospital_url: str) -> None:
    page = open_study(visit, "s00", hospital_url)
    page.wait_for_selector("#study-results .sent")
    said = page.locator("#study-facts div").all_inner_texts()
    when = page.evaluate(f"new Date('{RECEIVED}').toLocaleString()")
    assert "Came from\narchive" in said
    assert f"Received\n{when}" in said
    assert page.inner_text("#study-results h3").casefold() == "dicom results"
    sentences = page.locator(".sent-sentence").all_inner_texts()
    assert sentences[0] == f"{SENTENCE}\n78 %, not calibrated"
    assert sentences[1].endswith("no probability")
    first, second, third, fourth = page.locator(".sent li").all_inner_texts()
    assert first.startswith("Heatmap: sent to archive, ")
    assert "taken back" not in first
    assert second.startswith("Report: sent to archive, ")
    assert "\ntaken back, " in second
    assert third == "Annotations: sent to nobody"
    assert fourth == "Heatmap: sent to nobody"
    assert page.evaluate("window.owned") is None
    fits(page, 320)
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(CONTRAST, "body") == []


def test_a_study_without_results_and_one_that_came_from_nowhere(
    visit: Any, hospital_url: str
) -> None:
    page = open_study(visit, "s03", hospital_url)
    page.wait_for_selector("#study-results:has-text('None was made of this study.')")
    assert "Came from" not in page.inner_text("#study-facts")


def test_results_that_cannot_be_read_are_not_taken_for_none(
    visit: Any, watched: Any, hospital_url: str
) -> None:
    watched.forgiven = {500}
    watched.page.route("**/v1/results*", lambda route: route.fulfill(status=500, json={}))
    page = open_study(visit, "s00", hospital_url)
    page.wait_for_selector("#study-results:has-text('cannot be read now')")
    assert page.locator(".sent").count() == 0


def test_a_server_without_results_says_nothing_of_them(
    visit: Any, watched: Any, model: ImageTextModel, received: Path
) -> None:
    service = Service(model, open_index(received, model))
    with served(Settings(port=0), service) as address:
        page = open_study(visit, "s00", address)
        page.wait_for_timeout(200)
        assert page.inner_text("#study-results") == ""
        assert not [one for one in watched.asked if "/v1/results" in one]
