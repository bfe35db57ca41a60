"""A patient's films in time, and two of them beside each other, by keyboard alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import build_index, open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.browser.conftest import CONTRAST, Open, answered, fits
from tests.server import served
from tests.timelines import image_of, write_timelines

NOW, FIRST, SECOND = (image_of("in order", number) for number in (0, 1, 2))
SAY = "Left pleural effusion."


@pytest.fixture(scope="module")
def dated_url(
    browser: Any, model: ImageTextModel, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("dated")
    build_index(write_timelines(folder / "set"), checkpoint, folder / "index")
    with served(Settings(port=0), Service(model, open_index(folder / "index", model))) as address:
        yield address


@pytest.fixture
def reading(visit: Open, dated_url: str) -> Any:
    """Reads an image, with the keys of the viewer."""

    def read(image: str, more: str = "") -> Any:
        page = visit(f"#/read?image={image}{more}", dated_url, "#compare:not([hidden])")
        page.focus("#stage")
        return page

    return read


def is_beside(page: Any, image: str) -> None:
    page.wait_for_selector(f"#prior-stage .top-left:has-text('{image}')")


def looks(page: Any) -> list[Any]:
    """How the two viewers look at their films, once both are drawn."""
    script = """async () => {
      for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
      const { viewers } = await import("/web/read/stage.js");
      return [viewers.prior, viewers.present].map(({ zoom, move, window, invert, overlay }) =>
        ({ zoom, move: [move.x, move.y].map(Math.round), window, invert, heat: overlay.heat }));
    }"""
    found: list[Any] = page.evaluate(script)
    return found


def test_prior_and_present_by_keyboard_alone(reading: Any) -> None:
    page = reading(NOW, f"&say={SAY}")
    page.keyboard.press("c")
    is_beside(page, SECOND)
    assert page.text_content("#prior-caption") == "2020-01-02 07:00 · PA · 59 days earlier"
    assert page.text_content("#present-caption") == "2020-03-01 08:00 · PA"
    left, right = (page.locator(f"#{one}").bounding_box() for one in ("prior-stage", "stage"))
    assert (left["x"] < right["x"], left["y"]) == (True, right["y"])
    assert abs(left["width"] - right["width"]) <= 2
    for key in ("+", "+", "ArrowLeft", "[", "i", "h"):
        page.keyboard.press(key)
    prior, present = looks(page)
    assert prior == present
    assert (present["zoom"] > 1.5, present["invert"], present["heat"]) == (True, True, False)
    page.keyboard.press("r")
    page.keyboard.press("Shift+Tab")  # the prior leads from now on
    assert page.evaluate("document.activeElement.id") == "prior-stage"
    page.keyboard.press("+")
    prior, present = looks(page)
    assert prior["zoom"] == present["zoom"] == 1.25
    page.keyboard.press("c")
    page.wait_for_selector("#prior-film", state="hidden")
    assert page.evaluate("document.activeElement.id") == "stage"


def test_the_viewer_that_takes_the_lead_has_every_change_made_before(reading: Any) -> None:
    page = reading(NOW)
    page.keyboard.press("c")
    is_beside(page, SECOND)
    page.keyboard.press("+")
    looks(page)
    page.evaluate("""() => {  // within one frame, as fast fingers do
      const press = (key) => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true }));
      press("r");
      document.getElementById("prior-stage").focus();
      press("+");
    }""")
    prior, present = looks(page)
    assert prior["zoom"] == present["zoom"] == 1.25


def test_a_sentence_is_scored_on_both(reading: Any, dated_url: str) -> None:
    page = reading(NOW, f"&prior={FIRST}&say={SAY}")
    is_beside(page, FIRST)
    fits_less = [
        answered(dated_url, "ground", image_id=one, sentence=SAY).json()["support"]
        for one in (FIRST, NOW)
    ]
    told = " → ".join(f"{share:.0f} %" for share in fits_less)
    page.wait_for_selector(f"#heat-note .number:text-is('{told}')")
    page.reload()  # the address has both films and the sentence
    page.wait_for_selector(f"#heat-note .number:text-is('{told}')")
    is_beside(page, FIRST)


def test_no_row_without_other_studies_and_a_false_order_is_refused(reading: Any) -> None:
    page = reading(NOW)
    assert page.text_content("#compare-note") == "Study 3 of 5"
    named = "id => import('/web/read/compare.js').then((compare) => compare.open(id))"
    lateral, later, another = (
        image_of("in order", 3),
        image_of("in order", 4),
        "images/undated-0.png",
    )
    for wrong in (lateral, later, another):
        page.evaluate(named, wrong)
        assert not page.is_visible("#prior-film")
    page.evaluate(named, FIRST)
    is_beside(page, FIRST)
    page = reading(image_of("study torn", 0))
    page.wait_for_selector("#compare-note:has-text('dates were shifted unequally')")
    assert page.is_disabled("#beside-prior")
    page.keyboard.press("c")
    assert not page.is_visible("#prior-film")
    page.click("#tab-study")
    assert "In no order: films of one study" in page.text_content("#study-others")
    assert page.locator("#study-others .film").count() == 3
    page.evaluate("id => { location.hash = `#/read?image=${id}` }", image_of("one study", 0))
    page.wait_for_selector("#compare", state="hidden")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_it_fits_a_phone_and_is_seen_in_both_themes(reading: Any, theme: str) -> None:
    page = reading(NOW, f"&prior={SECOND}&say={SAY}")
    is_beside(page, SECOND)
    page.emulate_media(color_scheme=theme)
    page.wait_for_selector(f"html[data-theme={theme}]")
    assert page.evaluate(CONTRAST, "#compare button, #compare, figcaption") == []
    fits(page, 390)
    upper, lower = (page.locator(f"#{one}").bounding_box() for one in ("prior-stage", "stage"))
    assert upper["y"] + upper["height"] <= lower["y"]
    page.set_viewport_size({"width": 1440, "height": 900})
