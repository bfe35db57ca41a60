"""A server follows what happens to its index: another model, a publication, a deletion, a kill."""

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

from cxrtext.files.storage import open_storage
from cxrtext.index import build_index, delete, open_index, reembed
from cxrtext.index.publishing.publish import publish
from cxrtext.index.publishing.pull import pull
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.service import Service
from cxrtext.service.forget.forget import forget
from cxrtext_api.app import create_app
from cxrtext_api.runtime import resources
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, drawn, serving, wait_until_ready
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


def searched(client: TestClient) -> tuple[str, str, Scores]:
    """Publication, model and the score of every image of the data folder; uploads come and go."""
    answer = client.post("/v1/search", data={"query": QUERY, "k": "1000"})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    scores = {
        one["image_id"]: round(one["score"], 4)
        for one in body["images"]
        if one["image_id"].startswith("images/")
    }
    return answer.headers.get("x-publication", ""), body["model"], scores


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

    with serving(own_service, Settings(uploads=tmp_path / "uploads", rate_limit=0)) as client:
        before = searched(client)[2]
        with meanwhile(lambda: seen.append(searched(client)[2]), add) as running:
            until(lambda: seen)
            reembed(index_copy, another_model, wait_s=60)
            until(lambda: client.get("/v1/model").json()["model"] == new.fingerprint)
            more = len(added) + 2
            until(lambda: running[1].done() or len(added) >= more)  # by the new model, too
        after = searched(client)[2]
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


def test_a_server_follows_a_replica(
    model: ImageTextModel,
    index_copy: Path,
    another_model: Path,
    data_folder: Path,
    checkpoint: Path,
    tmp_path: Path,
) -> None:
    target, replica = open_storage(tmp_path / "target"), tmp_path / "replica"
    delete(index_copy, ["s01", "s02"])
    made = [publish(index_copy, target).publication]
    pull(target, replica)
    seen: list[tuple[str, str, Scores]] = []
    expected: dict[str, Scores] = {}

    def turn(change: Callable[[], object]) -> None:
        until(lambda: made[-1] in [digest for digest, *_ in seen])
        change()
        made.append(publish(index_copy, target).publication)
        assert pull(target, replica).turned
        until(lambda: client.get("/readyz").json()["publications"][0]["digest"] == made[-1])
        expected[made[-1]] = searched(client)[2]

    def ask() -> None:
        seen.append(searched(client))

    app = create_app(Settings(indexes=(replica,), rate_limit=0))
    with TestClient(app, base_url="http://localhost") as client:
        wait_until_ready(client)
        expected[made[0]] = searched(client)[2]
        with meanwhile(ask, ask):
            turn(lambda: build_index(data_folder / "manifest.csv", checkpoint, index_copy))
            turn(lambda: reembed(index_copy, another_model, wait_s=60))
            until(lambda: made[-1] in [digest for digest, *_ in seen])
        until(lambda: not pull(target, replica).held)  # the old ones are let go of
        about = client.get("/v1/model").json()
        page = client.get("/metrics").text
    assert [len(expected[digest]) for digest in made] == [46, 48, 48]
    assert {digest for digest, *_ in seen} == set(made)
    wrong = [one for one in seen if one[2] != expected[one[0]]]
    assert not wrong, (len(wrong), len(seen))
    assert len({(digest, model) for digest, model, _ in seen}) == 3
    (publication,) = about["index"]["publications"]
    assert publication["digest"] == made[-1]
    assert about["model"] != model.fingerprint
    assert f'cxrtext_publication_seconds{{publication="{made[-1]}"}}' in page
    assert made[0] not in page


def test_a_replica_is_not_written(
    model: ImageTextModel, index_folder: Path, tmp_path: Path, png: bytes
) -> None:
    target, replica = open_storage(tmp_path / "target"), tmp_path / "replica"
    publish(index_folder, target)
    pull(target, replica)
    for folder, settings in (
        (replica, Settings(uploads=tmp_path / "uploads")),
        (index_folder, Settings(uploads=tmp_path / "uploads", read_only=True)),
    ):
        with serving(Service(model, open_index(folder, model)), settings) as client:
            added = client.post("/v1/images", files={"image": png})
            check_problem(added, 403, "This server only reads")
            check_problem(client.delete("/v1/images/images/s00.png"), 403, "only reads")
            assert client.get("/v1/model").json()["takes_images"] is False
            answer = client.post("/v1/classify", data={"image_id": "images/s00.png"})
            assert ("x-publication" in answer.headers) == (folder == replica)
            missing = client.post("/v1/classify", data={"image_id": "none"})
            assert ("x-publication" in missing.headers) == (folder == replica)


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
    command = [sys.executable, *given, "--rounds", "25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("25 kills")
