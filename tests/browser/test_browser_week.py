"""The page says when what was asked last week is not as what the model was calibrated on."""

from typing import Any

import pytest

from cxrtext.service import Service
from cxrtext.service.watch import Judged, Watch
from tests.browser.conftest import fits


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"score of Edema": 2.0, "gray mean": 0.5}, "calibrated on: score of Edema."),
        ({"score of Edema": 0.5}, "412 images of 2026-W48 are as those"),
    ],
)
def test_about_says_whether_last_week_differed(
    visit: Any, page: Any, service: Service, monkeypatch: pytest.MonkeyPatch,
    shares: dict[str, float], said: str,
) -> None:  # fmt: skip
    week = Judged("2026-W48", 412, shares)
    monkeypatch.setattr(Watch, "look", lambda *_: week)
    visit("#/about")
    page.reload()
    page.wait_for_selector("#about h2:has-text('Last week')")
    card = page.locator("#about .about-card", has_text="Last week")
    assert said in card.inner_text()
    assert ("caution" in card.get_attribute("class")) == ("score of Edema." in said)
    fits(page, 390)
