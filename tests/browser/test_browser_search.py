"""The Search view in a real browser."""

import csv
import io
from typing import Any

from tests.browser.conftest import answered, downloaded, file_of

QUERY = "Left pleural effusion."
ASKED = f"#/search?query={QUERY}"


def search(url: str, without: tuple[str, ...] = (), **fields: Any) -> Any:
    return answered(url, "search", **{"k": 40, "not": without, **fields}).json()


def requests_for(page: Any, word: str) -> list[str]:
    """The addresses with a word in them that the page asks from now on; grows by itself."""
    asked: list[str] = []

    def note(request: Any) -> None:
        if word in request.url:
            asked.append(request.url)

    page.on("request", note)
    return asked


def shown(page: Any) -> list[str]:
    page.wait_for_selector("#found[aria-busy=false]")
    return list(
        page.eval_on_selector_all("#results .pick", "all => all.map((one) => one.dataset.id)")
    )


def found(answer: Any) -> list[str]:
    return [hit["image_id"] for hit in answer["images"]]


def test_a_sentence_finds_images_page_by_page(visit: Any, url: str) -> None:
    page = visit("#/search")
    assert page.is_visible("#results-note .hint")
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_selector("#results .pick")
    answer = search(url, query=QUERY)
    assert shown(page) == found(answer)
    score = page.text_content("#results .score >> nth=0")
    assert score == f"{answer['images'][0]['score']:.3f}".replace("-", "−")
    assert page.text_content("#found-title").startswith("40 of 48 images")
    page.wait_for_selector("#results .thumb img[src^=blob]")
    page.click("#more")
    page.wait_for_selector("#results .pick >> nth=47")
    assert shown(page) == found(search(url, query=QUERY, k=48))
    assert not page.is_visible("#more")

    page.fill("#not", "Right pneumothorax.\nThe lungs are clear.")
    page.click("#search-form button[type=submit]")
    page.wait_for_function("location.hash.includes('not=')")
    without = ("Right pneumothorax.", "The lungs are clear.")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(search(url, query=QUERY, without=without))
    page.go_back()
    page.wait_for_function("document.getElementById('not').value === ''")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(answer)


def test_filters_are_built_and_kept_in_the_address(visit: Any, url: str) -> None:
    page = visit(ASKED)
    page.click("#add-filter")
    page.select_option(".filter-column", "age")
    page.select_option(".filter-operator", ">=")
    page.fill(".filter-value", "80")
    page.click("#add-filter")
    page.select_option(".filter >> nth=1 >> .filter-column", "patient_id")
    page.select_option(".filter >> nth=1 >> .filter-operator", "!=")
    page.fill(".filter >> nth=1 >> .filter-value", "p4'5")
    where = "age >= 80 and patient_id != 'p4''5'"
    assert page.input_value("#where") == where
    page.select_option("#unique", "patient")
    page.press("#min-score", "Enter")
    page.wait_for_selector("#found-title:has-text('8 images')")
    assert shown(page) == found(search(url, query=QUERY, where=where, unique="patient"))
    page.reload()
    page.wait_for_selector("#results .pick")
    assert page.input_value("#where") == where
    assert page.locator(".filter").count() == 2
    assert page.input_value(".filter >> nth=1 >> .filter-value") == "p4'5"
    assert page.input_value("#unique") == "patient"


def test_a_cohort_is_selected_and_saved(visit: Any, url: str) -> None:
    page = visit(ASKED, wait="#results .pick")
    ids = shown(page)
    assert page.is_disabled("#export-selected")
    page.click("#results .pick >> nth=1")
    page.click("#results .pick >> nth=4", modifiers=["Shift"])
    page.click("#results .pick >> nth=2")
    assert page.text_content("#selected") == "3 selected"
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "#export-selected"))))
    assert [row["image"] for row in rows] == [ids[1], ids[3], ids[4]]
    whole = downloaded(page, "#export-all")
    assert whole == answered(url, "search", "text/csv", query=QUERY, k=1000).text
    assert page.text_content("#export-all") == "Export all"
    assert page.text_content("#export-progress") == ""
    of_server = list(csv.DictReader(io.StringIO(whole)))
    assert [list(row) for row in rows] == [list(of_server[0])] * 3
    assert rows == [of_server[1], of_server[3], of_server[4]]
    page.click("#select-all")
    assert page.text_content("#selected") == "40 selected"
    page.click("#select-none")
    assert page.text_content("#selected") == ""


def test_a_table_runs_nothing_in_a_spreadsheet(visit: Any) -> None:
    page = visit("#/about")
    hit = {
        "score": -0.5,
        "image_id": '=HYPERLINK("x"),1',
        "study_id": "@s",
        "patient_id": "+1",
        "split": "-x",
        "metadata": {"note": "a\nb", "=f()": "\tx"},
        "labels": {"Edema": 0.25},
    }
    text = page.evaluate("async (hit) => (await import('/web/search/cohort.js')).asCsv([hit])", hit)
    header, row = list(csv.reader(io.StringIO(text, newline="")))
    assert header[-2:] == ["'=f()", "label.Edema"]
    assert row == ["-0.5", '\'=HYPERLINK("x"),1', "'@s", "'+1", "'-x", "a\nb", "'\tx", "0.25"]


def test_a_map_is_shown_while_a_result_is_looked_at(visit: Any) -> None:
    page = visit(ASKED, wait="#results .pick")
    asked = requests_for(page, "ground")
    page.focus("#results .pick >> nth=0")
    page.wait_for_selector("#results .card >> nth=0 >> .heat")
    both = "[1, 2].forEach((n) => document.querySelectorAll('#results .pick')[n].focus())"
    page.evaluate(both)  # one is left before it was asked
    page.wait_for_selector("#results .card >> nth=2 >> .heat")
    assert page.locator(".heat").count() == 1
    page.focus("#results .pick >> nth=0")
    page.wait_for_selector("#results .card >> nth=0 >> .heat")
    assert len(asked) == 2


def test_images_like_an_image_and_both(visit: Any, url: str, png: bytes) -> None:
    page = visit(ASKED, wait="#results .pick")
    first = shown(page)[0]
    page.click("#results .card-actions >> nth=0 >> text=More like this")
    page.wait_for_selector(f"#like-name:text-is('{first}')")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(search(url, image_id=first))
    assert "image=" in page.evaluate("location.hash")
    page.check("#others")
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_function("location.hash.includes('others=1')")
    page.wait_for_selector("#results .pick")
    both = search(url, query=QUERY, image_id=first, image_weight=0.5, other_patients="true")
    assert shown(page) == found(both)
    assert first not in shown(page)
    page.click("#clear-search")
    page.set_input_files("#like-file", files=[file_of(png, "mine.png")])
    page.wait_for_selector("#results .pick")
    assert page.text_content("#like-name") == "mine.png"
    assert "mine" not in page.evaluate("location.hash")


def test_sentences_are_found(visit: Any) -> None:
    page = visit("#/search")
    page.check("[name=target][value=sentences]", force=True)
    assert not page.is_visible("#not")
    assert page.is_visible("#where")
    page.fill("#query", "pleural effusion")
    page.press("#query", "Enter")
    page.wait_for_selector("#results .line")
    assert page.locator("#results .line").count() == 3
    page.fill("#where", "age < 0")
    page.press("#query", "Enter")
    page.wait_for_selector("#found-title:text('No sentences')")
    page.fill("#where", "")
    page.press("#query", "Enter")
    page.wait_for_selector("#results .line >> nth=2")
    assert "16 studies" in page.text_content("#results .line >> nth=0")
    page.click("#results .line >> nth=0")
    page.wait_for_selector("#results .pick")


def test_by_keyboard_alone(visit: Any) -> None:
    page = visit()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skips to the view
    assert page.evaluate("document.activeElement.id") == "views"
    page.focus("#nav-search")
    page.keyboard.press("Enter")
    page.wait_for_selector("#query:visible")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "query":
            break
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#results .pick")
    ids = shown(page)
    for _ in range(24):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "pick":
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.get_attribute("#results .pick >> nth=1", "aria-pressed") == "true"
    page.keyboard.press("ArrowDown")
    at = page.evaluate("document.activeElement.dataset.id")
    assert ids.index(at) > 2
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#image-note:has-text('{at}')")


def test_a_thousand_results_do_not_load_a_thousand_pictures(visit: Any, url: str) -> None:
    page = visit("#/search")
    answer = search(url, query=QUERY)
    hits = [{**answer["images"][i % 40], "image_id": f"images/s{i:02}.png"} for i in range(1000)]
    many = {**answer, "images": hits, "matching": 1000, "k": 1000}
    page.route("**/v1/search", lambda route: route.fulfill(json=many))
    page.route("**/rendered?**", lambda route: route.fulfill(status=204))
    loaded = requests_for(page, "rendered")
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_selector("#results .pick >> nth=999", state="attached")
    page.wait_for_selector("#results .thumb img[src^=blob] >> nth=4", state="attached")
    page.wait_for_timeout(500)
    assert 4 < len(loaded) < 100


def test_a_superseded_search_does_not_show(visit: Any, url: str) -> None:
    page = visit("#/search")
    held: list[Any] = []

    def hold(route: Any) -> None:
        if "first" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/search", hold)
    page.fill("#query", "first")
    with page.expect_event("requestfailed", lambda request: "search" in request.url):
        page.press("#query", "Enter")
        page.wait_for_selector("#results .skeleton-card >> nth=0")
        page.fill("#query", QUERY)
        page.press("#query", "Enter")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(search(url, query=QUERY))
    assert len(held) == 1
