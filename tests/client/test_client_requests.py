"""The client's side alone: what it sends, what it makes of answers, when it asks again."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cxrtext.client import ApiError, Client, ImageId
from cxrtext.errors import ConfigError, CxrTextError, ImageError

URL = "http://localhost:8000"
KEY = "0123456789abcdef"

Make = Callable[..., Client]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


@pytest.fixture
def seen() -> list[httpx2.Request]:
    return []


@pytest.fixture
def make(seen: list[httpx2.Request]) -> Iterator[Make]:
    """A client of a server that gives these answers in turn, and the last one ever after."""
    opened: list[httpx2.Client] = []

    def made(*answers: httpx2.Response, **options: Any) -> Client:
        def answer(request: httpx2.Request) -> httpx2.Response:
            request.read()
            seen.append(request)
            return answers[min(len(seen), len(answers)) - 1]

        opened.append(http := httpx2.Client(transport=httpx2.MockTransport(answer)))
        return Client(URL, http=http, **options)

    yield made
    for http in opened:
        http.close()


def problem(status: int, detail: str, **headers: str) -> httpx2.Response:
    body = {"type": "about:blank", "title": "A title", "status": status, "detail": detail}
    sent = {"Content-Type": "application/problem+json", "X-Request-ID": "r1", **headers}
    return httpx2.Response(status, content=json.dumps(body), headers=sent)


def test_an_error_tells_what_the_server_told(make: Make) -> None:
    client = make(problem(422, "the sentence is empty"))
    with pytest.raises(CxrTextError, match=r"the sentence is empty.*r1") as caught:
        client.model()
    error = caught.value
    assert isinstance(error, ApiError)
    assert (error.status, error.title, error.detail) == (422, "A title", "the sentence is empty")
    assert error.request_id == "r1"


def test_the_fields_that_are_wrong_are_told(make: Make) -> None:
    body = {"title": "T", "detail": "D.", "errors": [{"field": "k", "message": "too large"}]}
    client = make(httpx2.Response(422, json=body))
    with pytest.raises(ApiError, match=r"D\. k: too large\."):
        client.search("Effusion.")


@pytest.mark.parametrize("content", [b"<html>Bad gateway</html>", b"", b"[1]", b"\xff"])
def test_an_answer_of_a_proxy_between(make: Make, content: bytes) -> None:
    client = make(httpx2.Response(502, content=content))
    with pytest.raises(ApiError, match="Bad Gateway") as caught:
        client.model()
    assert (caught.value.status, caught.value.request_id) == (502, None)


def test_an_export_is_waited_for_and_given_as_it_arrives(make: Make, waits: list[float]) -> None:
    busy = problem(503, "busy", **{"Retry-After": "10"})
    client = make(busy, httpx2.Response(200, text="a\r\n"))
    assert "".join(client.export("Effusion.")) == "a\r\n"
    assert waits == [10.0]


def test_an_export_that_breaks_off_ends_in_an_error(make: Make) -> None:
    class Broken(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"score,image\r\n"
            raise httpx2.RemoteProtocolError("closed")

    parts = make(httpx2.Response(200, stream=Broken())).export("Effusion.")
    assert next(parts) == "score,image\r\n"
    with pytest.raises(ApiError, match="RemoteProtocolError"):
        next(parts)


def test_no_redirect_is_followed(make: Make, seen: list[httpx2.Request]) -> None:
    answer = httpx2.Response(307, headers={"Location": "http://elsewhere.example/"})
    with pytest.raises(ApiError) as caught:
        make(answer, key=KEY).model()
    assert caught.value.status == 307
    assert [str(request.url) for request in seen] == [f"{URL}/v1/model"]


def test_a_busy_server_is_asked_again(make: Make, waits: list[float]) -> None:
    busy = problem(503, "busy", **{"Retry-After": "2"})
    client = make(busy, busy, httpx2.Response(200, json={"deleted": 1}))
    assert client.delete_images(["a.png"]) == 1
    assert waits == [2, 2]


def test_the_whole_upload_is_sent_again(
    make: Make, waits: list[float], seen: list[httpx2.Request]
) -> None:
    client = make(problem(503, "busy", **{"Retry-After": "1"}), problem(422, "enough"))
    with pytest.raises(ApiError, match="enough"):
        client.classify(b"some bytes")
    assert [request.content.count(b"some bytes") for request in seen] == [1, 1]


@pytest.mark.parametrize(
    ("status", "headers", "tries"),
    [
        (503, {"Retry-After": "1"}, 4),
        (503, {}, 1),
        (503, {"Retry-After": "3600"}, 1),
        (503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 1),
        (429, {"Retry-After": "1"}, 1),
        (500, {"Retry-After": "1"}, 1),
    ],
)
def test_asking_again_is_bounded(
    make: Make,
    waits: list[float],
    seen: list[httpx2.Request],
    status: int,
    headers: dict[str, str],
    tries: int,
) -> None:
    with pytest.raises(ApiError) as caught:
        make(problem(status, "no", **headers), retries=3).model()
    assert caught.value.status == status
    assert (len(seen), len(waits)) == (tries, tries - 1)


def test_a_server_that_is_not_there() -> None:
    with Client("http://127.0.0.1:9", timeout=2) as client:
        assert client.ready() is False
        with pytest.raises(ApiError, match="cannot be reached") as caught:
            client.model()
    assert caught.value.status == 0


def test_ready_does_not_wait(make: Make, waits: list[float]) -> None:
    client = make(
        problem(503, "no", **{"Retry-After": "1"}),
        httpx2.Response(200, json={"status": "ready"}),
        problem(400, "another host"),
    )
    assert (client.ready(), client.ready()) == (False, True)
    with pytest.raises(ApiError):
        client.ready()
    assert waits == []


def test_what_is_sent(make: Make, seen: list[httpx2.Request], tmp_path: Path) -> None:
    client = make(problem(422, "enough"), key=KEY)
    file = tmp_path / "Doe_John.png"
    file.write_bytes(b"pixels")
    for ask in (
        lambda: client.ground(file, "Effusion.", 0.5, as_written=True),
        lambda: client.search(["A.", "B."], ImageId("a.png"), without=["C."], k=3, mode="exact"),
        lambda: client.image("a b/ü.png"),
        lambda: client.cohort("A."),
    ):
        with pytest.raises(ApiError, match="enough"):
            ask()
    ground, search, image, cohort = seen
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in seen)
    assert ground.headers["content-type"].startswith("multipart/form-data")
    assert b"pixels" in ground.content
    assert b'name="as_written"\r\n\r\ntrue' in ground.content
    assert b"Doe" not in ground.content  # a file's name can name a patient
    assert search.headers["content-type"] == "application/x-www-form-urlencoded"
    assert search.content == b"image_id=a.png&query=A.&query=B.&not=C.&k=3&mode=exact"
    assert image.url.raw_path == b"/v1/images/a%20b/%C3%BC.png"
    assert cohort.headers["accept"] == "text/csv"


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://a", "http://", "http://a b"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="address is wrong"):
        Client(url)


@pytest.mark.parametrize("key", ["a b", "a\r\nX: y", "schlüssel"])
def test_a_key_that_is_none(key: str) -> None:
    with pytest.raises(ConfigError, match="the key has") as caught:
        Client(URL, key)
    assert key not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with Client(URL) as client, pytest.raises(ImageError, match="No such file"):
        client.classify(tmp_path / "none.png")


def test_importing_it_is_light() -> None:
    code = (
        "import sys, cxrtext.client\n"
        "heavy = {'torch', 'fastapi', 'starlette', 'httpx2', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
