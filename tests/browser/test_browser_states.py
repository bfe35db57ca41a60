"""What the page shows when things are not as they should be, and on screens of every size."""

from typing import Any

from cxrtext.service import Service
from tests.browser.conftest import CONTRAST, KEY, VIEWS, calibrated_as, file_of, fits, go

PAYLOAD = '<img src=x onerror="window.owned=1">\'"><script>window.owned=1</script>'


def test_a_key_is_asked_for_and_kept_for_the_tab(page: Any, watched: Any, guarded_url: str) -> None:
    watched.forgiven = {401}
    page.goto(guarded_url)
    page.wait_for_selector("#key-dialog[open]")
    page.click("#key-cancel")
    page.wait_for_selector("body[data-state=locked]")
    assert page.text_content("#gate-title") == "This server needs a key"
    assert not page.is_visible(".view")
    page.click("#gate-button")
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
    kept = page.evaluate("[sessionStorage.length, Object.values(localStorage), document.cookie]")
    assert kept == [1, [], ""]


def test_what_was_measured_is_shown(visit: Any, service: Service) -> None:
    edema = {"Edema": (0.951, 0.912, 0.981)}
    with calibrated_as(service, edema, scale=2.0, shift=-1.0, error_before=0.3, error_after=0.062):
        page = visit("#/about")
        page.wait_for_selector(".measure")
        told = "Edema\nAUC .95 [.91, .98], control .50, calibration off by .06"
        assert page.inner_text(".measure") == told
        assert "251 images of the split “test”" in page.inner_text("#about")
        assert "Probabilities are calibrated on the validation images" in page.inner_text("#about")
    page.reload()
    page.wait_for_selector(".about-card")
    assert page.locator(".measure").count() == 0


def test_without_an_index_files_can_be_read(page: Any, guarded_url: str, png: bytes) -> None:
    page.add_init_script(f"sessionStorage.setItem('cxrtext-key', '{KEY}')")
    page.goto(guarded_url)
    page.wait_for_selector("body[data-state=ready]")
    assert not page.is_visible("#archive")
    page.set_input_files("#file", files=[file_of(png)])
    page.wait_for_selector("#findings .finding")
    page.click("#nav-search")
    page.wait_for_selector("#search-none:visible")
    assert not page.is_visible("#search-form")
    page.click("#nav-about")
    text = page.inner_text("#about")
    assert "No index is loaded." in text
    assert "read" in text
    assert "write" not in text


def test_a_busy_server_is_asked_again(visit: Any, watched: Any) -> None:
    page = visit()
    watched.forgiven = {503}
    turns = iter([True, False])

    def busy(route: Any) -> None:
        if not next(turns, False):
            route.continue_()
            return
        route.fulfill(
            status=503,
            headers={"Retry-After": "1", "Content-Type": "application/problem+json"},
            json={"title": "Service Unavailable", "detail": "More requests are waiting."},
        )

    page.route("**/v1/classify", busy)
    page.clock.install(time=0)
    page.clock.pause_at(3600)  # the second is over when the test says so
    page.click("#filmstrip .film >> nth=0")
    page.wait_for_selector("#waiting:visible")
    text = page.text_content("#waiting-text")
    assert text == "More requests are waiting. Trying again in 1 s (2 of 6)."
    page.clock.resume()
    page.wait_for_selector("#findings .finding")
    assert not page.is_visible("#waiting")


def test_only_a_file_is_asked_as_one(page: Any, visit: Any, png: bytes) -> None:
    """A proxy asks what comes without one again of another server."""
    visit()
    with page.expect_request("**/v1/classify") as known:
        page.click("#filmstrip .film >> nth=0")
    page.wait_for_selector("#findings .finding")
    with page.expect_request("**/v1/classify") as new:
        page.set_input_files("#file", files=[file_of(png)])
    page.wait_for_selector("#findings .finding")
    kinds = [one.value.headers["content-type"].partition(";")[0] for one in (known, new)]
    assert kinds == ["application/x-www-form-urlencoded", "multipart/form-data"]


def poisoned(value: Any) -> Any:
    """A value with every string of it replaced by markup that would run."""
    if isinstance(value, dict):
        return {name: poisoned(one) for name, one in value.items()} | (
            {PAYLOAD: PAYLOAD} if "view" in value or "age" in value else {}
        )
    if isinstance(value, list):
        return [poisoned(one) for one in value]
    return PAYLOAD if isinstance(value, str) and value not in {"images", "sentences"} else value


def test_no_string_of_an_answer_runs(visit: Any, watched: Any) -> None:
    watched.forgiven = {404, 422}
    page = watched.page

    def poison(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=poisoned(answer.json()))

    page.route("**/v1/{model,columns,classify,ground,verify,search}", poison)
    page.route("**/v1/images/images/s25.png", poison)
    page.route("**/v1/images?*", poison)
    visit(next(iter(VIEWS)))
    page.wait_for_selector("#findings .finding-item, #findings .problem")
    for tab in ("locate", "report", "study"):
        page.click(f"#tab-{tab}")
    page.click("#tab-report")
    page.click("#report-of-study")
    page.wait_for_selector("#verified .checked, #verified .problem")
    for view in ("search?query=Effusion.", "about"):
        page.evaluate(f"location.hash = '#/{view}'")
        page.wait_for_timeout(400)
    assert "onerror" in page.inner_text("#about")
    page.unroute_all(behavior="wait")
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x], script:not([src])").count() == 0


def test_nothing_sticks_out(visit: Any) -> None:
    page = visit()
    for place in VIEWS:
        go(page, place)
        for width in (320, 768, 1024):
            fits(page, width)


def test_text_can_be_read_in_both_themes(visit: Any) -> None:
    page = visit()
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        for place in VIEWS:
            go(page, place)
            assert page.evaluate(CONTRAST, "body") == [], (theme, place)


def test_the_film_comes_first(visit: Any) -> None:
    """On a laptop's screen it has at least 68 % of the height, beside one row of controls."""
    page = visit(next(iter(VIEWS)), wait="#findings .finding")
    for width, height in ((1366, 768), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(50)
        assert page.locator("#stage").bounding_box()["height"] >= 0.68 * height
        assert page.locator(".toolbar").bounding_box()["height"] < 40
        rows = page.locator("#findings .finding-item").all()
        assert all(row.bounding_box()["height"] < 40 for row in rows)
    page.set_viewport_size({"width": 1440, "height": 900})


def test_films_of_a_study_have_names_of_their_own(visit: Any, change: Any) -> None:
    def one_study(found: Any) -> None:
        for one, view in zip(found["images"], ("PA", "LL", "PA", "PA"), strict=False):
            one |= {"study_id": "1.2.826.0.1.3680043.77", "metadata": {"view": view}}
        found["images"][0]["metadata"]["date"] = "20210304"

    change("**/v1/images?*", one_study)
    page = visit(wait="#filmstrip .film")
    names = page.locator("#filmstrip .film").evaluate_all("all => all.map((one) => one.innerText)")
    assert len(set(names)) == len(names)
    assert names[0].split("\n") == ["….3680043.77", "2021-03-04 · PA"]
    assert names[2].endswith("s02")
    assert sum("LL" in name for name in names) == 1
