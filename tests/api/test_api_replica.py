"""A server of a replica: every answer is of one publication, which it names; nothing is written."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

from cxrtext.files.storage import open_storage
from cxrtext.index import build_index, delete, open_index, reembed
from cxrtext.index.publishing.publish import publish
from cxrtext.index.publishing.pull import pull
from cxrtext.models import ImageTextModel
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.runtime import resources
from cxrtext_api.settings import Settings
from tests.waiting import until

QUERY = "Left pleural effusion."


def searched(client: TestClient) -> tuple[str, str, dict[str, float]]:
    """Publication, model and the score of every image."""
    answer = client.post("/v1/search", data={"query": QUERY, "k": "1000"})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    scores = {one["image_id"]: round(one["score"], 4) for one in body["images"]}
    return answer.headers["x-publication"], body["model"], scores


def test_a_server_follows_a_replica(
    model: ImageTextModel,
    index_folder: Path,
    data_folder: Path,
    checkpoint: Path,
    tmp_path: Path,
    wait_until_ready: Callable[[TestClient], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resources, "FOLLOW_SECONDS", 0.1)
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    target, replica = open_storage(tmp_path / "target"), tmp_path / "replica"
    torch.manual_seed(4)
    other = ImageTextModel(replace(model.spec, dimension=24), model.tokenizer)
    save_checkpoint(tmp_path / "new", other, {})
    delete(index, ["s01", "s02"])
    made = [publish(index, target).publication]
    pull(target, replica)
    seen: list[tuple[str, str, dict[str, float]]] = []
    expected: dict[str, dict[str, float]] = {}
    failed: list[object] = []
    stop = threading.Event()
    app = create_app(Settings(index=replica, rate_limit=0))
    with TestClient(app, base_url="http://localhost") as client:
        wait_until_ready(client)

        def ask() -> None:
            while not stop.is_set():
                try:
                    seen.append(searched(client))
                except BaseException as error:  # noqa: BLE001 - told below
                    failed.append(error)

        def turn(change: Callable[[], object]) -> None:
            change()
            made.append(publish(index, target).publication)
            assert pull(target, replica).turned
            until(lambda: client.get("/readyz").json()["publications"][0]["digest"] == made[-1])
            expected[made[-1]] = searched(client)[2]

        expected[made[0]] = searched(client)[2]
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            manifest = data_folder / "manifest.csv"
            turn(lambda: build_index(manifest, checkpoint, index))
            turn(lambda: reembed(index, tmp_path / "new", wait_s=60))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        until(lambda: not pull(target, replica).held)  # the old ones are let go of
        about = client.get("/v1/model").json()
        page = client.get("/metrics").text
    assert not failed, failed[:3]
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
    model: ImageTextModel,
    index_folder: Path,
    tmp_path: Path,
    serve: Any,
    png: bytes,
    check_problem: Callable[..., dict[str, Any]],
) -> None:
    target, replica = open_storage(tmp_path / "target"), tmp_path / "replica"
    publish(index_folder, target)
    pull(target, replica)
    for folder, settings in (
        (replica, Settings(uploads=tmp_path / "uploads")),
        (index_folder, Settings(uploads=tmp_path / "uploads", read_only=True)),
    ):
        with serve(Service(model, open_index(folder, model)), settings) as client:
            added = client.post("/v1/images", files={"image": png})
            check_problem(added, 403, "This server only reads")
            check_problem(client.delete("/v1/images/images/s00.png"), 403, "only reads")
            assert client.get("/v1/model").json()["takes_images"] is False
            answer = client.post("/v1/classify", data={"image_id": "images/s00.png"})
            assert ("x-publication" in answer.headers) == (folder == replica)
            missing = client.post("/v1/classify", data={"image_id": "none"})
            assert ("x-publication" in missing.headers) == (folder == replica)
