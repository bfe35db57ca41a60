"""When a server cannot answer all: it is loading, asked too much, its index held, its disk full."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient

from cxrtext.errors import CheckpointError
from cxrtext.index import open_index
from cxrtext.index.store.catalogue import CATALOGUE
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.settings import Settings
from tests.api.conftest import Held, check_problem, serving
from tests.waiting import until


def test_before_and_after_the_model_is_loaded(service: Service, png: bytes) -> None:
    load = Held(lambda _: service)
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
        load.go_on.set()
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/v1/model").status_code == 200


@pytest.mark.parametrize("error", [CheckpointError, MemoryError])
def test_a_model_that_cannot_be_loaded(
    caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    app = create_app(Settings(), Mock(side_effect=error("/data/models/secret: damaged")))
    with TestClient(app, base_url="http://localhost") as client:
        until(lambda: app.state.resources.failure is not None)
        for path in ("/readyz", "/v1/model"):
            body = check_problem(client.get(path), 503, "could not be loaded")
            assert "secret" not in str(body)
        assert client.get("/healthz").status_code == 200
    assert "cannot load" in caplog.text


def test_more_requests_than_may_wait(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    classify = Held(service.classify)
    monkeypatch.setattr(service, "classify", classify)
    data = {"image_id": "images/s01.png"}
    with serving(service, Settings(queue_limit=1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/v1/classify", data=data)
        assert classify.begun.wait(600)
        search = client.post("/v1/search", data={"query": "Effusion."})
        check_problem(search, 503, "waiting")
        assert client.get("/v1/images").status_code == 200  # reading has threads of its own
        classify.go_on.set()
        assert first.result(600).status_code == 200
        assert client.post("/v1/search", data={"query": "Effusion."}).status_code == 200


def test_failures_give_their_place_in_the_queue_back(service: Service) -> None:
    with serving(service, Settings(queue_limit=1)) as client:
        for _ in range(3):
            assert client.post("/v1/render", files={"image": b"no image"}).status_code == 422
        assert client.get("/v1/images").status_code == 200


HOLD = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", HOLD, str(path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.communicate("", timeout=600)


def test_a_held_index_stops_nothing_else(
    model: ImageTextModel, index_copy: Path, png: bytes
) -> None:
    with serving(Service(model, open_index(index_copy, model, wait_s=0.1))) as client:
        assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200
        with held(index_copy / CATALOGUE):
            for path in ("/healthz", "/readyz", "/metrics"):
                assert client.get(path).status_code == 200
            assert "cxrtext_index_images 48.0" in client.get("/metrics").text
            asks: list[Callable[[], Any]] = [
                lambda: client.post("/v1/search", data={"query": "Edema."}),
                lambda: client.get("/v1/images"),
                lambda: client.get("/v1/images/images/s01.png"),
                lambda: client.post("/v1/classify", data={"image_id": "images/s01.png"}),
            ]
            for ask in asks:
                check_problem(ask(), 503, "Another process is writing the index")
            answer = client.post("/v1/classify", files={"image": png})
            assert answer.status_code == 200, "a file of the caller's own needs no index"
        assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_is_told_to_the_caller_and_the_operator(
    own_service: Service,
    index_copy: Path,
    png: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    full = Mock(side_effect=OSError(code, os.strerror(code), "/data/uploads/one.png"))
    settings = Settings(uploads=tmp_path / "uploads", index=index_copy)
    with serving(own_service, settings) as client:
        monkeypatch.setattr("cxrtext.index.changes.append_rows", full)
        response = client.post("/v1/images", files={"image": png})
        detail = check_problem(response, 507, "disk is full")["detail"]
        assert "/data" not in detail
        assert client.get("/v1/images").json()["total"] == 48
        assert not list((tmp_path / "uploads").rglob("*")), "nothing is left of it"
        assert client.post("/v1/search", data={"query": "Edema."}).status_code == 200
    told = [record.message for record in caplog.records if "cannot write" in record.message]
    assert len(told) == 1
    assert os.strerror(code) in told[0]
    assert "make room" in told[0]
