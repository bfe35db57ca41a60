"""Looking at a film: its own windows, ruler, turning, frames, links, keys, a second window."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import httpx2
import numpy as np
import pytest
from PIL import Image

from tests.api.routes.test_api_viewing import GRAYS, deep_film, table
from tests.browser.conftest import CONTRAST, file_of, fits
from tests.browser.test_browser_read import picture

READ = "#/read?image=images/s25.png"
TABLE = """async ([values, said]) => {
  const { scaleOf, table } = await import("/web/read/levels.js");
  const scale = scaleOf({ values: Uint16Array.from(values), said: JSON.parse(said) });
  const shown = table(scale, scale.presets[0], false);
  return values.map((value) => shown[value]);
}"""
BRIGHT = """([across, down]) => {
  const canvas = document.getElementById("canvas");
  const at = [across * canvas.width, down * canvas.height];
  return canvas.getContext("2d").getImageData(...at, 1, 1).data[0];
}"""


def send(page: Any, data: bytes) -> None:
    with page.expect_response("**/v1/classify"):
        page.set_input_files("#file", files=[file_of(data, "film.dcm", "application/dicom")])
    # A banner over an unlike image makes the stage less high.
    page.wait_for_selector("#findings[aria-busy=false] .finding")
    assert page.text_content("#image-note") == "film.dcm"
    page.focus("#stage")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_deep_film_is_windowed_on_its_own_values(visit: Any) -> None:
    """Values that eight bits have as one gray are told apart by a narrow window of the file."""
    page = visit(READ, wait="#findings .finding")
    assert page.locator("#window-preset option").all_text_contents()[0] == "Whole range"
    values = np.full((40, 60), 1000, "<u2")
    values[:, 30:] = 1008
    elements = {"WindowCenter": ["2000", "1004"], "WindowWidth": ["4000", "16"]}
    send(page, deep_film(PixelData=values.tobytes(), **elements)[1])
    shown = page.locator("#window-preset option").all_text_contents()
    assert shown[0] == "NORMAL"
    assert shown[-2] == "HÄRTER"
    sides = [page.evaluate(BRIGHT, [across, 0.5]) for across in (0.3, 0.7)]
    assert sides[1] - sides[0] <= 1
    press(page, "7")
    assert page.text_content("#window-note") == "W 16  L 1004"
    sides = [page.evaluate(BRIGHT, [across, 0.5]) for across in (0.3, 0.7)]
    assert sides == [pytest.approx(255 * share, abs=3) for share in (4 / 15, 12 / 15)]
    press(page, "]")
    assert page.input_value("#window-level") == "1010"


def test_the_pages_windows_are_the_servers(visit: Any, url: str) -> None:
    page = visit()
    for elements in (
        {"WindowWidth": ["40", "1"]},
        {"VOILUTFunction": "SIGMOID", "RescaleIntercept": "-100"},
        {"RescaleSlope": "-1.5", "PhotometricInterpretation": "MONOCHROME1"},
        {"VOILUTSequence": [table((1200, 900), lambda x: 255 * x**2)]},
    ):
        values, film = deep_film(**elements)
        png, deep = (
            httpx2.post(f"{url}/v1/render", files={"image": film}, headers=kind)
            for kind in ({}, GRAYS)
        )
        shown = page.evaluate(TABLE, [values.ravel().tolist(), deep.headers["x-viewing"]])
        expected = np.asarray(Image.open(BytesIO(png.content))).ravel()
        assert np.abs(np.array(shown) - expected).max() <= 1, elements


def test_the_ruler_says_what_a_millimeter_is_of(visit: Any) -> None:
    page = visit(READ, wait="#findings .finding")
    page.focus("#tab-findings")
    press(page, "m")
    assert page.inner_text("#ruler-note").endswith("its file gives no size of a pixel")
    press(page, "Escape")
    assert page.inner_text("#ruler-note") == ""
    send(page, deep_film()[1])
    press(page, "m")
    box = page.locator("#stage").bounding_box()
    a_pixel = 0.2 / min(box["width"] / 60, box["height"] / 40)
    before = float(page.inner_text("#ruler-note").split(" mm")[0])
    assert before == pytest.approx(0.2 * box["width"] * a_pixel, abs=0.06)
    assert "at the detector (ImagerPixelSpacing)" in page.inner_text("#ruler-note")
    press(page, *["ArrowRight"] * 10, "x", *["Shift+ArrowLeft"] * 10)
    after = float(page.inner_text("#ruler-note").split(" mm")[0])
    assert after - before == pytest.approx(90 * a_pixel, abs=0.11)
    zoomed = picture(page)
    press(page, "+", "f", "t")
    assert picture(page) != zoomed
    assert float(page.inner_text("#ruler-note").split(" mm")[0]) == after
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y)
    page.mouse.up()
    assert float(page.inner_text("#ruler-note").split(" mm")[0]) == pytest.approx(
        60 * 0.2 / (min(box["width"] / 40, box["height"] / 60)), abs=0.06
    )


def test_what_is_flipped_and_turned_says_so(visit: Any) -> None:
    page = visit(f"{READ}&say=Left pleural effusion.", wait="#overlay:not(.idle)")
    of = "document.querySelector(`#stage .side-${one}`)"
    sides = f"() => ['left', 'right'].map((one) => {of}.dataset.at)"
    where = "({ left, top }) => [left, top].map(parseFloat)"
    plain, peak = picture(page), page.evaluate(where, page.eval_on_selector(
        "#peak", "(peak) => ({ left: peak.style.left, top: peak.style.top })"))  # fmt: skip
    width = page.evaluate("document.getElementById('stage').clientWidth")
    press(page, "f")
    assert page.evaluate(sides) == ["right", "left"]
    assert "flipped" in page.inner_text("#view-note")
    assert "scores are of the film as stored" in page.inner_text("#view-note")
    left = float(page.eval_on_selector("#peak", "(peak) => parseFloat(peak.style.left)"))
    assert left == pytest.approx(width - peak[0], abs=0.5)
    press(page, "t")
    assert page.evaluate(sides) == ["bottom", "top"]
    press(page, "Shift+T", "f")
    assert picture(page) == plain
    assert page.inner_text("#view-note") == ""


def test_frames_are_read_one_by_one(visit: Any) -> None:
    page = visit()
    values = deep_film()[0]
    pair = {"NumberOfFrames": 2, "PixelData": values.tobytes() + values[::-1].tobytes()}
    with page.expect_response("**/v1/classify") as one:
        send(page, deep_film(**pair)[1])
    assert page.inner_text("#frame") == "Frame 1 of 2"
    first = picture(page)
    press(page, "4")
    note = page.text_content("#window-note")
    with page.expect_response("**/v1/classify") as other:
        press(page, "PageDown")
    assert one.value.json() != other.value.json()
    page.wait_for_selector("#frame:text('Frame 2 of 2')")
    page.wait_for_selector("#stage[aria-busy=false]")
    assert page.text_content("#window-note") == note
    press(page, "r")
    assert picture(page) != first
    page.click("#filmstrip .film >> nth=0")
    page.wait_for_selector("#frames", state="hidden")


def test_a_link_brings_back_film_sentence_and_window(visit: Any, page: Any) -> None:
    visit(f"{READ}&say=Left pleural effusion.", wait="#overlay:not(.idle)")
    press(page, "4", "]", "i", "k")
    page.wait_for_selector("#ruler-note:not(:empty)")
    link, shown = page.url, picture(page)
    assert "say=Left" in link.partition("#")[2]
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#overlay:not(.idle)")
    assert picture(page) == shown
    assert page.get_attribute("#toggle-invert", "aria-pressed") == "true"


def test_keys_work_everywhere_and_can_be_turned_off(visit: Any) -> None:
    page = visit(READ, wait="#findings .finding")
    page.focus("#tab-report")
    press(page, "Shift+S")
    page.wait_for_selector("#view-search:visible")
    press(page, "/", "i", "?")
    assert page.input_value("#query") == "i?"
    page.focus("#keys")
    press(page, "Shift+R", "?")
    page.wait_for_selector("#keys-dialog[open]")
    assert page.locator("#keys-list kbd").count() > 30
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(CONTRAST, "#keys-dialog") == []
    page.uncheck("#keys-on")
    press(page, "Escape")
    page.focus("#tab-report")
    press(page, "i")
    assert page.get_attribute("#toggle-invert", "aria-pressed") == "false"
    page.focus("#stage")
    press(page, "i")
    assert page.get_attribute("#toggle-invert", "aria-pressed") == "true"
    page.evaluate("localStorage.clear()")


def test_a_second_window_follows_the_first(visit: Any, context: Any) -> None:
    page = visit(
        "#/read?image=images/s05.png&say=Left pleural effusion.", wait="#overlay:not(.idle)"
    )
    with context.expect_page() as opened:
        press(page, "w")
    other = opened.value
    asked: list[str] = []
    other.on("request", lambda request: asked.append(request.url))
    other.wait_for_selector("#stage.open")
    for first, second in ((page, other), (other, page)):
        assert first.inner_text("#image-note") == second.inner_text("#image-note")
    press(page, "f")
    other.wait_for_selector("#view-note:has-text('flipped')")
    assert other.locator("#peak:visible").count() == 1
    before = picture(other)
    press(page, "i")
    other.wait_for_function("(before) => canvas.toDataURL() !== before", arg=before)
    press(page, "n")
    other.wait_for_selector("#image-note:has-text('s06')")
    page.goto("about:blank")
    other.wait_for_selector("#image-note:has-text('No film is open')")
    page.go_back()
    page.wait_for_selector("#stage.open")
    other.wait_for_selector("#image-note:has-text('s06')")
    assert not [one for one in asked if "/v1/" in one]
    fits(other, 320)
    other.close()


def test_searches_are_saved_for_the_tab(visit: Any) -> None:
    page = visit("#/search?query=Effusion.&where=age > 60", wait="#results .pick")
    page.focus("#save-search")
    press(page, "Enter")
    page.click("#clear-search")
    page.focus("#saved .line")
    press(page, "Enter")
    page.wait_for_selector("#results .pick")
    assert page.input_value("#where") == "age > 60"
    assert page.evaluate("localStorage.length") == 0
    page.focus("#saved .square")
    press(page, "Enter")
    assert page.locator("#saved li").count() == 0
    assert page.evaluate("document.activeElement.id") == "save-search"


def test_films_of_a_study_have_names_of_their_own(
    visit: Any, change: Callable[[Any, Callable[[Any], None]], None]
) -> None:
    def one_study(found: Any) -> None:
        for one, view in zip(found["images"], ("PA", "LL", "PA", "PA"), strict=False):
            one |= {"study_id": "1.2.826.0.1.3680043.77", "metadata": {"view": view}}
        found["images"][0]["metadata"]["date"] = "20210304"

    change("**/v1/images?*", one_study)
    page = visit()
    names = page.locator("#filmstrip .film").evaluate_all(
        "(all) => all.map((one) => one.innerText)"
    )
    assert len(set(names)) == len(names)
    assert names[0].split("\n") == ["….3680043.77", "2021-03-04", "PA"]
    assert names[2].endswith("s02")
    assert json.dumps(names).count("LL") == 1
