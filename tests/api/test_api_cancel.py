"""Answers that nobody waits for any more, and work that is still to be finished."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from cxrtext.service import Service
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import Engine
from cxrtext_api.runtime.resources import Resources
from cxrtext_api.runtime.scope import ClientGone, RequestScope, Timeout
from cxrtext_api.runtime.work import Workers
from cxrtext_api.settings import Settings

Message = dict[str, Any]


class Held:
    """Work that lasts until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go_on.wait(600)
        return "done"


async def asked(run: Any, *given: Any, seconds: float = 60, receive: Any = None) -> Any:
    """What a request of its own gets."""
    with RequestScope(seconds, receive) as scope:
        return await run(scope, *given)


def runners() -> list[tuple[Any, Callable[..., Any]]]:
    engine, workers = Engine(10, Metrics()), Workers("read", 1, 10, Metrics())
    return [(engine, engine.call), (workers, workers.run)]


@pytest.mark.parametrize("kind", [0, 1])
def test_work_that_waits_past_its_time_is_dropped(kind: int) -> None:
    pool, run = runners()[kind]
    held, begun = Held(), list[str]()

    async def ask() -> None:
        first = asyncio.create_task(asked(run, held))
        await asyncio.to_thread(held.begun.wait, 600)
        with pytest.raises(Timeout):
            await asked(run, begun.append, "late", seconds=0.05)
        held.go_on.set()
        assert await first == "done"
        await asked(run, begun.append, "in time")

    asyncio.run(ask())
    pool.close()
    assert begun == ["in time"]


@pytest.mark.parametrize("kind", [0, 1])
def test_work_of_a_caller_that_left_is_dropped(kind: int) -> None:
    pool, run = runners()[kind]
    held, begun = Held(), list[str]()

    async def gone() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.disconnect"}

    async def ask() -> None:
        first = asyncio.create_task(asked(run, held))
        await asyncio.to_thread(held.begun.wait, 600)
        with pytest.raises(ClientGone):
            await asked(run, begun.append, "for nobody", receive=gone)
        held.go_on.set()
        assert await first == "done"

    asyncio.run(ask())
    pool.close()
    assert begun == []


def test_a_cancelled_question_is_taken_out_of_the_queue() -> None:
    engine, held = Engine(10, Metrics()), Held()

    async def ask() -> None:
        first = asyncio.create_task(asked(engine.call, held))
        await asyncio.to_thread(held.begun.wait, 600)
        second = asyncio.create_task(asked(engine.call, int))
        await asyncio.sleep(0.01)
        assert len(engine._jobs) == 1
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert len(engine._jobs) == 0
        held.go_on.set()
        await first

    asyncio.run(ask())
    engine.close()


def test_a_connection_that_cannot_be_watched_gives_nothing_up() -> None:
    engine = Engine(10, Metrics())

    async def broken() -> Message:
        raise RuntimeError("no more messages")

    assert asyncio.run(asked(engine.call, lambda: 1, receive=broken)) == 1
    engine.close()


@pytest.mark.parametrize("kind", [0, 1])
def test_what_was_accepted_is_finished_when_the_server_stops(kind: int) -> None:
    pool, run = runners()[kind]
    held, done = Held(), list[str]()

    async def ask() -> None:
        first = asyncio.create_task(asked(run, held))
        await asyncio.to_thread(held.begun.wait, 600)
        second = asyncio.create_task(asked(run, done.append, "second"))
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(asyncio.to_thread(pool.close))
        await asyncio.sleep(0.01)
        assert not closing.done()
        held.go_on.set()
        await closing
        assert await first == "done"
        await second

    asyncio.run(ask())
    assert done == ["second"]


def test_a_service_that_loads_while_the_server_stops_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, go_on, closed = threading.Event(), threading.Event(), list[bool]()
    close = service.close

    def counted() -> None:
        closed.append(True)
        close()

    monkeypatch.setattr(service, "close", counted)

    def load(_: Settings) -> Service:
        loading.set()
        assert go_on.wait(600)
        return service

    async def serve() -> None:
        resources = Resources(Settings(), Metrics(), load)
        resources.open()
        await asyncio.to_thread(loading.wait, 600)
        closing = asyncio.create_task(resources.close())
        await asyncio.sleep(0.01)
        go_on.set()
        await closing

    asyncio.run(serve())
    assert closed == [True]


def test_a_model_that_fails_its_first_question_is_not_ready(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr(service, "warm_up", fail)

    async def serve() -> None:
        resources = Resources(Settings(), Metrics(), lambda _: service)
        resources.open()
        await resources.settled.wait()
        assert isinstance(resources.failure, MemoryError)
        await resources.close()

    asyncio.run(serve())
