"""What the page shows of an image that came from a hospital system."""

from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import build_index, open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.browser.conftest import CONTRAST, fits
from tests.conftest import as_received, write_data
from tests.server import served

RECEIVED = "2026-11-23T06:12:05+00:00"


@pytest.fixture(scope="module")
def received(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of four images, the first two of which came from a peer."""
    folder = write_data(tmp_path_factory.mktemp("received"), 4)
    head, *rows = (folder / "manifest.csv").read_text().splitlines()
    come = [f"archive,{RECEIVED}", f"archive,{RECEIVED}", ",", ","]
    lines = [f"{head},source,came", *map(",".join, zip(rows, come, strict=True))]
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    build_index(folder / "manifest.csv", checkpoint, folder / "index")
    return as_received(folder / "index")


def open_study(visit: Any, image: str, address: str) -> Any:
    page = visit(f"#/read?image=images/{image}.png", address)
    page.click("#tab-study")
    page.wait_for_selector("#study-report .line")
    return page


def test_an_image_of_a_peer_says_so(
    visit: Any, browser: Any, model: ImageTextModel, received: Path
) -> None:
    service = Service(model, open_index(received, model))
    with served(Settings(port=0), service) as address:
        page = open_study(visit, "s00", address)
        said = page.locator("#study-facts div").all_inner_texts()
        when = page.evaluate(f"new Date('{RECEIVED}').toLocaleString()")
        assert "Came from\narchive" in said
        assert f"Received\n{when}" in said
        fits(page, 320)
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(CONTRAST, "body") == []
        page = open_study(visit, "s03", address)
        assert "Came from" not in page.inner_text("#study-facts")
