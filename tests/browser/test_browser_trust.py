"""The page says how good the model is, and what it knows nothing of."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cxrtext.models.familiar import Familiar
from cxrtext.service import Service
from tests.api.conftest import as_file
from tests.browser.conftest import VIEWS, calibrated_as, file_of, fits, go, locate

IMAGE = "#/read?image=images/s25.png"
UNLIKE = "This image is unlike those the model was trained on. Its answers mean little."


@pytest.fixture
def calibrated(service: Service) -> Iterator[None]:
    """Every finding at about .88; Edema good, Pneumonia near chance, Cardiomegaly not evaluated."""
    good, poor = (0.951, 0.912, 0.981), (0.55, 0.47, 0.63)
    aucs = {**dict.fromkeys(service.prompts, good), "Pneumonia": poor}
    del aucs["Cardiomegaly"]
    with calibrated_as(service, aucs, scale=0.01, shift=2.0):
        yield


def _blank() -> dict[str, Any]:
    return file_of(as_file(np.full((96, 80), 130, np.uint8), "png"), "blank.png")


def _finding(page: Any, name: str) -> Any:
    return page.locator(f"#findings .finding[data-finding='{name}']")


def _shown(page: Any) -> Any:
    page.wait_for_selector("#findings[aria-busy=false] .finding")
    return page


@pytest.mark.usefixtures("calibrated")
def test_each_finding_says_how_well_it_is_detected(visit: Any) -> None:
    """Color is for what is calibrated, above a half, and detected better than by chance."""
    page = _shown(visit(IMAGE))
    said = {
        name: _finding(page, name).locator(".quality").text_content()
        for name in ("Edema", "Pneumonia", "Cardiomegaly")
    }
    assert said == {
        "Edema": "AUC .95 [.91, .98]",
        "Pneumonia": "AUC .55 [.47, .63]",
        "Cardiomegaly": "not calibrated",
    }
    assert page.text_content("#calibration") == "4 of 5 calibrated"
    numbers = [_finding(page, name).locator(".finding-number").text_content() for name in said]
    assert numbers[0] == numbers[1] == "88 %"
    classes = {name: _finding(page, name).get_attribute("class").split() for name in said}
    assert classes["Edema"] == ["finding", "likely"]
    assert classes["Pneumonia"] == ["finding"]
    assert classes["Cardiomegaly"] == ["finding", "uncalibrated"]
    poor = _finding(page, "Pneumonia").locator(".quality")
    assert poor.get_attribute("class") == "quality doubtful"
    assert "Near chance." in poor.get_attribute("title")


def test_a_lateral_view_has_no_sides(change: Any, visit: Any) -> None:
    lateral = {"view": "Lateral"}
    change(
        re.compile(r"/v1/images/images/s25\.png$"), lambda found: found["metadata"].update(lateral)
    )
    page = _shown(visit(IMAGE))
    assert page.locator("#stage.open").count() == 1
    assert page.locator("#stage .side:visible").count() == 0


@pytest.mark.usefixtures("calibrated")
def test_an_unlike_image_is_said_to_be_one(visit: Any) -> None:
    page = _shown(visit(IMAGE))
    assert not page.is_visible("#unlike")
    assert page.locator("#stage .side:visible").all_text_contents() == ["R", "L"]
    left, right = (
        page.locator(f"#stage .side-{side}").bounding_box() for side in ("left", "right")
    )
    assert left["x"] < right["x"]
    page.set_input_files("#file", files=[_blank()])
    page.wait_for_selector("#unlike:visible")
    assert page.text_content("#unlike") == UNLIKE
    assert page.text_content("#calibration") == "Not calibrated"
    assert page.locator(".finding.likely").count() == 0
    said = set(page.locator("#findings .quality").all_text_contents())
    assert said == {"not evaluated"}
    assert page.locator("#stage .side:visible").count() == 0
    muted = _finding(page, "Edema").locator(".finding-number")
    color = muted.evaluate("e => getComputedStyle(e).color")
    page.click("#filmstrip .film >> nth=1")
    page.wait_for_selector("#unlike", state="hidden")
    _shown(page)
    assert muted.evaluate("e => getComputedStyle(e).color") != color


def test_a_sentence_of_other_words_is_said_to_be_one(visit: Any) -> None:
    page = _shown(visit(IMAGE))
    page.click("#tab-locate")
    for sentence, odd in (("Left pleural effusion.", 0), ("asdf qwerty", 1)):
        locate(page, sentence)
        assert page.locator("#locate-result .sentence-unlike").count() == odd
    page.click("#tab-report")
    page.fill("#report", "FINDINGS: Left pleural effusion. The stock market fell.")
    page.click("#report-form button.primary")
    page.wait_for_selector("#verified .checked >> nth=1")
    odd = page.locator("#verified .checked:has(.sentence-unlike)")
    assert odd.count() == 1
    assert "stock market" in odd.text_content()
    page = visit("#/search?query=asdf+qwerty", wait="#found-warning:visible")
    assert "resembles nothing" in page.text_content("#found-warning")


def test_where_nothing_stands_out_there_is_no_color(change: Any, visit: Any) -> None:
    """The scale is the sentence's own: an answer whose grid stays below it is not painted."""
    lower = {"limits": [0.98, 0.99], "stands_out": False}
    change("**/v1/ground", lambda found: found.update(lower))
    page = _shown(visit(IMAGE))
    if page.is_visible("#toggle-boxes"):
        page.click("#toggle-boxes", force=True)
    page.click("#tab-locate")
    locate(page, "Left pleural effusion.")
    page.wait_for_selector(".heat-nothing")
    assert page.text_content(".heat-nothing") == "nothing stands out"
    assert not page.is_visible("#peak")
    read = "document.getElementById('canvas').toDataURL()"
    page.wait_for_timeout(100)
    shown = page.evaluate(read)
    page.click("#toggle-heat")
    page.wait_for_timeout(100)
    assert page.evaluate(read) == shown  # the heat that is taken away was none


def test_a_found_image_that_is_unlike_is_marked(change: Any, visit: Any) -> None:
    def mark(found: Any) -> None:
        for hit, unlike in zip(found["images"], (0.9, 1.2, None), strict=False):
            hit["unlike"] = unlike

    change("**/v1/search", mark)
    page = visit("#/search?query=Left+effusion", wait="#results .pick >> nth=3")
    marked = [pick.locator(".card-unlike").count() for pick in page.locator(".pick").all()[:3]]
    assert marked == [0, 1, 0]


def test_where_the_checkpoint_does_not_say_the_page_says_so(visit: Any, service: Service) -> None:
    known, service.familiar = service.familiar, Familiar()
    try:
        page = _shown(visit(IMAGE))
        assert "It is not known whether" in page.text_content("#findings-foot")
        assert not page.is_visible("#unlike")
    finally:
        service.familiar = known


@pytest.mark.parametrize("at_chance", [True, False])
def test_every_view_warns_of_a_model_at_chance(
    change: Any, visit: Any, page: Any, at_chance: bool
) -> None:
    lines = ["Finds: nothing", "Finds weakly: nothing", "At chance: Edema", "Rests on: 30 images"]
    edema = {"name": "Edema", "figure": "AUC", "value": 0.5, "low": 0.42, "high": 0.58}
    measures = [{**edema, "control": 0.5}]
    warning = "This model is at chance." if at_chance else ""

    def told(found: Any) -> None:
        said = {"measured": True, "at_chance": at_chance, "warning": warning}
        said |= {"lines": lines, "measures": measures}
        found["how_good"] = said

    change("**/v1/model", told)
    visit()
    for place in VIEWS:
        go(page, place)
        assert page.locator("#at-chance").is_visible() == at_chance
        assert page.text_content("#at-chance") == warning
    told_of = page.inner_text(".measure.doubtful")
    assert told_of.split("\n") == ["Edema", "AUC .50 [.42, .58], control .50"]
    assert "Rests on: 30 images" in page.inner_text("#about")
    assert "Finds weakly" not in page.inner_text("#about")
    fits(page, 380)
