"""What the page shows of an image that came from a hospital system, and what is held."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import build_index, open_index
from cxrtext.models import ImageTextModel
from cxrtext.pacs.inbox.deletions import deletion
from cxrtext.pacs.inbox.desk import list_held
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.service import Service
from cxrtext_api.gate.keys import hash_key
from cxrtext_api.settings import Settings
from tests.browser.conftest import CONTRAST, KEY, fits
from tests.conftest import as_received, write_data
from tests.pacs.studies import PLANTED, instance, uid
from tests.pacs.test_worker import oru
from tests.server import served

RECEIVED = "2026-11-23T06:12:05+00:00"


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


def open_study(visit: Any, image: str, address: str) -> Any:
    page = visit(f"#/read?image=images/{image}.png", address)
    page.click("#tab-study")
    page.wait_for_selector("#study-report .line")
    return page


def test_an_image_of_a_peer_says_so(
    visit: Any, browser: Any, model: ImageTextModel, received: Path
) -> None:
    service = Service(model, open_index(received, model))
    with served(Settings(port=0), service) as address:
        page = open_study(visit, "s00", address)
        said = page.locator("#study-facts div").all_inner_texts()
        when = page.evaluate(f"new Date('{RECEIVED}').toLocaleString()")
        assert "Came from\narchive" in said
        assert f"Received\n{when}" in said
        fits(page, 320)
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(CONTRAST, "body") == []
        page = open_study(visit, "s03", address)
        assert "Came from" not in page.inner_text("#study-facts")


@pytest.fixture
def desk(
    browser: Any, model: ImageTextModel, index_copy: Path, tmp_path: Path
) -> Iterator[tuple[str, Inbox]]:
    """A server beside an inbox that holds two images, a deletion and two reports."""
    two: dict[str, Any] = {"AccessionNumber": "A000001", "PatientID": f"{PLANTED}000001"}
    objects = [instance(1), instance(2, **two), instance(3), instance(1, 2, PatientID="OTHER^1")]
    keys = tmp_path / "keys"
    keys.write_text(f"boss read,admin {hash_key(KEY)}\nreader read {hash_key('reader')}\n")
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        for one in objects:
            inbox.put("PACS", one)
        inbox.put("RIS", oru(1, "Nodule of two studies."), "message")
        inbox.put("RIS", oru(3, "Clear.").replace(b"000003^^^", b"000099^^^"), "message")
        inbox.put("PACS", instance(4)[:3000])  # fails
        inbox.put("PACS", deletion(uid(3, 1, 1)), "deletion", held="one of many deletions at once")
        with Worker(inbox, WorkerSettings(index_copy, tmp_path / "archive", readers=1)) as worker:
            worker.drain()
        settings = Settings(port=0, inbox=inbox.folder, keys_file=keys)
        with served(settings, Service(model, open_index(index_copy, model))) as address:
            yield address, inbox


def enter_key(page: Any, address: str, key: str) -> None:
    page.goto(f"{address}/#/held")
    page.fill("#key", key)
    page.press("#key", "Enter")
    page.wait_for_selector("body[data-state=ready]")


def card(page: Any, name: str) -> Any:
    return page.locator(f"#held-list li:has(#held-{name})")


def test_what_is_held_is_decided_by_keyboard_and_read_in_both_themes(
    watched: Any, desk: tuple[str, Inbox]
) -> None:
    page, (address, inbox) = watched.page, desk
    watched.forgiven = {401}
    names = {one.what + one.state: one.name for one in list_held(inbox)}
    enter_key(page, address, KEY)
    page.wait_for_selector("#held-list li")
    assert page.inner_text("#held-title") == "5 waiting for a decision"
    held = names["objectheld"]
    said = card(page, held).inner_text()
    assert "Its study is under two patients" in said
    assert "nobody can see or find this image" in said
    assert "everybody still sees the image" in card(page, names["deletionheld"]).inner_text()
    assert "names another patient than its study" in card(page, "r2").inner_text().lower()
    for width in (320, 768, 1024):
        fits(page, width)
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(CONTRAST, "body") == []
    page.keyboard.press("Shift+A")
    page.keyboard.press("Shift+H")
    page.wait_for_selector("#view-held:visible li")
    # A report of two studies is joined to the one that is named.
    assert card(page, "r1").locator("button:text-is('Accept')").count() == 0
    page.focus("#held-list li:has(#held-r1) input")
    page.keyboard.press("Control+A")
    page.keyboard.type(uid(2))
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#held-said:text-is('report r1: joined to {uid(2)}.')")
    fits(page, 320)
    inner = "document.querySelector('#view-held').{}Width"
    assert page.evaluate(inner.format("scroll")) <= page.evaluate(inner.format("client"))
    # The focus is on the next one; what is dropped is asked for twice.
    assert page.evaluate(
        "document.activeElement.closest('li').contains(document.querySelector('#held-r2'))"
    )
    card(page, "r2").locator("button:text-is('Drop')").press("Enter")
    assert card(page, "r2").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("#held-said:text-is('report r2: dropped.')")
    card(page, held).locator("button:text-is('Accept')").press("Enter")
    page.wait_for_selector(f"#held-said:text-is('object {held}: accepted.')")
    assert {one.name for one in list_held(inbox)} == {
        names["objectfailed"], names["deletionheld"],
    }  # fmt: skip
    assert card(page, names["objectfailed"]).locator("button:text-is('Try again')").count() == 1


def test_who_may_not_decide_sees_no_desk(watched: Any, desk: tuple[str, Inbox]) -> None:
    page, (address, _) = watched.page, desk
    watched.forgiven = {401}
    enter_key(page, address, "reader")
    assert page.locator("#nav-held").is_hidden()
    assert page.locator("#view-read").is_visible()
    page.keyboard.press("Shift+H")
    assert page.locator("#view-held").is_hidden()
    assert not [one for one in watched.asked if one.endswith("/v1/held")]


def test_where_there_is_no_gateway_there_is_no_desk(visit: Any) -> None:
    page = visit("#/held")
    assert page.locator("#nav-held").is_hidden()
    assert page.locator("#view-read").is_visible()
