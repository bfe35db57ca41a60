"""A server follows when somebody is forgotten while it runs."""

import shutil
from pathlib import Path
from typing import Any

from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext.service.forget.forget import forget
from cxrtext_api.settings import Settings


def test_a_server_neither_finds_nor_remembers_who_was_forgotten(
    model: ImageTextModel, index_folder: Path, data_folder: Path, tmp_path: Path, serve: Any
) -> None:
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    picture = (data_folder / "images/s05.png").read_bytes()
    service = Service(model, open_index(index, model))
    with serve(service, Settings(uploads=tmp_path / "uploads")) as client:

        def found() -> set[str]:
            answer = client.post("/v1/search", data={"query": "Left pleural effusion.", "k": "48"})
            assert answer.status_code == 200
            return {one["image_id"] for one in answer.json()["images"]}

        form = {"image_id": "sent.png", "patient_id": "p05", "study_id": "sent"}
        sent = client.post("/v1/images", data={**form, "replace": "true"}, files={"image": picture})
        assert sent.status_code == 201, sent.text
        assert client.post("/v1/classify", files={"image": picture}).status_code == 200
        assert {"images/s05.png", "sent.png"} <= found()
        uploads = client.app.state.resources.uploads
        assert uploads._known
        done = forget([index, tmp_path / "uploads"], patient="p05", key=tmp_path / "key")
        assert done.images == 2
        assert found().isdisjoint({"images/s05.png", "sent.png"})
        assert not uploads._known
        assert not list((tmp_path / "uploads").glob("*.png"))
        assert client.get("/v1/images/sent.png").status_code == 404
