"""The page by keyboard, and by what a screen reader or a voice calls its controls."""

from typing import Any

import pytest

from tests.browser.conftest import CONTRAST

READ = "#/read?image=images/s25.png&say=Left effusion."
NAMES = """() => [...document.querySelectorAll("button, a, [role=button]")]
  .filter((one) => one.checkVisibility() && one.hasAttribute("aria-label"))
  .map((one) => [one.innerText, one.getAttribute("aria-label")]
    .map((text) => text.toLowerCase().replace(/[^\\p{L}\\p{N}%.]+/gu, " ").trim()))
  .filter(([shown, name]) => !name.includes(shown))"""


def is_open(page: Any, name: str) -> None:
    page.wait_for_selector(f"#image-note:has-text('{name}')")
    page.wait_for_selector("#stage[aria-busy=false]")


def at(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.className"))


def is_pressed(page: Any, name: str, state: str) -> None:
    """A control shows it with the next frame."""
    page.wait_for_selector(f"#{name}[aria-pressed={state}]")


def test_who_opens_by_keyboard_stays_in_the_strip(visit: Any) -> None:
    page = visit()
    page.focus("#filmstrip .film >> nth=0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    is_open(page, "images/s01.png")
    assert at(page) == "film open"
    page.keyboard.press("Tab")
    assert at(page) == "tab-findings"
    page.keyboard.press("Shift+Tab")
    assert at(page) == "film open"
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    is_open(page, "images/s23.png")


def test_the_next_and_the_previous_image(visit: Any) -> None:
    page = visit()
    page.click("#filmstrip .film >> nth=0")
    is_open(page, "images/s00.png")
    page.keyboard.press("p")
    page.keyboard.press("n")
    is_open(page, "images/s01.png")
    page.click("#filmstrip .film >> nth=23")
    is_open(page, "images/s23.png")
    page.keyboard.press("n")
    is_open(page, "images/s24.png")
    assert page.text_content("#archive-range") == "25–48 of 48"
    page.keyboard.press("p")
    is_open(page, "images/s23.png")
    assert page.text_content("#archive-range") == "1–24 of 48"
    page.click("#archive-next")
    page.wait_for_selector("#archive-range:text('25–48 of 48')")
    page.click("#filmstrip .film >> nth=23")
    is_open(page, "images/s47.png")


def test_the_strip_collapses_and_stays_so(visit: Any) -> None:
    page = visit(wait="#filmstrip .film")
    high = page.locator("#stage").bounding_box()["height"]
    page.focus("#toggle-strip")
    page.keyboard.press("Enter")
    assert page.get_attribute("#toggle-strip", "aria-expanded") == "false"
    assert not page.is_visible("#filmstrip")
    assert page.locator("#stage").bounding_box()["height"] > high + 80
    page.reload()
    page.wait_for_selector("body[data-state=ready]")
    assert not page.is_visible("#filmstrip")
    page.evaluate("localStorage.clear()")


def test_keys_work_everywhere_and_can_be_turned_off(visit: Any) -> None:
    page = visit(READ, wait="#findings .finding")
    page.focus("#tab-report")
    page.keyboard.press("Shift+S")
    page.wait_for_selector("#view-search:visible")
    for key in ("/", "i", "?"):
        page.keyboard.press(key)
    assert page.input_value("#query") == "i?"
    page.focus("#keys")
    page.keyboard.press("Shift+R")
    page.keyboard.press("?")
    page.wait_for_selector("#keys-dialog[open]")
    assert page.locator("#keys-list kbd").count() > 20
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(CONTRAST, "#keys-dialog") == []
    page.uncheck("#keys-on")
    page.keyboard.press("Escape")
    page.focus("#tab-report")
    page.keyboard.press("i")
    page.focus("#stage")
    page.keyboard.press("i")
    is_pressed(page, "toggle-invert", "true")  # by the second alone
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (READ, "#overlay:not(.idle)"),
        ("#/search?query=Effusion.", "#results .pick"),
        ("#/about", ".about-card"),
    ],
)
def test_controls_are_called_what_they_show(visit: Any, place: str, wanted: str) -> None:
    page = visit(place)
    page.wait_for_selector(wanted)
    if place == READ:
        page.click("#tab-report")
        page.fill("#report", "Left pleural effusion.")
        page.click("#report-form button.primary")
        for tab in ("report", "findings", "study"):
            page.click(f"#tab-{tab}")
            page.wait_for_selector(f"#panel-{tab} :is(.checked, .finding, .line)")
            assert page.evaluate(NAMES) == []
    assert page.evaluate(NAMES) == []


def test_the_theme_is_the_systems_until_one_is_chosen(visit: Any) -> None:
    page = visit()
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_selector(f"html[data-theme={theme}]")
        seen[theme] = page.evaluate(ground)
    assert seen["dark"] != seen["light"]
    page.click("#theme")
    assert page.evaluate(ground) == seen["dark"]
    visit()
    assert page.evaluate(ground) == seen["dark"]
    page.emulate_media(color_scheme="dark")
    page.click("#theme")
    assert page.evaluate(ground) == seen["light"]
    page.evaluate("localStorage.clear()")
