"""The client and the server together."""

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.client import ApiError, Client, ImageId
from cxrtext.client.models import Prompts
from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.gate.keys import hash_key
from cxrtext_api.settings import Settings
from tests.api.conftest import drawn
from tests.server import served

KNOWN = ImageId("images/s01.png")
READER, WRITER = "reader-0123456789", "writer-0123456789"


@pytest.fixture(scope="module")
def whole_service(
    model: ImageTextModel, index_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Service:
    folder = shutil.copytree(index_folder, tmp_path_factory.mktemp("client") / "index")
    return Service(model, open_index(folder, model))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"r read {hash_key(READER)}\nw read,write {hash_key(WRITER)}\n")
    return Settings(uploads=tmp_path_factory.mktemp("uploads"), keys_file=path)


@pytest.fixture(scope="module")
def address(whole_service: Service, settings: Settings) -> Iterator[str]:
    with served(settings, whole_service) as made:
        yield made


@pytest.fixture(scope="module")
def reader(address: str) -> Iterator[Client]:
    with Client(address, READER) as client:
        yield client


@pytest.fixture(scope="module")
def writer(address: str) -> Iterator[Client]:
    with Client(address, WRITER) as client:
        yield client


def test_what_is_loaded_is_told_with_a_key_alone(
    address: str, reader: Client, writer: Client, whole_service: Service
) -> None:
    about = reader.model()
    assert about.model == whole_service.model.fingerprint
    assert about.takes_images
    assert (about.access.key_id, about.access.scopes) == ("r", ["read"])
    assert writer.model().access.scopes == ["read", "write"]
    for key in (None, "another-0123456789"):
        with Client(address, key) as client:
            assert client.ready()
            with pytest.raises(ApiError) as caught:
                client.model()
            assert caught.value.status == 401


def test_questions_to_an_image(reader: Client, data_folder: Path) -> None:
    file = data_folder / KNOWN.value
    found = reader.classify(file)
    assert found.findings[0].finding == "Cardiomegaly"
    assert not found.calibrated
    prompts = {"Fracture": Prompts(positive=["Rib fracture."], negative=["No fracture."])}
    assert [one.finding for one in reader.classify(file, prompts).findings] == ["Fracture"]
    ground = reader.ground(KNOWN, "Left pleural effusion.", threshold=-1)
    assert (ground.width, ground.height, len(ground.boxes)) == (80, 80, 1)
    overlay = Image.open(BytesIO(reader.ground_png(KNOWN, "Left pleural effusion.")))
    assert (overlay.size, overlay.mode) == ((80, 80), "RGB")
    verified = reader.verify(file.read_bytes(), "Left pleural effusion. No pneumothorax.")
    assert [said.wording for said in verified.sentences] == ["affirmed", "negated"]
    assert Image.open(BytesIO(reader.render(file, size=40))).size == (40, 40)


def test_questions_to_the_archive(reader: Client) -> None:
    found = reader.search("Effusion.", where="age > 60", k=4, unique="patient")
    assert (found.matching, len(found.images), found.exact) == (27, 4, True)
    both = reader.search(["Effusion."], KNOWN, image_weight=0.9, other_patients=True)
    assert KNOWN.value not in [hit.image_id for hit in both.images]
    sentences = reader.search_sentences(image=KNOWN, k=2)
    assert (sentences.target, len(sentences.sentences)) == ("sentences", 2)
    assert reader.search_sentences("Left pleural effusion.", k=1).sentences[0].score > 0.99
    rows = list(csv.DictReader(StringIO(reader.cohort("Effusion.", k=3), newline="")))
    assert [row["image"] for row in rows] == [
        hit.image_id for hit in reader.search("Effusion.", k=3).images
    ]


def test_every_image_is_exported(reader: Client) -> None:
    parts = list(reader.export("Effusion.", where="age > 60"))
    rows = list(csv.DictReader(StringIO("".join(parts), newline="")))
    found = reader.search("Effusion.", where="age > 60", k=48)
    assert [row["image"] for row in rows] == [hit.image_id for hit in found.images]


ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(name + " is not installed here")

sys.meta_path.insert(0, Blocked())
from cxrtext.client import Client, ImageId

with Client(sys.argv[1], sys.argv[2]) as client:
    print(client.model().images, len(client.classify(ImageId("images/s01.png")).findings))
print(sorted({blocked} & set(sys.modules)))
"""


def test_a_client_alone_needs_no_model_and_no_web_framework(address: str, reader: Client) -> None:
    blocked = {"torch", "faiss", "fastapi", "starlette", "uvicorn", "numpy", "typer", "PIL"}
    assert reader.ready()
    program = ALONE.replace("{blocked}", repr(blocked))
    command = [sys.executable, "-c", program, address, READER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == ["48 5", "[]"], done.stderr


def test_the_images_of_the_archive(reader: Client, data_folder: Path) -> None:
    every = [image.image_id for image in reader.images(page=7)]
    assert len(every) == len(set(every)) == 48
    chosen = list(reader.images("age >= 80", page=3))
    assert [int(image.metadata["age"]) for image in chosen] == list(range(80, 88))
    assert "age" in [column.name for column in reader.columns().columns]
    detail = reader.image(KNOWN.value)
    assert detail.report[0].section == "findings"
    shown = np.asarray(Image.open(BytesIO(reader.picture(KNOWN.value))))
    np.testing.assert_array_equal(shown, np.asarray(Image.open(data_folder / KNOWN.value)))


def test_images_are_added_and_deleted(reader: Client, writer: Client) -> None:
    added = writer.add_image(
        drawn(1), image_id="n/a.png", study_id="n1", metadata={"age": 99}, report="Effusion."
    )
    assert (added.image_id, added.metadata) == ("n/a.png", {"age": "99"})
    assert added.report is not None
    assert len(added.report) == 1
    with pytest.raises(ApiError, match="replace=true") as caught:
        writer.add_image(drawn(2), image_id="n/a.png")
    assert caught.value.status == 409
    assert writer.add_image(drawn(2), image_id="n/a.png", replace=True).metadata == {}
    writer.add_image(drawn(3), study_id="n2")
    assert reader.model().images == 50
    assert writer.delete_images(["n/a.png"], ["n2"]) == 2
    assert reader.model().images == 48


def test_a_server_that_went_away(model: ImageTextModel) -> None:
    with (
        served(Settings(), Service(model)) as url,
        Client(url) as client,
        pytest.raises(ApiError, match="no index is loaded"),
    ):
        client.search("Effusion.")
    with Client(url) as client, pytest.raises(ApiError, match="cannot be reached"):
        client.model()
