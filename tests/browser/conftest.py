"""A real browser before a real server with a tiny model and an archive of drawn images."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
)
from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.gate.keys import hash_key
from cxrtext_api.settings import Settings
from tests.api.conftest import as_file, grey_picture
from tests.server import served

CHROMIUM = Path(os.environ.get("CHROMIUM") or "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
KEY = "correct-horse-battery"  # of the guarded server
WATCH_POLICY = """
  window.violations = [];
  addEventListener("securitypolicyviolation", (event) => {
    window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
  });
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium; what wants one is skipped where there is none.

    Its event loop counts as running until it ends, and tests of other files want their own.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.is_file():
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS, timeout=0)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def service(model: ImageTextModel, index_folder: Path) -> Service:
    """With an index of 48 images; whoever changes it puts it back.  A server closes it."""
    return Service(model, open_index(index_folder, model))


@pytest.fixture(scope="module")
def url(browser: Any, service: Service) -> Iterator[str]:
    """A server with an index of 48 images, open to this machine."""
    with served(Settings(port=0), service) as address:
        yield address


@pytest.fixture(scope="module")
def guarded_url(
    browser: Any, model: ImageTextModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server without an index that wants a key."""
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"reader read {hash_key(KEY)}\n")
    with served(Settings(port=0, keys_file=path), Service(model)) as address:
        yield address


@contextmanager
def calibrated_as(
    service: Service, aucs: Mapping[str, tuple[float, float, float]], **measured: Any
) -> Iterator[None]:
    """A service that was calibrated for some findings, on 251 images of the test split."""
    findings = {
        name: FindingCalibration(
            positives=10, negatives=20, auc=auc, **measured,
        )
        for name, auc in aucs.items()
    }  # fmt: skip
    service.calibration = KeptCalibration(
        fingerprint=service.model.fingerprint, data="d", measured=("test", 251),
        prompts=service.prompts, findings=findings,
    )  # fmt: skip
    try:
        yield
    finally:
        service.calibration = None


class Watched:
    def __init__(self, page: Any) -> None:
        self.page = page
        self.forgiven: set[int] = set()
        self.said: list[str] = []
        self.failed: list[int] = []
        self.asked: list[str] = []
        page.add_init_script(WATCH_POLICY)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("response", lambda answer: self.failed.append(answer.status))

    def _on_console(self, message: Any) -> None:
        # Statuses are told by the answers themselves.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.said.append(message.text)

    def check(self) -> None:
        """Nothing was said, refused or asked for elsewhere that was not foreseen."""
        assert self.said == []
        assert self.page.evaluate("window.violations ?? []") == []
        assert {status for status in self.failed if status >= 400} <= self.forgiven
        hosts = {one.split("/")[2] for one in self.asked if one.startswith("http")}
        assert all(host.startswith("127.0.0.1:") for host in hosts)


Open = Callable[..., Any]


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """What the tabs share; a key is kept for one tab only."""
    made = browser.new_context(
        viewport={"width": 1440, "height": 900},
        accept_downloads=True,
        reduced_motion="reduce",  # what moves for ever is drawn for ever, by the processor
    )
    made.set_default_timeout(120_000)
    yield made
    made.close()


@pytest.fixture
def watched(context: Any) -> Iterator[Watched]:
    """A new page; console errors, policy violations and failed requests fail the test."""
    page = context.new_page()
    found = Watched(page)
    yield found
    found.check()
    page.close()


@pytest.fixture
def page(watched: Watched) -> Any:
    return watched.page


@pytest.fixture
def visit(page: Any, url: str) -> Open:
    """Open the server's page at a place, and wait until it is ready and something is there."""

    def opened(place: str = "", address: str = "", wait: str = "body") -> Any:
        page.goto(f"{address or url}/{place}")
        page.wait_for_selector("body[data-state=ready]")
        page.wait_for_selector(wait)
        return page

    return opened


@pytest.fixture
def change(page: Any) -> Callable[[Any, Callable[[Any], None]], None]:
    """Lets answers of some addresses come changed."""

    def changing(addresses: Any, edit: Callable[[Any], None]) -> None:
        def changed(route: Any) -> None:
            answer = route.fetch()
            found = answer.json()
            edit(found)
            route.fulfill(response=answer, json=found)

        page.route(addresses, changed)

    return changing


def answered(
    url: str, route: str, accept: str = "application/json", **fields: Any
) -> httpx2.Response:
    headers = {"Accept": accept}
    answer = httpx2.post(f"{url}/v1/{route}", data=fields, headers=headers, timeout=600)
    assert answer.status_code == 200, answer.text
    return answer


def file_of(data: bytes, name: str = "a.png", kind: str = "image/png") -> dict[str, Any]:
    return {"name": name, "mimeType": kind, "buffer": data}


def locate(page: Any, sentence: str) -> None:
    page.fill("#sentence", sentence)
    page.press("#sentence", "Enter")
    page.wait_for_selector(f".result-sentence:text-is({sentence!r})")


def downloaded(page: Any, button: str) -> str:
    with page.expect_download() as saved:
        page.click(button)
    assert saved.value.suggested_filename == "cohort.csv"
    with open(saved.value.path(), newline="") as file:  # noqa: PTH123 - line ends as they are
        return file.read()


@pytest.fixture(scope="session")
def png() -> bytes:
    return as_file(grey_picture(), "png")


VIEWS = {
    "#/read?image=images/s25.png&say=Left effusion.": "#view-read #findings .finding",
    "#/search?query=Effusion.&where=age > 40": "#view-search #results .pick",
    "#/search": "#view-search #results-note .line",
    "#/about": "#view-about .about-card",
}
"""Places, and what is there once they are shown."""


def go(page: Any, place: str) -> None:
    page.evaluate("place => { location.hash = place }", place)
    page.wait_for_selector(VIEWS[place])
    page.wait_for_timeout(100)


def fits(page: Any, width: int) -> None:
    """Nothing sticks out of a screen so wide."""
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, (page.url, width)


CONTRAST = """(controls) => {
  const parse = (text) => {
    const [r, g, b, a = 1] = (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    return { c: [r, g, b], a };
  };
  const over = (top, under) => top.c.map((v, i) => v * top.a + under[i] * (1 - top.a));
  const light = (c) => c.map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => {
    const [a, b] = [light(one), light(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const chain = (node) => {
    const all = [];
    for (let at = node; at; at = at.parentElement) all.unshift(at);
    return all;
  };
  const ground = (node) => chain(node).reduce(
    (under, at) => over(parse(getComputedStyle(at).backgroundColor), under), [255, 255, 255]);
  const faded = (node) => chain(node).reduce((all, at) => all * getComputedStyle(at).opacity, 1);
  const nameOf = (node) => node.id || node.className || node.tagName;
  const poor = [];
  const look = (node, colour, under, least, what) => {
    const found = ratio(over(parse(colour), under), under);
    if (found < least) poor.push(`${what} of ${nameOf(node)}: ${found.toFixed(2)}`);
  };
  const known = [...document.querySelectorAll(controls)];
  for (const node of known) {
    if (!node.checkVisibility() || node.disabled || node.closest(".skip")) continue;
    // Drawn by the browser itself, or by the label beside it.
    if (/^(range|radio|checkbox|file)$/.test(node.type)) continue;
    const style = getComputedStyle(node);
    const under = ground(node);
    if (style.filter !== "none" || faded(node) < 1) poor.push(`${nameOf(node)} is filtered`);
    for (const one of [node, ...node.querySelectorAll("*")]) {
      const own = [...one.childNodes].some((text) => text.nodeType === 3 && text.data.trim());
      if (!own || !one.checkVisibility() || one.closest(":disabled, .skip")) continue;
      look(node, getComputedStyle(one).color, ground(one), 4.5, "text");
    }
    if (/^(TEXTAREA|SELECT|INPUT)$/.test(node.tagName)) {
      look(node, style.color, under, 4.5, "text");
      if (node.placeholder) {
        look(node, getComputedStyle(node, "::placeholder").color, under, 4.5, "placeholder");
      }
      look(node, style.borderTopColor, ground(node.parentElement), 3, "border");
    }
    if (node.matches(":focus-visible") && style.outlineStyle !== "none") {
      look(node, style.outlineColor, ground(node.parentElement), 3, "outline");
    }
  }
  return [...new Set(poor)];
}"""
"""Lists what of some controls, or of the whole "body", is hard to see or to read."""
