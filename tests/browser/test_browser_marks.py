"""What readers say on the page: kept over a reload, and only where one may."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.records.marks import marks_beside, page_of_marks
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.browser.conftest import Open, locate
from tests.server import served

READ = "#/read?image=images/s25.png"
SHOWN = "#findings .finding"


@pytest.fixture(scope="module")
def index(index_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(index_folder, tmp_path_factory.mktemp("marked") / "index"))


@pytest.fixture(scope="module")
def url(browser: Any, model: ImageTextModel, index: Path) -> Iterator[str]:
    with served(Settings(port=0), Service(model, open_index(index, model))) as address:
        yield address


def button(thing: str, verdict: str) -> str:
    return f"button[aria-label='{thing}: {verdict}']"


def test_what_a_reader_says_of_a_finding_is_kept_and_comes_back(
    visit: Open, change: Any, index: Path
) -> None:
    """It is on the finding, whichever way the model leans."""

    def lean(said: Any) -> None:
        for one in said["findings"]:
            one["probability"] = 0.2 if one["finding"] == "Pneumonia" else 0.8

    change("**/v1/classify", lean)
    page = visit(READ, wait=SHOWN)
    page.click(button("Edema", "absent"))
    pressed = f"{button('Edema', 'absent')}[aria-pressed=true]"
    page.wait_for_selector(pressed)
    page.focus(button("Pneumonia", "absent"))
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{button('Pneumonia', 'absent')}[aria-pressed=true]")
    page.reload()
    page.wait_for_selector(pressed)
    page.wait_for_selector(f"{button('Pneumonia', 'absent')}[aria-pressed=true]")
    marks = [one for one in page_of_marks(marks_beside(index))[0] if one.kind == "finding"]
    assert [(one.text, one.said, one.verdict, one.value) for one in marks] == [
        ("Edema", True, "wrong", 0), ("Pneumonia", False, "right", 0),
    ]  # fmt: skip
    page.click(button("Edema", "unsure"))
    page.wait_for_selector(f"{button('Edema', 'absent')}[aria-pressed=false]")
    marks = [one for one in page_of_marks(marks_beside(index))[0] if one.text == "Edema"]
    assert [one.verdict for one in marks] == ["unclear"]


def test_sentences_regions_and_hits_are_marked(visit: Open, change: Any, index: Path) -> None:
    boxes = [{"bbox": [10, 10, 20, 20], "score": 0.5}]
    change("**/v1/ground", lambda said: said.update(stands_out=True, boxes=boxes))
    page = visit(READ, wait=SHOWN)
    page.click("#tab-report")
    page.fill("#report", "FINDINGS: Left effusion.")
    page.click("#report-form .primary")
    page.click(button("Left effusion.", "wrong"))
    page.wait_for_selector(f"{button('Left effusion.', 'wrong')}[aria-pressed=true]")
    page.click("#tab-locate")
    locate(page, "Right effusion.")
    page.click(f"#locate-result {button('Right effusion.', 'right')}")
    page.wait_for_selector(f"{button('Right effusion.', 'right')}[aria-pressed=true]")
    page = visit("#/search?query=Effusion.", wait="#results .pick")
    first = f"#results .card:first-child {button('Effusion.', 'wrong')}"
    page.click(first)
    page.wait_for_selector(f"{first}[aria-pressed=true]")
    kinds = {one.text: one.kind for one in page_of_marks(marks_beside(index))[0]}
    assert kinds["Left effusion."] == "sentence"
    assert (kinds["Right effusion."], kinds["Effusion."]) == ("box", "hit")


def test_who_may_not_mark_sees_no_buttons(visit: Open, change: Any) -> None:
    change("**/v1/model", lambda said: said["access"].update(scopes=["read"]))
    page = visit(READ, wait=SHOWN)
    assert page.locator(".marks").count() == 0
