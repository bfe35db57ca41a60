"""Before the model is loaded, when it cannot be, and when too many ask at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.errors import CheckpointError
from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.settings import Settings
from tests.waiting import until


def test_before_and_after_the_model_is_loaded(
    service: Service, check_problem: Any, png: bytes
) -> None:
    loaded = threading.Event()

    def load(_: Settings) -> Service:
        assert loaded.wait(600)
        return service

    app = create_app(Settings(), load)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/").status_code == 200
        for response in (
            client.get("/readyz"),
            client.get("/v1/model"),
            client.get("/v1/images"),
            client.post("/v1/classify", files={"image": png}),
        ):
            check_problem(response, 503, "being loaded")
            assert int(response.headers["retry-after"]) > 0
        loaded.set()
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/v1/model").status_code == 200


@pytest.mark.parametrize("error", [CheckpointError, MemoryError])
def test_a_model_that_cannot_be_loaded(
    check_problem: Any, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    def load(_: Settings) -> Service:
        raise error("/data/models/secret: damaged")

    app = create_app(Settings(), load)
    with TestClient(app, base_url="http://localhost") as client:
        until(lambda: app.state.resources.failure is not None)
        for path in ("/readyz", "/v1/model"):
            body = check_problem(client.get(path), 503, "could not be loaded")
            assert "secret" not in str(body)
        assert client.get("/healthz").status_code == 200
    assert "cannot load" in caplog.text


def test_the_service_is_closed_with_the_server(
    service: Service, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []
    close = service.close

    def counted() -> None:
        closed.append(True)
        close()

    monkeypatch.setattr(service, "close", counted)
    with serve(service):
        assert closed == []
    assert closed == [True]


def test_more_requests_than_may_wait(
    service: Service, serve: Any, check_problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    classify = service.classify

    def slow(*args: Any) -> Any:
        begun.set()
        assert go_on.wait(600)
        return classify(*args)

    monkeypatch.setattr(service, "classify", slow)
    data = {"image_id": "images/s01.png"}
    with serve(service, Settings(queue_limit=1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/v1/classify", data=data)
        assert begun.wait(600)
        response = client.post("/v1/search", data={"query": "Effusion."})
        check_problem(response, 503, "waiting")
        assert int(response.headers["retry-after"]) > 0
        assert client.get("/v1/images").status_code == 200  # reading has threads of its own
        go_on.set()
        assert first.result(600).status_code == 200
        assert client.post("/v1/search", data={"query": "Effusion."}).status_code == 200


def test_failures_give_their_place_in_the_queue_back(service: Service, serve: Any) -> None:
    with serve(service, Settings(queue_limit=1)) as client:
        for _ in range(3):
            assert client.post("/v1/render", files={"image": b"no image"}).status_code == 422
        assert client.get("/v1/images").status_code == 200


def test_questions_at_the_same_time_get_their_own_answers(service: Service, serve: Any) -> None:
    names = [f"images/s{i:02d}.png" for i in range(12)]

    def first_hit(client: TestClient, name: str) -> str:
        answer = client.post("/v1/search", data={"image_id": name, "k": 1})
        assert answer.status_code == 200
        found: str = answer.json()["images"][0]["image_id"]
        return found

    with serve(service, Settings(queue_limit=64)) as client, ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda name: first_hit(client, name), names)) == names
