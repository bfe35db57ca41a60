"""Work that takes long: refused before it is begun, done in turns, ended where nobody waits."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import InputError
from cxrtext.index import open_index
from cxrtext.language.scoring.scorer import Scorer
from cxrtext.models import ImageTextModel
from cxrtext.models.masked_lm import load_masked_language_model
from cxrtext.pausing import Pausing, finish, within
from cxrtext.service import Service
from cxrtext.service.limits import TURN_TOKENS, tokens_a_turn
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import REST, TURN_SECONDS, Batch, Engine
from cxrtext_api.runtime.scope import ClientGone, RequestScope, Timeout
from cxrtext_api.runtime.work import Workers

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


@contextmanager
def engine_of(limit: int = 100) -> Iterator[Engine]:
    engine = Engine(limit, Metrics())
    try:
        yield engine
    finally:
        engine.close()


async def asked(
    run: Callable[..., Awaitable[Any]],
    *given: Any,
    seconds: float = 60,
    receive: Any = None,
    **options: Any,
) -> Any:
    """What a request of its own gets."""
    with RequestScope(seconds, receive) as scope:
        return await run(scope, *given, **options)


def test_work_that_pauses() -> None:
    steps, held = Steps(3), threading.RLock()
    assert finish(within(held, steps())) == "done"
    assert steps.done == 3
    work = within(held, Steps(2)())
    next(work)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(held.acquire, timeout=1).result(), "what pauses holds nothing"
        other.submit(held.release).result()


@pytest.mark.parametrize("has_time", [False, True])
def test_questions_go_between_the_turns_of_long_work(has_time: bool) -> None:
    steps = Steps(1000)

    async def ask(engine: Engine) -> list[float]:
        work = asyncio.create_task(asked(engine.work, steps(), has_time=has_time))
        await asyncio.to_thread(steps.begun.wait, 60)
        waited = []
        for _ in range(20):
            begun = time.perf_counter()
            assert await asked(engine.call, int) == 0
            waited.append(time.perf_counter() - begun)
        assert not work.done()
        work.cancel()
        return waited

    with engine_of() as engine:
        waited = asyncio.run(ask(engine))
    assert sorted(waited)[10] < TURN_SECONDS + 5 * STEP
    assert steps.closed


def test_work_that_has_time_rests_where_questions_come_and_is_done_all_the_same() -> None:
    steps = Steps(50)
    shares: list[float] = []

    async def ask(engine: Engine) -> Any:
        begun = time.perf_counter()
        work = asyncio.create_task(asked(engine.work, steps(), has_time=True))
        while not work.done():
            await asked(engine.call, time.sleep, STEP)
        shares.append(50 * STEP / (time.perf_counter() - begun))
        return await work

    with engine_of() as engine:
        assert asyncio.run(ask(engine)) == "done"
    assert shares[0] < 1.5 / (REST + 1)


def test_batches_that_have_time_rest_too() -> None:
    done: list[float] = []

    def slow(items: Any) -> list[None]:
        time.sleep(10 * STEP)
        done.append(time.perf_counter())
        return [None for _ in items]

    async def ask(engine: Engine) -> None:
        batch: Batch[int, None] = Batch("slow", slow, 1)
        work = asyncio.gather(*(asked(engine.do, batch, i, has_time=True) for i in range(3)))
        while not work.done():
            await asked(engine.call, time.sleep, STEP)

    with engine_of() as engine:
        asyncio.run(ask(engine))
    assert done[2] - done[1] > REST * 10 * STEP


def test_work_that_has_time_takes_no_place_of_a_question() -> None:
    async def ask(engine: Engine) -> list[Any]:
        works = [asked(engine.work, Steps(5)(), has_time=True) for _ in range(5)]
        return list(await asyncio.gather(*works, asked(engine.call, int)))

    with engine_of(limit=1) as engine:
        assert asyncio.run(ask(engine)) == ["done"] * 5 + [0]


@pytest.mark.parametrize("kind", ["engine", "with time", "workers"])
@pytest.mark.parametrize("why", [Timeout, ClientGone])
def test_work_ends_where_nobody_waits_for_it(kind: str, why: type[Exception]) -> None:
    metrics, steps = Metrics(), Steps(5000)
    engine, workers = Engine(10, metrics), Workers("read", 1, 10, metrics)
    run = workers.work if kind == "workers" else engine.work
    options = {"has_time": True} if kind == "with time" else {}

    async def gone() -> dict[str, Any]:
        await asyncio.to_thread(steps.begun.wait, 60)
        return {"type": "http.disconnect"}

    async def ask() -> None:
        with pytest.raises(why):
            if why is Timeout:
                await asked(run, steps(), seconds=0.1, **options)
            else:
                await asked(run, steps(), receive=gone, **options)

    asyncio.run(ask())
    begun = time.perf_counter()
    engine.close()
    workers.close()
    assert time.perf_counter() - begun < 2
    assert steps.closed
    assert steps.done < 5000


def test_a_failure_of_work_is_told() -> None:
    def fail() -> Pausing[None]:
        yield
        raise InputError("no")

    with engine_of() as engine, pytest.raises(InputError):
        asyncio.run(asked(engine.work, fail()))


def test_what_scoring_costs_grows_with_the_square(language_model: Path) -> None:
    scorer = Scorer(load_masked_language_model(language_model))
    config = scorer.language.model.config
    wide, inner, vocabulary = config.hidden_size, config.intermediate_size, config.vocab_size
    of_token = 4 * wide * wide + 2 * wide * inner + 2 * 12 * wide  # of 12 tokens, 2 of them special
    of_copy = 12 * config.num_hidden_layers * of_token + wide * wide + wide * vocabulary
    assert scorer.multiplications([10]) == 10 * of_copy
    assert scorer.multiplications([10, 10]) == 20 * of_copy
    assert scorer.multiplications([60]) > 20 * scorer.multiplications([10]) / 2
    assert scorer.multiplications([200]) == 2 * scorer.multiplications([100]), "the window is full"


def test_a_turn_is_of_bounded_cost() -> None:
    fewest, most = TURN_TOKENS
    assert tokens_a_turn(1) == most
    assert tokens_a_turn(10**12) == fewest
    assert fewest < tokens_a_turn(10**6) < most


@pytest.fixture
def speaking(model: ImageTextModel, index_folder: Path, language_model: Path) -> Service:
    """A service with a language model."""
    index = open_index(index_folder, model)
    return Service(model, index, language_model=load_masked_language_model(language_model))


def long_sentence(number: int) -> str:
    """A sentence of 1,998 word pieces without a blank."""
    return "e-" * 990 + f"e-{number:016d}"


def test_a_search_does_not_wait_for_sentences_that_are_scored(
    speaking: Service, serve: Any
) -> None:
    body = {"sentences": [long_sentence(i) for i in range(9)]}
    with serve(speaking) as client, ThreadPoolExecutor(1) as pool:
        client.post("/v1/search", data={"query": "Edema."})
        begun = time.perf_counter()
        scored = pool.submit(client.post, "/v1/score-text", json=body)
        time.sleep(0.2)
        waited = []
        for i in range(5):
            asked_at = time.perf_counter()
            assert client.post("/v1/search", data={"query": f"Edema {i}."}).status_code == 200
            waited.append(time.perf_counter() - asked_at)
        assert not scored.done(), "the sentences take too short to tell"
        assert scored.result(120).status_code == 200
        assert min(waited) < 0.2 * (time.perf_counter() - begun)


def test_sentences_that_would_take_too_long_are_refused_before(
    speaking: Service, serve: Any, check_problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.service.limits.MAX_MULTIPLICATIONS", 10**9)

    def never(*_: Any) -> None:
        raise AssertionError("the work was begun")

    with serve(speaking) as client:
        short = client.post("/v1/score-text", json={"sentences": ["The lungs are clear."]})
        assert short.status_code == 200
        monkeypatch.setattr(Scorer, "score_pausing", never)
        body = {"sentences": [long_sentence(i) for i in range(9)]}
        response = client.post("/v1/score-text", json=body)
    detail = check_problem(response, 422, "word pieces")["detail"]
    assert "e-" not in detail


def test_many_that_score_are_turned_away_and_searches_are_not(
    speaking: Service, serve: Any, check_problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    score = speaking.score_text_pausing

    def held(sentences: Any) -> Pausing[Any]:
        begun.set()
        while not go_on.is_set():
            time.sleep(STEP)
            yield
        return (yield from score(sentences))

    monkeypatch.setattr("cxrtext_api.runtime.resources.QUESTIONS_SCORED", 1 / 32)
    body = {"sentences": ["The lungs are clear."]}
    with serve(speaking) as client, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(speaking, "score_text_pausing", held)
        first = pool.submit(client.post, "/v1/score-text", json=body)
        assert begun.wait(60)
        refused = client.post("/v1/score-text", json=body)
        check_problem(refused, 503, "waiting")
        assert int(refused.headers["retry-after"]) > 0
        assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200
        go_on.set()
        assert first.result(60).status_code == 200
        assert client.post("/v1/score-text", json=body).status_code == 200


def test_a_search_does_not_wait_for_pictures(
    service: Service, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(_: str) -> Any:
        assert go_on.wait(60)
        raise InputError("no picture")

    monkeypatch.setattr(service, "pixels", slow)
    with serve(service) as client, ThreadPoolExecutor(6) as pool:
        data = {"image_id": "images/s01.png"}
        pictures = [pool.submit(client.post, "/v1/render", data=data) for _ in range(6)]
        try:
            begun = time.perf_counter()
            assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200
            assert time.perf_counter() - begun < 20
        finally:
            go_on.set()
        assert {picture.result(60).status_code for picture in pictures} == {422}


def test_who_reads_slowly_takes_no_place(service: Service, serve: Any) -> None:
    with serve(service) as client:
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


def test_many_sentences_are_embedded_in_turns(
    service: Service, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.service.service.tokens_a_turn", lambda _: 64)
    sizes: list[int] = []
    embed = service.model.embed_sentences

    def noted(sentences: Any) -> Any:
        sizes.append(service.model.tokenize(list(sentences))["attention_mask"].numel())
        return embed(sentences)

    report = " ".join(f"Effusion {i} of the left lung is small." for i in range(60))
    with serve(service) as client:
        monkeypatch.setattr(service.model, "embed_sentences", noted)
        data = {"image_id": "images/s01.png", "report": f"FINDINGS: {report}"}
        answer = client.post("/v1/verify", data=data)
    assert answer.status_code == 200
    assert len(answer.json()["sentences"]) == 60
    assert len(sizes) > 5
    assert max(sizes) <= 64
