"""Adding images over HTTP, and deleting them."""

import json
import shutil
import stat
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image

from cxrtext.index import open_index
from cxrtext.index.writer import writing
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api import adding
from cxrtext_api.new_image import check_image_id, parse_metadata
from cxrtext_api.settings import Settings

KNOWN = "images/s01.png"


@pytest.fixture
def index_copy(index_folder: Path, tmp_path: Path) -> Path:
    """An index of the test's own."""
    return Path(shutil.copytree(index_folder, tmp_path / "index"))


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    return tmp_path / "uploads"


@pytest.fixture
def client(
    model: ImageTextModel, index_copy: Path, uploads: Path, serve: Any
) -> Iterator[TestClient]:
    """A client of a server that takes images."""
    with serve(Service(model, open_index(index_copy, model)), Settings(uploads=uploads)) as made:
        yield made


def drawn(seed: int, height: int = 90, width: int = 80) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width)).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def add(client: TestClient, data: bytes, **form: Any) -> Any:
    return client.post("/v1/images", files={"image": data}, data=form)


def found(client: TestClient, **form: Any) -> list[str]:
    response = client.post("/v1/search", data=form)
    assert response.status_code == 200, response.text
    return [hit["image_id"] for hit in response.json()["images"]]


def test_an_added_image_is_found_and_shown(client: TestClient, uploads: Path) -> None:
    sent = drawn(1)
    response = add(
        client,
        sent,
        image_id="new/a.png",
        study_id="n1",
        patient_id="q1",
        split="val",
        metadata=json.dumps({"age": 61, "view": "PA", "note": None}),
        report="FINDINGS: Left pleural effusion. A sentence that nobody said before.",
    )
    assert response.status_code == 201, response.text
    assert response.headers["location"] == "/v1/images/new/a.png"
    body = response.json()
    assert (body["image_id"], body["study_id"], body["patient_id"]) == ("new/a.png", "n1", "q1")
    assert (body["split"], body["width"], body["height"]) == ("val", 80, 90)
    assert body["metadata"] == {"age": "61", "view": "PA"}
    assert [said["section"] for said in body["report"]] == ["findings", "findings"]
    assert client.get(response.headers["location"]).json() == body
    # In every direction of search, by every filter, and as pixels.
    assert found(client, image_id="new/a.png", k=1) == ["new/a.png"]
    assert found(client, query="Effusion.", where="view = 'PA' and age = 61") == ["new/a.png"]
    assert client.get("/v1/images").json()["total"] == 49
    labelled = client.post("/v1/search", data={"image_id": "new/a.png", "k": 1}).json()
    assert len(labelled["images"][0]["labels"]) == 5
    said = {"query": "A sentence that nobody said before.", "target": "sentences", "k": 1}
    (hit,) = client.post("/v1/search", data=said).json()["sentences"]
    assert (hit["sentence"], hit["studies"]) == (said["query"], 1)
    shown = client.get("/v1/images/new/a.png/rendered").content
    np.testing.assert_array_equal(_pixels(shown), _pixels(sent))


def _pixels(content: bytes) -> NDArray[Any]:
    return np.asarray(Image.open(BytesIO(content)))


def test_an_added_image_scores_as_if_it_had_been_indexed(client: TestClient) -> None:
    sent = drawn(2)
    add(client, sent, image_id="a.png")
    one = client.post("/v1/classify", files={"image": sent}).json()["findings"]
    other = client.post("/v1/classify", data={"image_id": "a.png"}).json()["findings"]
    for fresh, kept in zip(one, other, strict=True):
        assert fresh["probability"] == pytest.approx(kept["probability"], abs=0.01)
    hit = client.post("/v1/search", data={"image_id": "a.png", "k": 1}).json()["images"][0]
    for kept in other:
        assert hit["labels"][kept["finding"]] == pytest.approx(kept["probability"], abs=1e-4)


def test_the_id_is_made_of_the_pixels(client: TestClient, uploads: Path) -> None:
    body = add(client, drawn(3)).json()
    assert len(body["image_id"]) == 64 + len(".png")
    assert body["study_id"] == body["patient_id"] == body["image_id"]
    assert (body["split"], body["report"]) == ("test", [])
    assert [file.name for file in uploads.iterdir()] == [body["image_id"]]


def test_only_pixels_are_kept(client: TestClient, uploads: Path) -> None:
    named = add_dicom_name(drawn(30), "Doe^John")
    assert b"Doe^John" in named
    body = add(client, named).json()
    kept = (uploads / body["image_id"]).read_bytes()
    assert kept.startswith(b"\x89PNG")
    assert b"Doe" not in kept
    assert "Doe" not in json.dumps(body)


def add_dicom_name(png: bytes, name: str) -> bytes:
    """The picture as a DICOM file of a named patient."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import UID, DigitalXRayImageStorageForPresentation, ExplicitVRLittleEndian

    pixels = _pixels(png)
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = DigitalXRayImageStorageForPresentation
    meta.MediaStorageSOPInstanceUID = UID("1.2.826.0.1.3680043.8.498.1")
    data = FileDataset("", {}, preamble=b"\0" * 128, file_meta=meta)
    data.SOPClassUID = meta.MediaStorageSOPClassUID
    data.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    data.PatientName = name
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel = 1
    data.PhotometricInterpretation = "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit = 7
    data.PixelRepresentation = 0
    data.WindowCenter, data.WindowWidth = "128", "256"
    data.PixelData = pixels.tobytes()
    buffer = BytesIO()
    data.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def test_what_is_there_is_not_added_again(client: TestClient, check_problem: Any) -> None:
    sent = drawn(4)
    assert add(client, sent, image_id="a.png").status_code == 201
    check_problem(add(client, sent, image_id="a.png"), 409, "of this id")
    check_problem(add(client, drawn(5), image_id="a.png"), 409, "of this id")
    check_problem(add(client, sent, image_id="b.png"), 409, "same pixels")
    again = BytesIO()
    Image.open(BytesIO(sent)).save(again, "png", compress_level=0)
    check_problem(add(client, again.getvalue()), 409, "same pixels")
    assert client.get("/v1/images").json()["total"] == 49


def test_an_archive_image_is_known_by_its_pixels(
    client: TestClient, check_problem: Any, data_folder: Path
) -> None:
    check_problem(add(client, (data_folder / KNOWN).read_bytes()), 409, "same pixels")


def test_an_image_is_replaced(client: TestClient) -> None:
    add(client, drawn(6), image_id="a.png", study_id="n1", report="Left pleural effusion.")
    sent = drawn(7, 64, 100)
    response = add(client, sent, image_id="a.png", study_id="n1", replace=True)
    assert response.status_code == 201
    assert (response.json()["width"], response.json()["height"]) == (100, 64)
    assert len(response.json()["report"]) == 1  # the study's report is still there
    assert client.get("/v1/images").json()["total"] == 49
    np.testing.assert_array_equal(
        _pixels(client.get("/v1/images/a.png/rendered").content), _pixels(sent)
    )


def test_what_is_said_must_agree_with_the_index(client: TestClient, check_problem: Any) -> None:
    check_problem(add(client, drawn(8), study_id="s01", patient_id="p99"), 422, "another patient")
    check_problem(add(client, drawn(8), patient_id="p00", split="test"), 422, "another split")
    body = add(client, drawn(8), study_id="s05").json()
    assert (body["patient_id"], body["split"]) == ("p05", "val")
    assert len(body["report"]) == 1


@pytest.mark.parametrize(
    ("form", "detail"),
    [
        ({"image_id": "../a.png"}, "image_id: write it"),
        ({"image_id": "/etc/passwd"}, "image_id: write it"),
        ({"image_id": "a//b.png"}, "image_id: write it"),
        ({"image_id": "a/../b.png"}, "image_id: write it"),
        ({"image_id": ".hidden"}, "image_id: write it"),
        ({"image_id": "a b.png"}, "image_id: write it"),
        ({"image_id": "a\0.png"}, "image_id: write it"),
        ({"image_id": "a/rendered"}, "must not be 'rendered'"),
        ({"image_id": "a" * 201}, "see errors"),
        ({"study_id": "<script>"}, "study_id: write it"),
        ({"patient_id": "Doe John"}, "patient_id: write it"),
        ({"split": "holdout"}, "see errors"),
        ({"metadata": "{"}, "metadata: expected"),
        ({"metadata": "[1]"}, "metadata: expected"),
        ({"metadata": '{"label.Edema": 1}'}, "a name that is taken"),
        ({"metadata": '{"Split": "x"}'}, "a name that is taken"),
        ({"metadata": '{"a": {"b": 1}}'}, "entry 1 is no text or number"),
        ({"metadata": '{"": 1}'}, "the name of entry 1"),
        ({"report": "e" * 20_001}, "see errors"),
        ({"replace": "perhaps"}, "see errors"),
    ],
)
def test_a_form_that_does_not_fit(
    client: TestClient, check_problem: Any, uploads: Path, form: dict[str, str], detail: str
) -> None:
    check_problem(add(client, drawn(9), **form), 422, detail)
    assert not uploads.exists()
    assert client.get("/v1/images").json()["total"] == 48


@pytest.mark.parametrize("name", ["a", "a.png", "p07/s01/1.2.840.113619.png", "_a-b.c", "1"])
def test_ids_that_are_taken(name: str) -> None:
    check_image_id(name)


def test_metadata_becomes_text() -> None:
    text = '{"a": 1, "b": 2.5, "c": true, "d": null, "e": "", "f": " x "}'
    assert parse_metadata(text) == {"a": "1", "b": "2.5", "c": "True", "f": "x"}


def test_a_file_that_is_no_image(client: TestClient, check_problem: Any, uploads: Path) -> None:
    check_problem(add(client, b"hello"), 422, "The image ")
    check_problem(client.post("/v1/images", data={"image_id": "a.png"}), 422, "see errors")
    assert not uploads.exists()


def test_no_link_is_followed(
    client: TestClient, check_problem: Any, uploads: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    uploads.mkdir()
    (uploads / "link").symlink_to(outside)
    (uploads / "file.png").symlink_to(outside / "x.png")
    check_problem(add(client, drawn(10), image_id="link/a.png"), 409, "cannot be kept")
    check_problem(add(client, drawn(10), image_id="file.png"), 409, "cannot be kept")
    assert not list(outside.iterdir())


def test_an_id_below_another_image(client: TestClient, check_problem: Any) -> None:
    assert add(client, drawn(11), image_id="a").status_code == 201
    check_problem(add(client, drawn(12), image_id="a/b.png"), 409, "cannot be kept")
    assert client.get("/v1/images").json()["total"] == 49


def test_while_another_process_writes(
    client: TestClient, check_problem: Any, index_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "WAIT_S", 0.0)
    with writing(index_copy):
        response = add(client, drawn(13), image_id="a.png")
        check_problem(response, 503, "Another process is writing")
        assert int(response.headers["retry-after"]) > 0
        check_problem(client.delete(f"/v1/images/{KNOWN}"), 503, "Another process is writing")
    assert add(client, drawn(13), image_id="a.png").status_code == 201


def test_a_server_without_a_folder_for_images(
    service: Service, serve: Any, check_problem: Any
) -> None:
    with serve(service) as client:
        check_problem(add(client, drawn(14)), 503, "--uploads FOLDER")
        assert client.get("/v1/model").json()["takes_images"] is False


def test_a_disk_that_fails_leaves_nothing(
    client: TestClient, check_problem: Any, uploads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cxrtext.index import changes

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(changes, "add_images", fail)
    check_problem(add(client, drawn(15), image_id="a/b.png"), 500)
    assert not [file for file in uploads.rglob("*") if file.is_file()]
    assert client.get("/v1/images").json()["total"] == 48


def test_an_image_is_deleted_with_its_file(client: TestClient, uploads: Path) -> None:
    add(client, drawn(16), image_id="new/a.png", study_id="n1", report="Nobody said this yet.")
    add(client, drawn(17), image_id="new/b.png", study_id="n1")
    assert client.delete("/v1/images/new/a.png").status_code == 204
    assert client.get("/v1/images/new/a.png").status_code == 404
    assert [file.name for file in (uploads / "new").iterdir()] == ["b.png"]
    assert len(client.get("/v1/images/new/b.png").json()["report"]) == 1
    response = client.delete("/v1/images/new/b.png")
    assert (response.status_code, response.content) == (204, b"")
    assert not list(uploads.iterdir())
    said = {"query": "Nobody said this yet.", "target": "sentences", "k": 10}
    hits = client.post("/v1/search", data=said).json()["sentences"]
    assert said["query"] not in [hit["sentence"] for hit in hits]
    assert "new/a.png" not in found(client, query="Effusion.", k=1000)


def test_a_file_of_the_archive_stays(client: TestClient, data_folder: Path) -> None:
    assert client.delete(f"/v1/images/{KNOWN}").status_code == 204
    assert (data_folder / KNOWN).is_file()


def test_images_and_studies_are_deleted_all_or_none(client: TestClient, check_problem: Any) -> None:
    for params in (
        {"image_id": [KNOWN, "images/none.png"]},
        {"study_id": ["s02", "none"]},
        {"image_id": KNOWN, "study_id": "none"},
    ):
        check_problem(client.delete("/v1/images", params=params), 404, "nothing was deleted")
    assert client.get("/v1/images").json()["total"] == 48
    params = {"image_id": [KNOWN, "images/s02.png"], "study_id": ["s02", "s03"]}
    response = client.delete("/v1/images", params=params)
    assert (response.status_code, response.json()) == (200, {"deleted": 3})
    assert client.get("/v1/images").json()["total"] == 45


def test_something_has_to_be_named(client: TestClient, check_problem: Any) -> None:
    check_problem(client.delete("/v1/images"), 422, "at least one")
    check_problem(client.delete("/v1/images/nowhere.png"), 404)


def test_modes_of_files(client: TestClient, uploads: Path) -> None:
    add(client, drawn(18), image_id="a/b.png")
    assert stat.S_IMODE((uploads / "a/b.png").stat().st_mode) == 0o600
    assert stat.S_IMODE((uploads / "a").stat().st_mode) == 0o700
