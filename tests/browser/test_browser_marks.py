"""Marks on the page: by mouse and by keyboard, kept over a reload, and only where one may."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.records.marks import marks_beside, read_marks
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


def test_a_verdict_is_kept_and_comes_back(visit: Open, index: Path) -> None:
    page = visit(READ, wait=SHOWN)
    page.click(button("Edema", "wrong"))
    pressed = f"{button('Edema', 'wrong')}[aria-pressed=true]"
    page.wait_for_selector(pressed)
    page.focus(button("Pneumonia", "right"))
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{button('Pneumonia', 'right')}[aria-pressed=true]")
    page.reload()
    page.wait_for_selector(pressed)
    page.click(button("Edema", "unclear"))
    page.wait_for_selector(f"{button('Edema', 'wrong')}[aria-pressed=false]")
    marks = [one for one in read_marks(marks_beside(index)) if one.kind == "finding"]
    assert [(one.text, one.verdict) for one in marks] == [
        ("Pneumonia", "right"), ("Edema", "unclear"),
    ]  # fmt: skip


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
    kinds = {one.text: one.kind for one in read_marks(marks_beside(index))}
    assert kinds["Left effusion."] == "sentence"
    assert (kinds["Right effusion."], kinds["Effusion."]) == ("box", "hit")


def test_a_box_is_drawn_by_mouse_and_by_keyboard(visit: Open, index: Path) -> None:
    page = visit(READ, wait=SHOWN)
    page.click("#tab-locate")
    page.fill("#draw-word", "nodule")
    page.press("#draw-word", "Enter")
    page.wait_for_selector(".draw-layer:focus")
    for key in ("ArrowLeft", "ArrowUp", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector("#drawn-boxes .line:has-text('nodule')")
    page.fill("#draw-word", "mass")
    page.press("#draw-word", "Enter")
    at = page.locator("#canvas").bounding_box()
    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 180, y + 120)
    page.mouse.up()
    page.click("#draw-keep")
    page.wait_for_selector("#drawn-boxes .line:has-text('mass')")
    page.fill("#draw-word", "none")
    page.press("#draw-word", "Enter")
    page.wait_for_selector(".draw-layer:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector(".draw-layer", state="detached")
    boxes = {one.text: one.box for one in read_marks(marks_beside(index), "images/s25.png")}
    side = side_of(page)
    assert boxes["nodule"] == pytest.approx(
        (side / 3 - 4, side / 3 - 4, side / 3 + 4, side / 3), abs=0.2
    )
    mass = boxes["mass"]
    assert mass is not None
    assert mass[:2] == pytest.approx((side / 2, side / 2), abs=2)
    assert mass[2] / mass[3] == pytest.approx(180 / 120, rel=0.1)
    assert "none" not in boxes


def side_of(page: Any) -> int:
    return int(page.inner_text("#image-note").split("\n")[1].split(" ")[0])


def test_who_may_not_mark_sees_no_buttons(visit: Open, change: Any) -> None:
    change("**/v1/model", lambda said: said["access"].update(scopes=["read"]))
    page = visit(READ, wait=SHOWN)
    assert page.locator(".marks").count() == 0
    page.click("#tab-locate")
    assert page.is_hidden("#drawing")
