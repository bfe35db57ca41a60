"""What a request may cost: its size, and how many there are."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.formparsers import FormParser, MultiPartParser
from starlette.requests import Request

from cxrtext.service import Service
from cxrtext_api.gate.door import DRAIN_BYTES, FORMS, MAX_TEXT_BYTES, Body, answer_and_drain
from cxrtext_api.problems import problem_response
from cxrtext_api.runtime.scope import Budget
from cxrtext_api.settings import Settings
from tests.api.conftest import Held, check_problem, serving


def test_more_requests_than_may_be_in(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    find = Held(service.find_image)
    monkeypatch.setattr(service, "find_image", find)
    with serving(service, Settings(concurrency=1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.get, "/v1/images/images/s01.png")
        assert find.begun.wait(600)
        check_problem(client.get("/v1/images"), 503, "waiting")
        for path in ("/healthz", "/readyz", "/metrics"):
            assert client.get(path).status_code == 200
        find.go_on.set()
        assert first.result(600).status_code == 200
        assert client.get("/v1/images").status_code == 200


def receive_from(*chunks: bytes, last: bool = True) -> Any:
    """A server's receive that gives these parts of a body."""
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.sleep(3600)
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left) or not last}

    return receive


async def read(body: Body) -> bytes:
    whole = b""
    while True:
        message = await body.receive()
        whole += bytes(message["body"])
        if not message["more_body"]:
            return whole


def test_half_sent_bodies_are_counted_together_from_their_first_byte() -> None:
    async def run() -> None:
        held = Budget(10)
        halves = [Body(receive_from(b"abc", last=False), 100, held) for _ in range(3)]
        for half in halves:
            await half.receive()
        one = Body(receive_from(b"abc", b"d"), 100, held)
        with pytest.raises(HTTPException) as raised:
            await read(one)
        assert (raised.value.status_code, held.taken) == (503, 9)
        halves[0].give_back()
        assert await read(Body(receive_from(b"abc", b"d"), 100, held)) == b"abcd"

    asyncio.run(run())


def test_what_still_comes_after_an_answer_is_not_counted() -> None:
    async def run() -> None:
        served = Body(receive_from(b"abc"), 1, Budget(1))
        served.note({"status": 200})
        assert (await served.receive())["body"] == b"abc"
        assert served.received == 0

    asyncio.run(run())


def test_texts_are_let_in_however_much_is_held_of_files(service: Service, png: bytes) -> None:
    with serving(service) as client:
        held = client.app.state.held
        assert held.take(held.amount - 10)
        assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200
        check_problem(client.post("/v1/classify", files={"image": png}), 503, "waiting")
        assert 'rejected_requests_total{reason="queue"} 1.0' in client.get("/metrics").text
        held.give(held.amount - 10)
        assert client.post("/v1/classify", files={"image": png}).status_code == 200
        assert held.taken == 0


def test_no_route_parses_more_than_it_can_use(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is sent to whichever address, with its length in the head or without."""
    parsed: list[str] = []
    monkeypatch.setattr(Request, "json", parsed.append)
    for parser in (FormParser, MultiPartParser):
        monkeypatch.setattr(parser, "parse", parsed.append)
    sent = b"&" * (MAX_TEXT_BYTES + 1)
    with serving(service) as client:
        asked = [
            (method, re.sub(r"\{[^}]*\}", "x", route.path), kind)
            for route in client.app.state.routes
            for method in sorted((route.methods or set()) - {"HEAD", "OPTIONS"})
            for kind in ("application/json", FORMS[1], "text/plain", "")
        ]
        assert len({path for _, path, _ in asked}) > 15
        for method, path, kind in asked:
            headers = {"Content-Type": kind} if kind else {}
            declared = client.request(method, path, content=sent, headers=headers)
            check_problem(declared, 413, "larger")
        assert parsed == []
        monkeypatch.undo()
        headers = {"Content-Type": FORMS[1]}
        chunks = client.post("/v1/search", content=iter([sent[:9], sent]), headers=headers)
        check_problem(chunks, 413, "larger")
        counted = f'rejected_requests_total{{reason="size"}} {len(asked) + 1}.0'
        assert counted in client.get("/metrics").text


def test_a_refused_body_is_read_on_up_to_a_bound() -> None:
    answered: list[dict[str, Any]] = []
    seen: list[int] = []

    async def receive() -> dict[str, Any]:
        seen.append(len(answered))
        return {"type": "http.request", "body": bytes(2**20), "more_body": True}

    async def send(message: Any) -> None:
        answered.append(message)

    scope = {"type": "http", "method": "POST", "headers": []}
    asyncio.run(answer_and_drain(problem_response("id", 413), scope, receive, send))
    assert len(seen) == DRAIN_BYTES / 2**20
    assert set(seen) == {2}, "the answer is sent before the body is read on"
    assert [message.get("more_body") for message in answered] == [None, True, False]
    assert answered[0]["status"] == 413


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("/v1/search", "", 415),
        ("/v1/search", "Application/X-WWW-Form-URLencoded; charset=utf-8", 200),
        ("/v1/classify", "application/dicom", 415),
    ],
)
def test_kinds_of_bodies(client: Any, path: str, kind: str, status: int) -> None:
    response = client.post(path, content=b"query=Effusion.", headers={"Content-Type": kind})
    if status == 200:
        assert response.status_code == 200
    else:
        check_problem(response, status, "takes multipart/form-data or ")


def test_a_compressed_body_is_not_unpacked(client: Any) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Content-Encoding": "gzip"}
    response = client.post("/v1/search", content=b"\x1f\x8b", headers=headers)
    check_problem(response, 415, "compressed")


def test_many_parts_and_a_large_field(client: Any) -> None:
    for count, query in ((257, "Edema."), (5000, "Edema."), (0, "a" * 2**21)):
        parts = [("exclude_patient", (None, str(i))) for i in range(count)]
        check_problem(client.post("/v1/search", files=[*parts, ("query", (None, query))]), 400)
