"""Long work and answers that nobody waits for: refused, done in turns, dropped, finished."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any
from unittest.mock import Mock

import pytest

from cxrtext.errors import InputError
from cxrtext.pausing import Pausing
from cxrtext.service import Service
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import TURN_SECONDS, Engine
from cxrtext_api.runtime.resources import Resources
from cxrtext_api.runtime.scope import ClientGone, Timeout
from cxrtext_api.runtime.work import Workers
from cxrtext_api.settings import Settings
from tests.api.conftest import Held, asked, busy, engine_of, serving
from tests.waiting import until

Message = dict[str, Any]


@pytest.fixture(params=["engine", "workers"])
def pool(request: pytest.FixtureRequest) -> Iterator[Engine | Workers]:
    """Threads of either kind, which end."""
    engine = request.param == "engine"
    made = Engine(10, Metrics()) if engine else Workers("read", 1, 10, Metrics())
    yield made
    made.close()


def call_of(pool: Engine | Workers) -> Callable[..., Awaitable[Any]]:
    return pool.call if isinstance(pool, Engine) else pool.run


STEP = 0.002


class Steps:
    """Work of many short steps that counts them."""

    def __init__(self, count: int) -> None:
        self.count, self.done, self.closed = count, 0, False
        self.begun = threading.Event()

    def __call__(self) -> Pausing[str]:
        try:
            for _ in range(self.count):
                time.sleep(STEP)
                self.done += 1
                self.begun.set()
                yield
        finally:
            self.closed = True
        return "done"


class Log:
    """What an engine does, in order; by its clock each takes a step, and a question always waits.

    Whatever is done has the event loop ask the next question, until it is ``over``.
    """

    def __init__(self, engine: Engine) -> None:
        self.done: list[str] = []
        self.now, self.over = 0.0, False
        self._engine, self._loop = engine, asyncio.get_running_loop()

    def perf_counter(self) -> float:
        return self.now

    def note(self, what: str, steps: int = 1) -> None:
        self.done += [what] * steps
        self.now += steps * STEP
        if not self._engine._jobs and not self.over:
            question = asked(self._engine.call, self.note, "question")
            asyncio.run_coroutine_threadsafe(question, self._loop)
            until(lambda: self._engine._jobs)

    def steps(self, count: int) -> Pausing[str]:
        for _ in range(count):
            self.note("step")
            yield
        self.over = True
        return "done"

    def runs(self) -> list[tuple[str, int]]:
        """What was done again and again, and how often."""
        return [(what, len(list(times))) for what, times in groupby(self.done)]


async def logged(monkeypatch: pytest.MonkeyPatch, work: Callable[..., Awaitable[Any]]) -> Log:
    """What an engine does while it has some work, and is asked without end."""
    with engine_of() as engine:
        log = Log(engine)
        monkeypatch.setattr("cxrtext_api.runtime.engine.time", log)
        await work(engine, log)
        await asyncio.to_thread(engine.close)
        return log


def test_questions_go_between_the_turns_of_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(engine: Engine, log: Log) -> None:
        assert await asked(engine.work, log.steps(20)) == "done"

    runs = asyncio.run(logged(monkeypatch, work)).runs()
    steps = [times for what, times in runs if what == "step"]
    assert max(steps) <= TURN_SECONDS / STEP + 1
    assert len(steps) >= 3


@pytest.mark.parametrize("why", [Timeout, ClientGone])
def test_work_ends_where_nobody_waits_for_it(
    why: type[Exception], skip_ahead: Callable[[float], None]
) -> None:
    steps, engine = Steps(10**6), Engine(10, Metrics())

    async def gone() -> dict[str, Any]:
        await asyncio.to_thread(steps.begun.wait, 600)
        return {"type": "http.disconnect"}

    async def ask() -> None:
        receive = gone if why is ClientGone else None
        work = asyncio.create_task(asked(engine.work, steps(), receive=receive))
        await asyncio.to_thread(steps.begun.wait, 600)
        if why is Timeout:
            skip_ahead(60)
        with pytest.raises(why):
            await work

    asyncio.run(ask())
    engine.close()
    assert steps.closed
    assert steps.done < steps.count


def test_searches_wait_for_no_pictures(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Held(Mock(side_effect=InputError("no picture")))
    monkeypatch.setattr(service, "shown", shown)
    with serving(service) as client, ThreadPoolExecutor(6) as pool:
        data = {"image_id": "images/s01.png"}
        pictures = [pool.submit(client.post, "/v1/render", data=data) for _ in range(6)]
        try:
            assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200
            assert not any(picture.done() for picture in pictures)
        finally:
            shown.go_on.set()
        assert {picture.result(600).status_code for picture in pictures} == {422}


def test_who_reads_slowly_takes_no_place(service: Service) -> None:
    with serving(service) as client:
        resources = client.app.state.resources
        body = b"image_id=images/s01.png&sentence=Edema."
        kind = (b"content-type", b"application/x-www-form-urlencoded")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/ground",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), kind],
        }
        taken: list[int] = []

        async def ask() -> None:
            messages = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> dict[str, Any]:
                if not messages:
                    await asyncio.sleep(3600)
                return messages.pop()

            async def send(message: Any) -> None:
                taken.append(resources.engine._places.taken)
                if message["type"] == "http.response.start":
                    assert message["status"] == 200

            await client.app(scope, receive, send)

        client.portal.call(ask)
    assert taken == [0, 0]


def test_sentences_are_embedded_in_turns(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cxrtext.service.cache.TURN_TOKENS", (64, 64))
    embed = Mock(wraps=service.model.embed_sentences)
    report = " ".join(f"Effusion {i} of the left lung is small." for i in range(60))
    with serving(service) as client:
        monkeypatch.setattr(service.model, "embed_sentences", embed)
        data = {"image_id": "images/s01.png", "report": f"FINDINGS: {report}"}
        answer = client.post("/v1/verify", data=data)
    assert answer.status_code == 200
    assert len(answer.json()["sentences"]) == 60
    turns = [service.model.tokenize(list(call.args[0])) for call in embed.call_args_list]
    sizes = [turn["attention_mask"].numel() for turn in turns]
    assert len(sizes) > 5
    assert max(sizes) <= 64


@pytest.mark.parametrize("why", [Timeout, ClientGone])
def test_work_that_waits_and_that_nobody_waits_for_is_dropped(
    pool: Engine | Workers, why: type[Exception]
) -> None:
    run, held, begun = call_of(pool), Held(), list[str]()

    async def gone() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.disconnect"}

    given: dict[str, Any] = {"seconds": 0.05} if why is Timeout else {"receive": gone}

    async def ask() -> None:
        first = await busy(run, held)
        with pytest.raises(why):
            await asked(run, begun.append, "for nobody", **given)
        held.go_on.set()
        assert await first == "done"
        await asked(run, begun.append, "in time")

    asyncio.run(ask())
    pool.close()
    assert begun == ["in time"]


def test_a_service_that_loads_while_the_server_stops_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, load = Mock(wraps=service.close), Held(lambda _: service)
    monkeypatch.setattr(service, "close", close)

    async def serve() -> None:
        resources = Resources(Settings(), Metrics(), load)
        resources.open()
        await asyncio.to_thread(load.begun.wait, 600)
        closing = asyncio.create_task(resources.close())
        await asyncio.sleep(0.01)
        load.go_on.set()
        await closing

    asyncio.run(serve())
    close.assert_called_once()


def test_a_model_that_fails_its_first_question_is_not_ready(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "warm_up", Mock(side_effect=MemoryError))

    async def serve() -> None:
        resources = Resources(Settings(), Metrics(), lambda _: service)
        resources.open()
        await resources.settled.wait()
        assert isinstance(resources.failure, MemoryError)
        await resources.close()

    asyncio.run(serve())
