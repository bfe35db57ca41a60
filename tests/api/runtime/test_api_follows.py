"""A server follows what happens to its index: another model, a deletion, a kill."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from fastapi.testclient import TestClient

from cxrtext.index import build_index, delete, open_index, reembed
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.service import Service
from cxrtext.service.forget.forget import forget
from cxrtext_api.runtime import resources
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, drawn, serving
from tests.waiting import until

QUERY = "Left pleural effusion."
Scores = dict[str, float]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "FOLLOW_SECONDS", 0.1)


@pytest.fixture
def another_model(model: ImageTextModel, tmp_path: Path) -> Path:
    """A checkpoint of a model that gives other scores."""
    torch.manual_seed(4)
    other = ImageTextModel(replace(model.spec, dimension=24), model.tokenizer)
    save_checkpoint(tmp_path / "new", other, {})
    return tmp_path / "new"


def searched(client: TestClient) -> tuple[str, Scores]:
    """Model and the score of every image of the data folder; uploads come and go."""
    answer = client.post("/v1/search", data={"query": QUERY, "k": "1000"})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    scores = {
        one["image_id"]: round(one["score"], 4)
        for one in body["images"]
        if one["image_id"].startswith("images/")
    }
    return body["model"], scores


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[list[Future[None]]]:
    """Do some work again and again, each in a thread, until one fails or the block ends."""
    stop = threading.Event()

    def again(work: Callable[[], object]) -> None:
        while not stop.is_set():
            work()

    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(again, work) for work in works]
        try:
            yield running
        finally:
            stop.set()
        for one in running:
            one.result()


def test_a_server_follows_an_index_to_another_model(
    own_service: Service, index_copy: Path, another_model: Path, tmp_path: Path
) -> None:
    new = load_model(another_model)
    seen: list[Scores] = []
    added: list[str] = []
    seeds = count()

    def add() -> None:
        seed = next(seeds)
        form = {"image_id": f"added{seed}.png", "report": f"Upload {seed} has an effusion."}
        answer = client.post("/v1/images", data=form, files={"image": drawn(seed)})
        if answer.status_code == 201:
            added.append(form["image_id"])
        else:  # 409: it was kept, the answer late
            assert answer.status_code in (409, 503), answer.text

    with serving(own_service, Settings(uploads=tmp_path / "uploads")) as client:
        before = searched(client)[1]
        with meanwhile(lambda: seen.append(searched(client)[1]), add) as running:
            until(lambda: seen)
            reembed(index_copy, another_model, wait_s=60)
            until(lambda: client.get("/v1/model").json()["model"] == new.fingerprint)
            more = len(added) + 2
            until(lambda: running[1].done() or len(added) >= more)  # by the new model, too
        after = searched(client)[1]
        label = client.post("/v1/search", data={"query": QUERY, "where": '"label.Edema" >= 0'})
    assert before != after
    wrong = [one for one in seen if one not in (before, after)]
    assert not wrong, (len(wrong), len(seen))
    turns = [one == after for one in seen]
    assert turns == sorted(turns)  # never back
    assert not turns[0]
    assert (label.status_code, len(label.json()["images"])) == (200, 10)
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        assert check_index(index_copy, catalogue) == []
        assert set(added) <= set(catalogue.known_images())
    with open_index(index_copy) as archive:
        assert archive.model.fingerprint == new.fingerprint
        assert archive.images == 48 + len(added)
    assert json.loads((index_copy / "index.json").read_text())["model"] == new.fingerprint


def test_a_server_that_only_reads(
    model: ImageTextModel, index_folder: Path, tmp_path: Path, png: bytes
) -> None:
    settings = Settings(uploads=tmp_path / "uploads", read_only=True)
    with serving(Service(model, open_index(index_folder, model)), settings) as client:
        added = client.post("/v1/images", files={"image": png})
        check_problem(added, 403, "This server only reads")
        check_problem(client.delete("/v1/images/images/s00.png"), 403, "only reads")
        assert client.get("/v1/model").json()["takes_images"] is False


def test_a_server_sees_what_another_process_adds_and_deletes(
    own_service: Service, index_copy: Path, data_copy: Path, checkpoint: Path
) -> None:
    with serving(own_service, Settings()) as client:
        assert len(searched(client)[1]) == 48
        delete(index_copy, ["s01", "s02"])
        until(lambda: len(searched(client)[1]) == 46)
        build_index(data_copy / "manifest.csv", checkpoint, index_copy)
        until(lambda: len(searched(client)[1]) == 48)


@patch.object(resources, "SEEN_SECONDS", 0)  # every question looks at the index
def test_a_server_neither_finds_nor_remembers_who_was_forgotten(
    own_service: Service, index_copy: Path, data_folder: Path, tmp_path: Path
) -> None:
    picture = (data_folder / "images/s05.png").read_bytes()
    with serving(own_service, Settings(uploads=tmp_path / "uploads")) as client:

        def found() -> set[str]:
            answer = client.post("/v1/search", data={"query": QUERY, "k": "48"})
            assert answer.status_code == 200
            return {one["image_id"] for one in answer.json()["images"]}

        form = {"image_id": "sent.png", "patient_id": "p05", "study_id": "sent"}
        sent = client.post("/v1/images", data={**form, "replace": "true"}, files={"image": picture})
        assert sent.status_code == 201, sent.text
        assert client.post("/v1/classify", files={"image": picture}).status_code == 200
        assert {"images/s05.png", "sent.png"} <= found()
        uploads = client.app.state.resources.uploads
        assert uploads._known
        done = forget([index_copy, tmp_path / "uploads"], patient="p05", key=tmp_path / "key")
        assert done.images == 2
        assert found().isdisjoint({"images/s05.png", "sent.png"})
        assert not uploads._known
        assert not list((tmp_path / "uploads").glob("*.png"))
        assert client.get("/v1/images/sent.png").status_code == 404


SCRIPT = Path(__file__).with_name("kill_image_writer.py")


@pytest.mark.slow
def test_a_killed_server_leaves_whole_images_and_no_litter(
    checkpoint: Path, index_copy: Path, tmp_path: Path
) -> None:
    given = map(str, (SCRIPT, checkpoint, index_copy, tmp_path / "uploads"))
    command = [sys.executable, *given, "25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("25 kills")
