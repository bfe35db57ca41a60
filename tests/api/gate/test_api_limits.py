"""What a request may cost: its size, its speed, how many there are, and how often."""

import asyncio
import re
import selectors
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from starlette.exceptions import HTTPException
from starlette.formparsers import FormParser, MultiPartParser
from starlette.requests import Request

from cxrtext.service import Service
from cxrtext_api.gate.admission import FORMS, MAX_BUCKETS, MAX_TEXT_BYTES, RateLimit
from cxrtext_api.gate.keys import add_key
from cxrtext_api.gate.middleware import DRAIN_BYTES, PACE_BYTES, Served, answer_and_drain
from cxrtext_api.problems import problem_response
from cxrtext_api.runtime.scope import Budget
from cxrtext_api.settings import Settings
from tests.api.conftest import Clock, Held, check_problem, serving


def test_a_key_asks_as_often_as_it_may() -> None:
    clock = Clock()
    limit = RateLimit(60, clock)
    assert [limit.wait("a") for _ in range(15)] == [0] * 15, "a burst of a quarter of a minute's"
    assert limit.wait("a") == 1
    assert limit.wait("b") == 0, "each key has a bucket of its own"
    clock.now = 1.0
    assert limit.wait("a") == 0
    assert limit.wait("a") == 1
    clock.now = 1000.0
    assert [limit.wait("a") for _ in range(16)] == [0] * 15 + [1], "it does not fill for ever"


def test_a_slow_rate_says_how_long_to_wait() -> None:
    clock = Clock()
    limit = RateLimit(1, clock)
    assert limit.wait("a") == 0
    assert limit.wait("a") == 60
    clock.now = 59.0
    assert limit.wait("a") == 1
    clock.now = 60.0
    assert limit.wait("a") == 0
    assert {RateLimit(0).wait("a") for _ in range(100)} == {0}


def test_the_limit_remembers_a_bounded_number_of_keys() -> None:
    limit = RateLimit(1)
    for i in range(MAX_BUCKETS + 10):
        limit.wait(str(i))
    assert len(limit._buckets) == MAX_BUCKETS


def test_a_key_that_asks_too_often(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RateLimit.__init__, "__defaults__", (Clock(),))
    path = tmp_path / "keys"
    one, two = ({"Authorization": f"Bearer {add_key(path, name)}"} for name in ("one", "two"))
    with serving(service, Settings(keys_file=path, rate_limit=8)) as client:
        assert [client.get("/v1/model", headers=one).status_code for _ in range(2)] == [200, 200]
        response = client.get("/v1/model", headers=one)
        check_problem(response, 429, "Retry-After")
        assert int(response.headers["retry-after"]) <= 8
        assert client.get("/v1/model", headers=two).status_code == 200
        assert client.get("/healthz", headers=one).status_code == 200


def test_a_server_without_keys_has_no_rate(service: Service) -> None:
    with serving(service, Settings(rate_limit=1)) as client:
        assert {client.get("/v1/images").status_code for _ in range(5)} == {200}


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


class Steps(selectors.DefaultSelector):
    """Moves a clock on, rather than wait."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        self._clock.now += timeout or 0.0
        return super().select(0)


def run_by(clock: Clock, work: Coroutine[Any, Any, None]) -> None:
    """Run on an event loop whose time is a clock's."""
    loop = asyncio.SelectorEventLoop(Steps(clock))
    with patch.object(loop, "time", clock), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)


def receive_from(*chunks: bytes, pause: float = 0.0, last: bool = True) -> Any:
    """A server's receive that gives these parts of a body."""
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause)
        if not left:
            await asyncio.sleep(3600)
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left) or not last}

    return receive


async def read(body: Served) -> bytes:
    whole = b""
    while True:
        message = await body.receive()
        whole += bytes(message["body"])
        if not message["more_body"]:
            return whole


def test_a_body_that_stops_halfway_is_cut_off() -> None:
    """However long it may take in all, and however much of it is there."""
    clock = Clock()
    parts = bytes(PACE_BYTES), bytes(PACE_BYTES), b"e"

    async def run() -> None:
        held = Budget(3 * PACE_BYTES)
        body = Served(receive_from(*parts, pause=9, last=False), held.amount, 3600, held)
        with pytest.raises(HTTPException) as raised:
            await read(body)
        size = 2 * PACE_BYTES + 1
        assert (raised.value.status_code, body.received, held.taken) == (408, size, size)
        body.give_back()
        assert held.taken == 0

    run_by(clock, run())
    assert clock.now == pytest.approx(9 + 9 + 10)


def test_a_body_is_not_cut_off_for_what_the_server_takes() -> None:
    """Between two parts the server is busy for longer than a sender may be."""
    clock = Clock()

    async def run() -> None:
        body = Served(receive_from(b"a", b"b", b"c", pause=3), 3, 9.5, Budget(3))
        for part in (b"a", b"b", b"c"):
            assert (await body.receive())["body"] == part
            clock.now += 100

    run_by(clock, run())


def test_half_sent_bodies_are_counted_together_from_their_first_byte() -> None:
    async def run() -> None:
        held = Budget(10)
        halves = [Served(receive_from(b"abc", last=False), 100, 3600, held) for _ in range(3)]
        for half in halves:
            await half.receive()
        one = Served(receive_from(b"abc", b"d"), 100, 3600, held)
        with pytest.raises(HTTPException) as raised:
            await read(one)
        assert (raised.value.status_code, held.taken) == (503, 9)
        halves[0].give_back()
        assert await read(Served(receive_from(b"abc", b"d"), 100, 3600, held)) == b"abcd"

    asyncio.run(run())


def test_what_still_comes_after_an_answer_is_not_counted() -> None:
    async def run() -> None:
        served = Served(receive_from(b"abc"), 1, 60, Budget(1))
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


def test_many_headers_many_parts_and_a_large_field(client: Any) -> None:
    headers = {f"X-Test-{i}": "1" for i in range(120)}
    check_problem(client.get("/v1/model", headers=headers), 431, "headers")
    for count, query in ((257, "Edema."), (5000, "Edema."), (0, "a" * 2**21)):
        parts = [("exclude_patient", (None, str(i))) for i in range(count)]
        check_problem(client.post("/v1/search", files=[*parts, ("query", (None, query))]), 400)
