"""The page's files: complete, from this server only, and nothing in line."""

import re
from importlib.resources import files
from pathlib import Path
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient


def linked(path: str, text: str, kind: str) -> set[str]:
    """Addresses that a file of the page loads."""
    if kind.startswith("text/html"):
        return set(re.findall(r'(?:src|href)="(/web/[^"]+)"', text))
    if kind.startswith("text/javascript"):
        return {urljoin(path, name) for name in re.findall(r'from "(\.[^"]+)"', text)}
    return set()


def everything(client: TestClient) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    todo = {"/"}
    while todo:
        path = todo.pop()
        response = client.get(path)
        assert response.status_code == 200, path
        found[path] = response.text, response.headers["content-type"]
        todo |= linked(path, *found[path]) - set(found)
    return found


def test_what_the_pages_load_is_served_and_nothing_is_from_elsewhere(client: TestClient) -> None:
    found = everything(client)
    assert found["/"][0].count("Research use only. Not a medical device.") == 1
    kinds = {path.rpartition(".")[2]: kind for path, (_, kind) in found.items() if "." in path}
    assert kinds == {
        "js": "text/javascript; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "svg": "image/svg+xml",
    }
    assert found["/"][1] == "text/html; charset=utf-8"
    assert {"/web/main.js", "/web/read/viewer.js"} <= set(found)
    served = {path.removeprefix("/web/") for path in found if path.startswith("/web/")}
    web = Path(str(files("cxrtext_api"))) / "web"
    shipped = {str(file.relative_to(web)) for file in web.rglob("*") if file.is_file()}
    assert served | {"index.html"} == shipped  # nothing is left over
    for path, (text, _) in found.items():
        others = re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", text)
        assert not [one for one in others if path != "/web/lib/icon.svg"], path


def test_nothing_is_in_line_and_no_text_becomes_markup(client: TestClient) -> None:
    for path, (text, kind) in everything(client).items():
        if kind.startswith("text/html"):
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), path
            assert not re.search(r"<script(?![^>]*\ssrc=)", text), path
        if kind.startswith("text/javascript"):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(", text
            ), path


@pytest.mark.parametrize("path", ["/", "/web/main.js"])
def test_a_file_that_did_not_change_is_not_sent_again(client: TestClient, path: str) -> None:
    first = client.get(path)
    assert first.headers["etag"]
    assert first.headers["last-modified"]
    again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"
    assert again.headers["x-content-type-options"] == "nosniff"
    other = client.get(path, headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.text) == (200, first.text)
