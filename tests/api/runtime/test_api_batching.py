"""The model's thread: batches, a bounded queue, failures that stay alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock, call, patch

import pytest

from cxrtext.errors import InputError
from cxrtext.service import Service
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import Batch, Engine
from cxrtext_api.runtime.scope import Busy, RequestScope
from cxrtext_api.settings import Settings
from tests.api.conftest import Held, asked, busy, engine_of, serving
from tests.waiting import until


class Doubler:
    """Work that notes what was done together."""

    def __init__(self) -> None:
        self.done: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.done.append(list(items))
        if 13 in items:
            raise InputError("13")
        return [2 * item for item in items]


async def while_busy(engine: Engine, ask: Callable[[], list[Awaitable[Any]]]) -> list[Any]:
    """What some questions give that all come while the model is busy with another."""
    work = Held()
    held = await busy(engine.call, work)
    questions = [asyncio.ensure_future(question) for question in ask()]
    await asyncio.sleep(0.01)
    work.go_on.set()
    found = await asyncio.gather(*questions, return_exceptions=True)
    await held
    return found


def doubled(engine: Engine, work: Doubler, size: int, items: Sequence[int]) -> list[Any]:
    """What items give that all come while the model is busy."""
    batch = Batch("double", work, size)
    return asyncio.run(
        while_busy(engine, lambda: [asked(engine.do, batch, item) for item in items])
    )


def test_what_gathers_while_the_model_is_busy_is_done_together() -> None:
    work, metrics = Doubler(), Metrics()
    with (
        patch.object(metrics, "observe_batch") as noted,
        engine_of(metrics=metrics) as engine,
    ):
        found = doubled(engine, work, 4, range(6))
    assert found == [0, 2, 4, 6, 8, 10]
    assert work.done == [[0, 1, 2, 3], [4, 5]]
    assert noted.mock_calls == [call("call", 1), call("double", 4), call("double", 2)]


def test_an_item_that_fails_spoils_no_other() -> None:
    work = Doubler()
    with engine_of() as engine:
        found = doubled(engine, work, 8, (1, 13, 2))
    assert found[0] == 2
    assert isinstance(found[1], InputError)
    assert found[2] == 4
    assert work.done == [[1, 13, 2], [1], [13], [2]]


def test_a_request_keeps_its_place_until_it_is_answered() -> None:
    async def request(engine: Engine, entered: asyncio.Event, leave: asyncio.Event) -> None:
        with RequestScope(10) as scope:
            assert await engine.call(scope, int) == 0
            entered.set()
            await leave.wait()
            assert await engine.call(scope, int) == 0  # let in once is let in

    async def ask(engine: Engine) -> None:
        entered, leave = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(request(engine, entered, leave))
        await entered.wait()
        with pytest.raises(Busy):
            await asked(engine.call, int)
        leave.set()
        await first
        assert await asked(engine.call, int) == 0

    with engine_of(limit=1) as engine:
        asyncio.run(ask(engine))


def test_sentences_of_several_requests_are_embedded_together_and_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed, classify = Mock(wraps=service.model.embed_sentences), Held(service.classify)
    queries = [f"Left effusion {i % 4}." for i in range(8)]
    with serving(service, Settings(queue_limit=64)) as client, ThreadPoolExecutor(9) as pool:
        monkeypatch.setattr(service.model, "embed_sentences", embed)
        monkeypatch.setattr(service, "classify", classify)
        held = pool.submit(client.post, "/v1/classify", data={"image_id": "images/s01.png"})
        assert classify.begun.wait(600)
        asked = [pool.submit(client.post, "/v1/search", data={"query": q}) for q in queries]
        model = client.app.state.resources.engine
        until(lambda: len(model._jobs) >= len(queries))
        classify.go_on.set()
        answers = [one.result(600) for one in asked]
        assert held.result(600).status_code == 200
    assert [answer.status_code for answer in answers] == [200] * 8
    embed.assert_called_once()
    assert sorted(embed.call_args.args[0]) == sorted(set(queries))
    for one, other in zip(answers[:4], answers[4:], strict=True):
        assert one.json()["images"] == other.json()["images"]
