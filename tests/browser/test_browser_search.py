"""The Search view in a real browser."""

from typing import Any

import httpx2

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
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_selector("#found-title:has-text('40 of 48 images for “Left pleural effusion.”')")
    answer = search(url, query=QUERY)
    assert shown(page) == found(answer)
    score = page.text_content("#results .card-head .number >> nth=0")
    assert score == f"similarity {answer['images'][0]['score']:.2f}".replace("-", "−")
    page.wait_for_selector("#results .thumb img[src^=blob]")
    page.click("#more")
    page.wait_for_selector("#results .pick >> nth=47")
    assert shown(page) == found(search(url, query=QUERY, k=48))
    assert not page.is_visible("#more")

    page.fill("#not", "Right pneumothorax.\nThe lungs are clear.")
    page.click("#search-form button[type=submit]")
    page.wait_for_selector("#found-title:has-text('not “Right')")
    without = ("Right pneumothorax.", "The lungs are clear.")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(search(url, query=QUERY, without=without))
    page.go_back()
    page.wait_for_function("document.getElementById('not').value === ''")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(answer)


def test_a_search_begins_with_examples_of_the_archive(visit: Any, url: str) -> None:
    page = visit("#/search", wait="#results .pick >> nth=11")
    said = page.locator("#results-note .line").all_text_contents()
    report = httpx2.get(f"{url}/v1/images/images/s00.png").json()["report"]
    assert report[0]["sentence"] == said[0]
    assert 2 < len(set(said)) == len(said) <= 8
    page.click("#results-note .line >> nth=0")
    page.wait_for_selector("#found-title:has-text('40 of 48 images')")
    assert page.input_value("#query") == said[0]
    page.click("#clear-search")
    page.wait_for_selector("#results-note .line")


def test_a_filter_names_columns_and_is_kept_in_the_address(visit: Any, url: str) -> None:
    page = visit(ASKED)
    page.click("#columns-body summary")
    page.click("#columns button:text-is('age')")
    assert page.input_value("#where").startswith("age >= ")
    page.click("#columns button:text-is('split')")
    assert " and split = '" in page.input_value("#where")
    where = "age >= 80 and patient_id != 'p4''5'"
    page.fill("#where", where)
    page.select_option("#unique", "patient")
    page.press("#min-score", "Enter")
    page.wait_for_selector("#found-title:has-text('8 images')")
    assert shown(page) == found(search(url, query=QUERY, where=where, unique="patient"))
    page.reload()
    page.wait_for_selector("#results .pick")
    assert page.input_value("#where") == where
    assert page.input_value("#unique") == "patient"


def test_the_table_of_a_search_is_the_servers(visit: Any, url: str) -> None:
    page = visit(f"{ASKED}&where=age > 60", wait="#results .pick")
    table = downloaded(page, "#export")
    assert table == answered(url, "search", "text/csv", query=QUERY, where="age > 60", k=1000).text
    assert page.text_content("#export") == "Export table"
    assert page.text_content("#export-progress") == ""


def test_images_like_an_image_and_both(visit: Any, url: str, png: bytes) -> None:
    page = visit(ASKED, wait="#results .pick")
    first = shown(page)[0]
    page.click("#results .card-actions >> nth=0 >> text=Similar")
    page.wait_for_selector(f"#like-name:text-is('{first}')")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(search(url, image_id=first))
    assert "image=" in page.evaluate("location.hash")
    page.check("#others")
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_selector(f"#found-title:has-text('for “{QUERY}”, like')")
    page.wait_for_selector("#results .pick")
    both = search(url, query=QUERY, image_id=first, other_patients="true")
    assert shown(page) == found(both)
    assert first not in shown(page)
    page.click("#clear-search")
    page.set_input_files("#like-file", files=[file_of(png, "mine.png")])
    page.wait_for_selector("#results .pick")
    assert page.text_content("#like-name") == "mine.png"
    assert "mine" not in page.evaluate("location.hash")


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
    page.keyboard.press("ArrowDown")
    at = page.evaluate("document.activeElement.dataset.id")
    assert ids.index(at) > 2
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#image-note:has-text('{at}')")
    page.wait_for_selector("#overlay:not(.idle)")  # and where it fits
    assert "say=Left" in page.evaluate("location.hash")
    page.go_back()
    page.wait_for_selector("#view-search:visible")


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
        page.wait_for_selector("#found-title:text('Searching…')")
        page.fill("#query", QUERY)
        page.press("#query", "Enter")
    page.wait_for_selector("#results .pick")
    assert shown(page) == found(search(url, query=QUERY))
    assert len(held) == 1
