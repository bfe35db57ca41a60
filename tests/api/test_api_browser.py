"""The page in a real browser."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.keys import hash_key
from cxrtext_api.serve import listen
from cxrtext_api.settings import Settings

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = Path("/usr/bin/chromium")
KEY = "correct-horse-battery"
PAYLOAD = "<img src=x onerror=\"document.title='owned'\"> effusion <script>1</script>"

pytestmark = pytest.mark.skipif(not CHROMIUM.is_file(), reason="there is no Chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


def serve(settings: Settings, service: Service) -> Iterator[str]:
    listener = listen(settings)
    config = uvicorn.Config(create_app(settings, lambda _: service), log_config=None, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture(scope="module")
def url(model: ImageTextModel, index_folder: Path) -> Iterator[str]:
    yield from serve(Settings(port=0), Service(model, open_index(index_folder, model)))


@pytest.fixture(scope="module")
def guarded_url(model: ImageTextModel) -> Iterator[str]:
    yield from serve(Settings(port=0, keys=(hash_key(KEY),)), Service(model))


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that notes the errors on its console and where it asks."""
    opened = browser.new_page(viewport={"width": 1440, "height": 900})
    opened.set_default_timeout(10_000)
    opened.said, opened.asked = [], []
    opened.on(
        "console", lambda message: message.type == "error" and opened.said.append(message.text)
    )
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.on("request", lambda request: opened.asked.append(request.url))
    yield opened
    opened.close()


def ready(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("body[data-state=ready]")


def heat_is_shown(page: Any) -> bool:
    """Whether there is colour on the canvas."""
    return bool(
        page.evaluate(
            """() => {
              const canvas = document.getElementById("canvas");
              const { width, height } = canvas;
              const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
              for (let i = 0; i < data.length; i += 4) {
                if (Math.abs(data[i] - data[i + 2]) > 40) return true;
              }
              return false;
            }"""
        )
    )


def test_an_image_of_the_archive_is_asked_about(page: Any, url: str) -> None:
    ready(page, url)
    assert page.text_content("#archive-range") == "1–24 of 48"
    page.click("#archive-next")
    page.wait_for_selector("#archive-range:text('25–48 of 48')")
    page.click("#filmstrip .film >> nth=1")
    page.wait_for_selector("#findings .finding")
    assert page.locator("#findings .finding").count() == 5
    assert page.text_content("#image-note") == "images/s25.png\n80 × 80"
    assert not heat_is_shown(page)

    page.click("#findings .finding >> nth=2")
    page.wait_for_selector("#findings .finding.shown")
    assert "“Pleural effusions”" in page.text_content("#heat-note")
    assert heat_is_shown(page)
    page.click("#toggle-heat")
    page.click("#toggle-boxes")
    assert not heat_is_shown(page)

    page.click("#tab-report")
    sentence = page.text_content("#report .line")
    page.click("#report .line")
    page.wait_for_selector("#locate-result .result")
    assert page.text_content(".result-sentence") == sentence
    assert page.locator("#history .line").count() == 2
    assert page.said == []
    assert {address.split("/")[2] for address in page.asked if "blob:" not in address} == {
        url.removeprefix("http://")
    }


def test_search_and_open_a_result(page: Any, url: str) -> None:
    ready(page, url)
    page.click("#tab-search")
    assert page.is_disabled("#similar")
    page.fill("#query", "Left pleural effusion.")
    page.press("#query", "Enter")
    page.wait_for_selector("#results .hit img[src^=blob]")
    assert page.locator("#results .hit").count() == 24
    page.click("#results .hit >> nth=4")
    page.wait_for_selector("#results .hit.open")
    page.click("#similar")
    page.wait_for_selector("#results-title:text('alike')")
    assert "open" in page.get_attribute("#results .hit >> nth=0", "class").split()
    page.click("#fitting")
    page.wait_for_selector("#results .line")
    assert page.locator("#results .line").count() == 3
    assert page.said == []


def test_a_file_is_opened_and_text_stays_text(page: Any, url: str, png: bytes) -> None:
    ready(page, url)
    page.set_input_files("#file", files=[{"name": PAYLOAD, "mimeType": "image/png", "buffer": png}])
    page.wait_for_selector("#findings .finding")
    assert "onerror" in page.text_content("#image-note")
    page.click("#tab-locate")
    page.fill("#sentence", PAYLOAD)
    page.click("#locate-form button")
    page.wait_for_selector("#locate-result .result")
    assert page.text_content(".result-sentence") == PAYLOAD
    assert page.title() == "cxrtext"
    assert page.said == []

    page.set_input_files(
        "#file", files=[{"name": "a.txt", "mimeType": "text/plain", "buffer": b"text"}]
    )
    page.wait_for_selector("#alert:not([hidden])")
    assert page.text_content("#alert-text").startswith("The image is no PNG, JPEG or DICOM file")
    assert "onerror" in page.text_content("#image-note")  # the former image stays


def test_tabs_by_keyboard(page: Any, url: str) -> None:
    ready(page, url)
    page.focus("#tab-findings")
    for key, tab in (("ArrowRight", "locate"), ("End", "report"), ("ArrowRight", "findings")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
        assert page.get_attribute(f"#tab-{tab}", "aria-selected") == "true"
        assert page.locator("[role=tabpanel]:visible").count() == 1


@pytest.mark.parametrize("width", [320, 768])
def test_nothing_sticks_out_of_a_small_screen(page: Any, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    ready(page, url)
    page.click("#filmstrip .film")
    page.wait_for_selector("#findings .finding")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{url}/docs")
    page.wait_for_selector(".schema")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_key_is_asked_for_and_kept_for_the_tab(page: Any, guarded_url: str) -> None:
    page.goto(guarded_url)
    page.wait_for_selector("#key-dialog[open]")
    page.fill("#key", "wrong-wrong-wrong-wrong")
    page.press("#key", "Enter")
    page.wait_for_selector("#key-error:text('does not know this key')")
    page.fill("#key", KEY)
    page.press("#key", "Enter")
    page.wait_for_selector("body[data-state=ready]")
    assert not page.is_visible("#key-dialog")
    page.reload()
    page.wait_for_selector("body[data-state=ready]")
    assert not page.is_visible("#key-dialog")
    assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [
        1,
        0,
        "",
    ]


def test_without_an_index_there_is_no_archive(
    page: Any, guarded_url: str, uploads: dict[str, bytes]
) -> None:
    page.add_init_script(f"sessionStorage.setItem('cxrtext-key', '{KEY}')")
    ready(page, guarded_url)
    assert not page.is_visible("#archive")
    page.click("#tab-search")
    assert page.is_visible("#search-none")
    assert not page.is_visible("#search-body")
    page.set_input_files(
        "#file",
        files=[{"name": "a.dcm", "mimeType": "application/dicom", "buffer": uploads["dicom"]}],
    )
    page.click("#tab-findings")
    page.wait_for_selector("#findings .finding")
    assert page.said == []


def test_the_description_is_drawn(page: Any, url: str) -> None:
    page.goto(f"{url}/docs")
    page.wait_for_selector("#schema-Problem")
    assert page.locator(".route").count() == 10
    text = page.text_content("#route-search")
    assert "/v1/search" in text
    assert "from 1, to 1000, default 10" in text
    assert page.said == []
