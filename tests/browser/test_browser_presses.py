"""What may not stay on the page, exports of every length, and controls in every state."""

from typing import Any

import pytest

from tests.browser.conftest import CONTRAST, VIEWS, downloaded, file_of, go, locate

QUERY = "Left pleural effusion."
ASKED = f"#/search?query={QUERY}"
READ = "#/read?image=images/s25.png"


def test_a_wrong_filter_is_told(visit: Any, watched: Any) -> None:
    watched.forgiven = {422}
    page = visit(f"{ASKED}&where=age >= 80 and age < 84", wait="#results .pick")
    page.fill("#where", "age >> 80")
    page.click("#search-form button[type=submit]")
    page.wait_for_selector("#results-note .problem")
    assert "expected" in page.text_content(".problem-text")
    assert page.text_content(".problem .request-id").startswith("Request ")
    assert page.locator("#results .pick").count() == 0


def test_an_upload_that_fails_leaves_no_former_image(visit: Any, watched: Any, png: bytes) -> None:
    watched.forgiven = {422}
    page = visit(READ, wait="#findings[aria-busy=false] .finding")
    page.click("#tab-locate")
    locate(page, QUERY)
    page.set_input_files("#file", files=[file_of(b"text", "a.txt", "text/plain")])
    page.wait_for_selector("#alert:not([hidden])")
    assert "PNG, JPEG or DICOM" in page.text_content("#alert-text")
    assert "Request " in page.text_content("#alert .request-id")
    assert page.locator("#empty-title").inner_text() == "a.txt could not be opened"
    assert page.text_content("#image-note") == ""
    assert page.locator("#locate-result .result").count() == 0
    assert page.locator("#findings .finding").count() == 0
    assert not page.is_visible("#overlay")
    assert page.locator(".film.open").count() == 0
    assert page.is_disabled("#zoom-in")
    assert "image=" not in page.evaluate("location.hash")
    for tab in ("findings", "report", "study"):
        page.click(f"#tab-{tab}")
        panel = page.inner_text(f"#panel-{tab}")
        assert "s25" not in panel
        assert "alibrated" not in panel
    page.click("#tab-findings")
    page.set_input_files("#file", files=[file_of(png, "b.png")])
    page.wait_for_selector("#findings[aria-busy=false] .finding")
    assert page.text_content("#image-note") == "b.png"


def test_findings_that_cannot_be_had_are_told_leave_none_of_another_image_and_are_tried_again(
    visit: Any, watched: Any
) -> None:
    watched.forgiven = {500}
    page = visit(READ, wait="#findings[aria-busy=false] .finding")
    assert page.is_visible("#calibration")
    problem = {"detail": "Something went wrong in the server.", "status": 500}
    answer = {"status": 500, "json": problem, "headers": {"X-Request-ID": "6fa1c7b2"}}
    page.route("**/v1/classify", lambda route: route.fulfill(**answer))
    page.click("#filmstrip .film >> nth=0")
    page.wait_for_selector("#findings .problem")
    assert not page.is_visible("#calibration")
    assert not page.is_visible("#findings-foot")
    assert "Something went wrong" in page.text_content(".problem")
    assert "Request 6fa1c7b2" in page.text_content(".problem")
    page.unroute("**/v1/classify")
    page.click(".problem button")
    page.wait_for_selector("#findings .finding")


def big_table(images: int) -> str:
    """As the server would send it, with a line break in a cell of every row."""
    rows = "".join(f'0.5,i{n},s{n},p{n},train,"a\nb"\r\n' for n in range(images))
    return "score,image,study_id,patient_id,split,note\r\n" + rows


def test_a_long_export_is_whole(visit: Any) -> None:
    page = visit(ASKED, wait="#results .pick")
    table = big_table(25_000)
    answer = {"status": 200, "headers": {"X-Total": "25000", "Content-Type": "text/csv"}}
    page.route("**/v1/search/export", lambda route: route.fulfill(**answer, body=table))
    assert downloaded(page, "#export") == table


def test_an_export_that_was_broken_off_is_told_and_not_saved(visit: Any) -> None:
    page = visit(ASKED, wait="#results .pick")
    table = big_table(24_000) + "# broken off after 24000 of 25000 images\r\n"
    answer = {"status": 200, "headers": {"X-Total": "25000", "Content-Type": "text/csv"}}
    page.route("**/v1/search/export", lambda route: route.fulfill(**answer, body=table))
    downloads: list[Any] = []
    page.on("download", lambda one: downloads.append(one))
    page.click("#export")
    page.wait_for_selector("#alert:not([hidden])")
    assert "The export stopped" in page.inner_text("#alert-text")
    assert "25,000" in page.inner_text("#alert-text")
    assert downloads == []


def test_an_export_can_be_cancelled(visit: Any) -> None:
    page = visit(ASKED, wait="#results .pick")
    page.route("**/v1/search/export", lambda _: None)  # it is not answered
    page.click("#export")
    page.wait_for_selector("#export:text('Cancel export')")
    with page.expect_event("requestfailed", lambda request: "export" in request.url):
        page.click("#export")
    page.wait_for_selector("#export:text('Export table')")
    assert not page.is_visible("#alert")


STATES = {
    "plain": [],
    "hover": ["hover"],
    "pressed": ["hover", "active"],
    "focus": ["focus", "focus-visible"],
}
ONE_OF_A_KIND = ":not(.film ~ .film:not(.open), .card ~ .card *)"
CONTROLS = f":is(button, a, input, textarea, select, summary){ONE_OF_A_KIND}"


def force(page: Any, session: Any, state: list[str]) -> None:
    """Let every control of the page be in a state, as the browser's own inspector does."""
    root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    found = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": CONTROLS})
    for node in found["nodeIds"]:
        given = {"nodeId": node, "forcedPseudoClasses": state}
        session.send("CSS.forcePseudoState", given)
    page.wait_for_timeout(250)  # colours fade over


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_controls_can_be_read_in_every_state(visit: Any, context: Any, theme: str) -> None:
    page = visit()
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    session = context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    found = {}
    for place in VIEWS:
        go(page, place)
        assert page.locator(CONTROLS).count() > 10
        for name, state in STATES.items():
            force(page, session, state)
            found[place, name] = page.evaluate(CONTRAST, CONTROLS)
        force(page, session, [])
    session.detach()
    assert {at: poor for at, poor in found.items() if poor} == {}
