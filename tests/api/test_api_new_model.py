"""A server whose index is turned to another model follows it, and answers meanwhile."""

import json
import shutil
import threading
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from cxrtext.index import open_index, reembed
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.service import Service
from cxrtext_api.runtime import resources
from cxrtext_api.settings import Settings
from tests.waiting import until

QUERY = "Left pleural effusion."
Scores = dict[str, float]


def drawn(seed: int) -> bytes:
    file = BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (90, 80)).astype(np.uint8)
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def searched(client: TestClient) -> Scores:
    """The score of every image of the data folder; uploads come and go."""
    answer = client.post("/v1/search", data={"query": QUERY, "k": "1000"})
    assert answer.status_code == 200, answer.text
    return {
        one["image_id"]: round(one["score"], 4)
        for one in answer.json()["images"]
        if one["image_id"].startswith("images/")
    }


def test_a_server_follows_an_index_to_another_model(
    model: ImageTextModel,
    index_folder: Path,
    tmp_path: Path,
    serve: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resources, "FOLLOW_SECONDS", 0.1)
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    torch.manual_seed(4)
    other = ImageTextModel(replace(model.spec, dimension=24), model.tokenizer)
    save_checkpoint(tmp_path / "new", other, {})
    new = load_model(tmp_path / "new")
    seen: list[Scores] = []
    added: list[str] = []
    failed: list[object] = []
    stop = threading.Event()
    with serve(
        Service(model, open_index(index, model)),
        Settings(uploads=tmp_path / "uploads", rate_limit=0),
    ) as client:
        before = searched(client)

        def ask() -> None:
            while not stop.is_set():
                try:
                    seen.append(searched(client))
                except BaseException as error:  # noqa: BLE001 - told below
                    failed.append(error)

        def add() -> None:
            seed = 0
            while not stop.is_set():
                name = f"added{seed}.png"
                form = {"image_id": name, "report": f"Upload {seed} has an effusion."}
                answer = client.post("/v1/images", data=form, files={"image": drawn(seed)})
                if answer.status_code == 201:
                    added.append(name)
                    seed += 1
                elif answer.status_code not in (409, 503):  # 409: it was kept, the answer late
                    failed.append(answer.text)

        threads = [threading.Thread(target=work) for work in (ask, add)]
        for thread in threads:
            thread.start()
        try:
            reembed(index, tmp_path / "new", wait_s=60)
            until(lambda: client.get("/v1/model").json()["model"] == new.fingerprint)
            more = len(added) + 2
            until(lambda: failed or len(added) >= more)  # by the new model, too
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        after = searched(client)
        label = client.post("/v1/search", data={"query": QUERY, "where": '"label.Edema" >= 0'})
    assert not failed, failed[:3]
    assert before != after
    wrong = [one for one in seen if one not in (before, after)]
    assert not wrong, (len(wrong), len(seen))
    turns = [one == after for one in seen]
    assert turns == sorted(turns)  # never back
    assert not turns[0]
    assert (label.status_code, len(label.json()["images"])) == (200, 10)
    with Catalogue(index / CATALOGUE) as catalogue:
        assert check_index(index, catalogue) == []
        assert set(added) <= set(catalogue.known_images())
    with open_index(index) as archive:
        assert archive.model.fingerprint == new.fingerprint
        assert archive.images == 48 + len(added)
    assert json.loads((index / "index.json").read_text())["model"] == new.fingerprint
