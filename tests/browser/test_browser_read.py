"""The Read view in a real browser."""

from base64 import b64decode
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import pytest
from PIL import Image, ImageStat

from tests.browser.conftest import answered, file_of, locate

IMAGE = "images/s25.png"
PAYLOAD = '<img src=x onerror="window.owned=1"> effusion <script>window.owned=1</script>'
READ = f"#/read?image={IMAGE}"


def next_frame(page: Any) -> None:
    """Wait until what was asked is drawn: pictures and their controls follow once a frame."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => done(0)))")


def asked(url: str, route: str, **fields: str) -> Any:
    return answered(url, route, image_id=IMAGE, **fields).json()


def picture(page: Any) -> str:
    next_frame(page)
    return str(page.evaluate("document.getElementById('canvas').toDataURL()"))


def brightness(page: Any) -> float:
    """Mean grey of the middle of the canvas."""
    shown = Image.open(BytesIO(b64decode(picture(page).partition(",")[2]))).convert("RGB")
    x, y = shown.width // 2, shown.height // 2
    return ImageStat.Stat(shown.crop((x - 50, y - 50, x + 50, y + 50))).mean[0]


def numbers(page: Any) -> list[str]:
    page.wait_for_selector("#findings[aria-busy=false] .finding")
    return list(page.locator("#findings .finding-number").all_text_contents())


def as_shown(answer: Any) -> list[str]:
    return [f"{100 * finding['probability']:.0f} %" for finding in answer["findings"]]


def find(page: Any, sentence: str) -> str:
    locate(page, sentence)
    return picture(page)


def test_an_image_of_the_archive_is_opened(visit: Any, url: str) -> None:
    page = visit()
    assert page.text_content("#archive-range") == "1–24 of 48"
    page.click("#archive-next")
    page.wait_for_selector("#archive-range:text('25–48 of 48')")
    page.click("#filmstrip .film >> nth=1")
    assert numbers(page) == as_shown(asked(url, "classify"))
    assert page.text_content("#image-note") == f"{IMAGE}\n80 × 80"
    assert unquote(page.evaluate("location.hash")) == READ
    page.click("#tab-study")
    assert "p25" in page.text_content("#study-facts")
    page.wait_for_selector("#study-report .line")


def test_the_heatmap_is_what_the_api_says(visit: Any, url: str) -> None:
    page = visit(READ, wait="#findings .finding")
    plain = picture(page)
    page.click("#tab-locate")
    one = find(page, "Left pleural effusion.")
    found = asked(url, "ground", sentence="Left pleural effusion.")
    fits = f"{found['support']:.0f} %"
    assert page.text_content(".result-number") == page.text_content("#heat-note .number") == fits
    assert [page.text_content(f"#legend-{end}") for end in ("low", "high")] == ["75 %", "99 %"]
    stage, peak = page.locator("#stage").bounding_box(), page.locator("#peak").bounding_box()
    scale = min(stage["width"] / 80, stage["height"] / 80)
    left, top = (stage["width"] - 80 * scale) / 2, (stage["height"] - 80 * scale) / 2
    assert peak["x"] + 9 == pytest.approx(stage["x"] + left + scale * found["peak"][0], abs=1.5)
    assert peak["y"] + 9 == pytest.approx(stage["y"] + top + scale * found["peak"][1], abs=1.5)

    two = find(page, "Right pneumothorax.")
    assert len({plain, one, two}) == 3
    assert find(page, "Left pleural effusion.") == one
    page.click("#toggle-heat")
    assert picture(page) != one
    page.click("#toggle-boxes")
    assert picture(page) == plain
    assert not page.is_visible("#peak")
    assert "say=Left" in page.evaluate("location.hash")
    page.click("#hide-found")
    assert not page.is_visible("#legend")
    assert "say" not in page.evaluate("location.hash")


def test_window_level_zoom_and_invert_by_keyboard_and_mouse(visit: Any) -> None:
    page = visit(READ, wait="#findings .finding")
    whole, grey = picture(page), brightness(page)
    page.focus("#stage")
    page.keyboard.press("i")
    assert brightness(page) == pytest.approx(255 - grey, abs=2)
    assert page.get_attribute("#toggle-invert", "aria-pressed") == "true"
    page.keyboard.press("i")
    for _ in range(4):
        page.keyboard.press("]")
    next_frame(page)
    assert page.text_content("#window-note") == "W 256  L 152"
    assert brightness(page) < grey - 15
    page.keyboard.press("2")
    next_frame(page)
    assert page.input_value("#window-preset") == "other"  # "auto" is measured
    for _ in range(3):
        page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#fit:text('195 %')")
    page.keyboard.press("r")
    assert picture(page) == whole

    box = page.locator("#stage").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 300)
    page.mouse.down(button="right")
    page.mouse.move(box["x"] + 340, box["y"] + 320)
    page.mouse.up(button="right")
    next_frame(page)
    assert page.text_content("#window-note") == "W 196  L 108"
    page.mouse.wheel(0, -400)
    page.wait_for_selector("#fit:not(:text('100 %'))")
    page.click("#reset")
    assert picture(page) == whole


def test_a_report_is_checked(visit: Any, url: str) -> None:
    page = visit(READ)
    page.click("#tab-report")
    page.click("#report-of-study")
    page.wait_for_selector("#verified .checked")
    page.fill("#report", "FINDINGS: Left pleural effusion. No pneumothorax.")
    page.click("#report-form button[type=submit]")
    page.wait_for_selector("#verified .checked >> nth=1")
    answer = asked(url, "verify", report="FINDINGS: Left pleural effusion. No pneumothorax.")
    shown = page.locator("#verified .checked")
    assert shown.count() == len(answer["sentences"]) == 2
    for place, sentence in enumerate(answer["sentences"]):
        text = shown.nth(place).inner_text()
        assert sentence["sentence"] in text
        assert sentence["wording"] in text
        assert (sentence["verdict"] or "not judged") in text.lower()
        if sentence["support"] is not None:
            assert f"{sentence['support']:.0f} %" in text
    assert {one["wording"] for one in answer["sentences"]} == {"affirmed", "negated"}
    before = picture(page)
    shown.nth(0).click()
    assert page.get_attribute("#verified .checked >> nth=0", "aria-current") == "true"
    one = picture(page)
    shown.nth(1).click()
    assert len({before, one, picture(page)}) == 3
    assert "effusion" not in unquote(page.evaluate("location.hash"))


def test_a_file_is_opened_dropped_and_its_name_stays_text(visit: Any, png: bytes) -> None:
    page = visit()
    page.set_input_files("#file", files=[file_of(png, PAYLOAD)])
    page.wait_for_selector("#findings .finding")
    assert page.text_content("#image-note") == PAYLOAD
    page.click("#tab-locate")
    page.fill("#sentence", PAYLOAD)
    page.click("#locate-form button")
    page.wait_for_selector("#locate-result .result")
    assert page.text_content(".result-sentence") == PAYLOAD
    assert page.evaluate("window.owned") is None
    page.evaluate(
        """async () => {
          const bytes = await (await fetch("/v1/images/images/s01.png/rendered")).blob();
          const given = new DataTransfer();
          given.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
          const event = new DragEvent("drop", { dataTransfer: given, bubbles: true });
          document.getElementById("stage").dispatchEvent(event);
        }"""
    )
    page.wait_for_selector("#image-note:text-is('dropped.png')")


def test_a_model_that_sees_films_as_a_whole_is_not_asked_where(visit: Any, change: Any) -> None:
    change("**/v1/model", lambda about: about.update(says_where=False))
    page = visit(READ)
    numbers(page)
    page.route("**/v1/ground", lambda _: pytest.fail("asked where"))
    page.click("#findings .finding")
    page.click("#tab-locate")
    assert page.is_visible("#sees-whole")
    assert page.is_hidden("#locate-form")
    assert page.is_hidden("#overlay")
    assert "see where" not in page.text_content("#findings-foot")


def test_tabs_by_keyboard(visit: Any) -> None:
    page = visit()
    page.focus("#tab-findings")
    for key, tab in (("ArrowRight", "locate"), ("End", "study"), ("ArrowRight", "findings")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
        assert page.get_attribute(f"#tab-{tab}", "aria-selected") == "true"
        assert page.locator("[role=tabpanel]:visible").count() == 1
