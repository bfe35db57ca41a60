"""Adding images over HTTP, and deleting them."""

import hashlib
import json
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from cxrtext.datasets.admission.ids import Ids
from cxrtext.index import delete
from cxrtext.index.changes import MAX_COLUMNS, make_room, set_attributes
from cxrtext.index.store.catalogue import Catalogue
from cxrtext.index.store.writer import keep_file, writing
from cxrtext.service import Service
from cxrtext_api import entry
from cxrtext_api.entry import NEW_COLUMNS, OTHERS, SPARE_COLUMNS
from cxrtext_api.gate.keys import add_key
from cxrtext_api.runtime.resources import open_uploads
from cxrtext_api.settings import Settings
from tests.api.conftest import as_dicom, check_problem, drawn, picture, serving

KNOWN = "images/s01.png"
CHEST = {"Modality": "DX", "BodyPartExamined": "CHEST", "ViewPosition": "PA"}


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    return tmp_path / "uploads"


@pytest.fixture
def client(own_service: Service, uploads: Path) -> Iterator[TestClient]:
    with serving(own_service, Settings(uploads=uploads)) as made:
        yield made


def add(client: TestClient, data: bytes, **form: Any) -> Any:
    return client.post("/v1/images", files={"image": data}, data=form)


def found(client: TestClient, **form: Any) -> list[str]:
    response = client.post("/v1/search", data=form)
    assert response.status_code == 200, response.text
    return [hit["image_id"] for hit in response.json()["images"]]


def said(client: TestClient) -> dict[str, int]:
    """The sentences of all reports, and how many studies have each."""
    asked = {"query": "Said.", "target": "sentences", "k": 100}
    hits = client.post("/v1/search", data=asked).json()["sentences"]
    return {hit["sentence"]: hit["studies"] for hit in hits}


def test_an_added_image_is_found_and_shown(client: TestClient) -> None:
    sent = drawn(1)
    response = add(
        client, sent, image_id="new/a.png", study_id="n1", patient_id="q1", split="val",
        metadata='{"age": 61, "view": " PA ", "dose": 2.5, "bed": true, "note": null, "ward": ""}',
        report="FINDINGS: Left pleural effusion. A sentence that nobody said before.",
    )  # fmt: skip
    assert response.status_code == 201, response.text
    assert response.headers["location"] == "/v1/images/new/a.png"
    body = response.json()
    assert (body["image_id"], body["study_id"], body["patient_id"]) == ("new/a.png", "n1", "q1")
    assert (body["split"], body["width"], body["height"]) == ("val", 80, 90)
    assert body["metadata"] == {"age": "61", "view": "PA", "dose": "2.5", "bed": "True"}
    assert [one["section"] for one in body["report"]] == ["findings", "findings"]
    assert body.pop("looks") in ("lateral", "turned", "mirrored", "inverted", "other")  # noise
    assert client.get(response.headers["location"]).json() == body
    # In every direction of search, by every filter, and as pixels.
    assert found(client, image_id="new/a.png", k=1) == ["new/a.png"]
    assert found(client, query="Effusion.", where="view = 'PA' and age = 61") == ["new/a.png"]
    assert client.get("/v1/images").json()["total"] == 49
    labelled = client.post("/v1/search", data={"image_id": "new/a.png", "k": 1}).json()
    assert len(labelled["images"][0]["labels"]) == 5
    assert said(client)["A sentence that nobody said before."] == 1
    shown = client.get("/v1/images/new/a.png/rendered").content
    np.testing.assert_array_equal(picture(shown), picture(sent))


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


def test_the_id_is_made_of_the_pixels_which_are_private(client: TestClient, uploads: Path) -> None:
    body = add(client, drawn(3)).json()
    assert len(body["image_id"]) == 64 + len(".png")
    assert body["study_id"] == body["patient_id"] == body["image_id"]
    assert (body["split"], body["report"]) == ("test", [])
    (kept,) = uploads.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(uploads.stat().st_mode) == 0o700
    assert kept.name == f"{hashlib.sha256(kept.read_bytes()).hexdigest()}.png"


def test_only_pixels_are_kept(client: TestClient, uploads: Path) -> None:
    named = dicom(30, PatientName="Doe^John")
    assert b"Doe^John" in named
    body = add(client, named).json()
    (file,) = uploads.iterdir()
    kept = file.read_bytes()
    assert kept.startswith(b"\x89PNG")
    assert b"Doe" not in kept
    assert "Doe" not in json.dumps(body)


def dicom(seed: int, **elements: Any) -> bytes:
    """The drawn picture as a DICOM file of a chest, with some elements; None leaves one out."""
    return as_dicom(picture(drawn(seed)), **{**CHEST, **elements})


@pytest.mark.parametrize(
    "damaged", ["49", "1.2.826.0.1.3680043.8.498/.", "1.2.826.0.1.3680043..498.1"]
)
def test_what_is_no_uid_names_no_image_and_two_are_two(client: TestClient, damaged: str) -> None:
    uid = b"1.2.826.0.1.3680043.8.498.1"
    for number in (7, 8):
        added = add(client, dicom(number).replace(uid, damaged.encode().ljust(len(uid))))
        assert added.status_code == 201
        assert len(added.json()["image_id"]) == 64 + len(".png"), "a digest of its pixels"


def test_what_is_there_is_not_added_again(client: TestClient, data_folder: Path) -> None:
    sent = drawn(4)
    first = add(client, sent, image_id="a.png", metadata='{"view": "PA"}')
    assert first.status_code == 201
    again = BytesIO()
    Image.open(BytesIO(sent)).save(again, "png", compress_level=0)
    # The same once more is answered with what is there, under its id.
    for data, form in ((sent, {"image_id": "a.png"}), (sent, {}), (again.getvalue(), {})):
        same = add(client, data, **form)
        assert (same.status_code, same.json()) == (200, first.json())
        assert same.headers["location"] == first.headers["location"]
    check_problem(add(client, drawn(5), image_id="a.png"), 409, "with this id")
    check_problem(add(client, sent, image_id="a.png", split="train"), 409, "with this id")
    check_problem(add(client, sent, image_id="b.png"), 409, "under another id, a.png")
    check_problem(add(client, sent, patient_id="p1"), 409, "under another study or patient")
    assert client.get("/v1/images").json()["total"] == 49
    response = add(client, (data_folder / KNOWN).read_bytes())
    assert (response.status_code, response.json()["image_id"]) == (200, KNOWN)


def test_dicom_files_enter_by_the_rules_of_an_import(client: TestClient) -> None:
    for elements, why in (
        ({"Modality": "CT"}, "another modality"),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.7"}, "secondary capture"),
        ({"ViewPosition": None, "PatientOrientation": ["A", "F"]}, "by PatientOrientation"),
        ({"BodyPartExamined": "KNEE"}, "BodyPartExamined says knee"),
        ({"SeriesDescription": "Doe seitlich"}, "SeriesDescription says lateral"),
    ):
        response = add(client, dicom(90, PatientName="Doe^John", **elements))
        check_problem(response, 422, why)
        assert "Doe" not in response.text
    assert client.get("/v1/images").json()["total"] == 48


def test_ids_come_from_the_header_and_a_corrected_one_replaces(client: TestClient) -> None:
    ids = {"StudyInstanceUID": "1.2.5", "PatientID": "007", "IssuerOfPatientID": "NORD"}
    sent = dicom(91, PatientName="Doe^John", **ids)
    first = add(client, sent)
    assert first.status_code == 201
    body = first.json()
    assert body["image_id"] == "1.2.826.0.1.3680043.8.498.1"
    assert (body["study_id"], body["patient_id"]) == ("1.2.5", "NORD:007")
    assert body["metadata"] == {"view": "PA"}
    again = add(client, sent)
    assert (again.status_code, again.json()) == (200, body)
    # The hospital corrects the patient, and sends the object again under the same UID.
    right = dicom(91, PatientName="Roe^Jane", **ids | {"PatientID": "008"})
    corrected = add(client, right)
    assert (corrected.status_code, corrected.json()["patient_id"]) == (201, "NORD:008")
    assert client.get("/v1/images").json()["total"] == 49
    check_problem(add(client, dicom(92, **ids)), 409, "with this id")


def test_ids_of_headers_are_hashed_as_in_an_import(
    own_service: Service, uploads: Path, tmp_path: Path
) -> None:
    key = b"0123456789abcdefghij"
    (tmp_path / "key").write_bytes(key)
    settings = Settings(uploads=uploads, hash_ids=tmp_path / "key")
    with serving(own_service, settings) as client:
        body = add(client, dicom(93, StudyInstanceUID="1.2.5", PatientID="007")).json()
    ids = Ids(key)
    assert body["image_id"] == ids.of("instance", "1.2.826.0.1.3680043.8.498.1")
    assert body["study_id"] == ids.of("study", "1.2.5")
    assert body["patient_id"] == ids.of("patient", "007")


def test_an_image_is_replaced_and_a_report_goes_with_its_last(client: TestClient) -> None:
    add(client, drawn(6), image_id="a.png", study_id="n1", report="Nobody said this yet.")
    sent = drawn(7, 64, 100)
    response = add(client, sent, image_id="a.png", study_id="n1", replace=True)
    assert response.status_code == 201
    assert (response.json()["width"], response.json()["height"]) == (100, 64)
    assert len(response.json()["report"]) == 1  # the study's report is still there
    assert client.get("/v1/images").json()["total"] == 49
    shown = client.get("/v1/images/a.png/rendered").content
    np.testing.assert_array_equal(picture(shown), picture(sent))
    assert "Nobody said this yet." in said(client)
    add(client, drawn(45), image_id="a.png", study_id="other", replace=True)
    assert "Nobody said this yet." not in said(client)


def test_what_is_said_must_agree_with_the_index(client: TestClient) -> None:
    check_problem(add(client, drawn(8), study_id="s01", patient_id="p99"), 422, "another patient")
    check_problem(add(client, drawn(8), patient_id="p00", split="test"), 422, "another split")
    body = add(client, drawn(8), study_id="s05").json()
    assert (body["patient_id"], body["split"]) == ("p05", "val")
    assert len(body["report"]) == 1


@pytest.mark.parametrize(
    ("form", "detail"),
    [
        ({"image_id": "../a.png"}, "image_id: write it"),
        ({"image_id": "a/../b.png"}, "image_id: write it"),
        ({"image_id": "a\0.png"}, "image_id: write it"),
        ({"image_id": "a/rendered"}, "must not be 'rendered'"),
        ({"study_id": "<script>"}, "study_id: write it"),
        ({"metadata": "{"}, "metadata: expected"),
        ({"metadata": '{"label.Edema": 1}'}, "a reserved name"),
        ({"metadata": '{"Source": "archive"}'}, "a reserved name"),
        ({"metadata": '{"a": {"b": 1}}'}, "entry 1 is neither text nor a number"),
        ({"metadata": '{"": 1}'}, "the name of entry 1"),
        ({"report": "e" * 20_001}, "see errors"),
    ],
)
def test_a_form_that_does_not_fit(
    client: TestClient, uploads: Path, form: dict[str, str], detail: str
) -> None:
    check_problem(add(client, drawn(9), **form), 422, detail)
    assert not uploads.exists()
    assert client.get("/v1/images").json()["total"] == 48


def test_no_link_is_followed(client: TestClient, uploads: Path, tmp_path: Path) -> None:
    """Not even where it has the name that a file's content gives it."""
    (tmp_path / "outside.png").write_bytes(b"untouched")
    add(client, drawn(12), image_id="a")
    (kept,) = uploads.iterdir()
    client.delete("/v1/images/a")
    kept.symlink_to(tmp_path / "outside.png")
    assert add(client, drawn(12), image_id="a").status_code == 201
    assert not kept.is_symlink()
    assert (tmp_path / "outside.png").read_bytes() == b"untouched"


def test_while_another_process_writes(
    client: TestClient, index_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "WAIT_S", 0.0)
    with writing(index_copy):
        added = add(client, drawn(13), image_id="a.png")
        check_problem(added, 503, "Another process is writing")
        check_problem(client.delete(f"/v1/images/{KNOWN}"), 503, "Another process is writing")
    assert add(client, drawn(13), image_id="a.png").status_code == 201


def test_a_server_without_a_folder_for_images(service: Service) -> None:
    with serving(service) as client:
        check_problem(add(client, drawn(14)), 403, "--uploads FOLDER")
        assert client.get("/v1/model").json()["takes_images"] is False


def test_an_image_is_deleted_with_its_file(client: TestClient, uploads: Path) -> None:
    add(client, drawn(16), image_id="new/a.png", study_id="n1", report="Nobody said this yet.")
    add(client, drawn(17), image_id="new/b.png", study_id="n1")
    assert client.delete("/v1/images/new/a.png").status_code == 204
    assert client.get("/v1/images/new/a.png").status_code == 404
    (kept,) = uploads.iterdir()
    np.testing.assert_array_equal(picture(kept.read_bytes()), picture(drawn(17)))
    assert len(client.get("/v1/images/new/b.png").json()["report"]) == 1
    response = client.delete("/v1/images/new/b.png")
    assert (response.status_code, response.content) == (204, b"")
    assert not list(uploads.iterdir())
    assert "Nobody said this yet." not in said(client)
    assert "new/a.png" not in found(client, query="Effusion.", k=1000)


def test_images_and_studies_are_deleted_all_or_none(client: TestClient, data_folder: Path) -> None:
    for params in (
        {"image_id": [KNOWN, "images/none.png"]},
        {"study_id": ["s02", "none"]},
        {"image_id": KNOWN, "study_id": "none"},
    ):
        check_problem(client.delete("/v1/images", params=params), 404, "nothing was deleted")
    check_problem(client.delete("/v1/images/nowhere.png"), 404)
    check_problem(client.delete("/v1/images"), 422, "at least one")
    assert client.get("/v1/images").json()["total"] == 48
    params = {"image_id": [KNOWN, "images/s02.png"], "study_id": ["s02", "s03"]}
    response = client.delete("/v1/images", params=params)
    assert (response.status_code, response.json()) == (200, {"deleted": 3})
    assert client.get("/v1/images").json()["total"] == 45
    assert (data_folder / KNOWN).is_file(), "a file of the archive stays"


# --- an image, its file, its vectors and its report belong together ---


def whole(client: TestClient, name: str) -> tuple[Any, ...]:
    (hit,) = client.post("/v1/search", data={"image_id": name, "k": 1}).json()["images"]
    assert hit["image_id"] == name
    shown = client.get(f"/v1/images/{name}/rendered").content
    classified = client.post("/v1/classify", data={"image_id": name}).json()["findings"]
    return client.get(f"/v1/images/{name}").json(), hit["labels"], classified, shown


def fill_columns(index: Path, leave: int = 0) -> None:
    """Give the first image a value in so many columns that only some more are free."""
    with writing(index) as catalogue, catalogue.transaction(write=True) as database:
        count = MAX_COLUMNS - len(catalogue.columns()) - leave
        (number,) = database.execute("SELECT min(number) FROM images").fetchone()
        set_attributes(database, [(number, {f"filled {i}": i for i in range(count)})])


def test_a_replacement_that_is_refused_changes_nothing(
    client: TestClient, index_copy: Path, uploads: Path
) -> None:
    add(client, drawn(40), image_id="a", study_id="n", report="Left pleural effusion.")
    before, files = whole(client, "a"), list(uploads.iterdir())
    fill_columns(index_copy)
    form = {"image_id": "a", "study_id": "n", "replace": True, "report": "No more."}
    refused = add(client, drawn(41), metadata='{"new": 1}', **form)
    check_problem(refused, 422, "no room for columns")
    assert whole(client, "a") == before
    assert list(uploads.iterdir()) == files
    # Without a new column it is taken, and so is one that the index has.
    assert add(client, drawn(41), metadata='{"filled 1": 2}', **form).status_code == 201
    assert whole(client, "a") != before
    (kept,) = uploads.iterdir()
    assert [kept] != files


@pytest.mark.parametrize("step", ["add_images", "write_summary"])
def test_a_replacement_that_fails_is_whole(
    client: TestClient, uploads: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    from cxrtext.index import changes as index_changes
    from cxrtext.index import entry as index_entry

    add(client, drawn(42), image_id="a", study_id="n", report="Left pleural effusion.")
    before = whole(client, "a")

    full = Mock(side_effect=OSError(28, "No space left on device"))
    with monkeypatch.context() as patch:
        patch.setattr(index_changes if step == "add_images" else index_entry, step, full)
        form = {"image_id": "a", "study_id": "n", "replace": True, "report": "No more."}
        assert add(client, drawn(43), **form).status_code == 507
    after = whole(client, "a")
    shown = drawn(42 if step == "add_images" else 43)
    assert (after == before) == (step == "add_images")
    np.testing.assert_array_equal(picture(after[-1]), picture(shown))
    found = {one["finding"]: one["probability"] for one in after[2]}
    assert after[1] == pytest.approx(found, abs=2e-6)  # of several threads the last digit differs
    assert len(list(uploads.iterdir())) == 1


def test_a_file_that_two_images_share_stays(client: TestClient, uploads: Path) -> None:
    for name in ("a", "b"):
        assert add(client, drawn(46), image_id=name, replace=True).status_code == 201
    assert len(list(uploads.iterdir())) == 1
    client.delete("/v1/images/a")
    shown = client.get("/v1/images/b/rendered")
    np.testing.assert_array_equal(picture(shown.content), picture(drawn(46)))
    add(client, drawn(47), image_id="b", replace=True)
    (kept,) = uploads.iterdir()
    np.testing.assert_array_equal(picture(kept.read_bytes()), picture(drawn(47)))


def test_a_damaged_file_is_written_anew(client: TestClient, uploads: Path) -> None:
    add(client, drawn(48), image_id="a")
    (kept,) = uploads.iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert client.get("/v1/images/a/rendered").status_code == 422
    add(client, drawn(48), image_id="b", replace=True)
    assert client.get("/v1/images/a/rendered").status_code == 200


def test_files_of_a_killed_server_are_removed_when_one_starts(
    client: TestClient, index_copy: Path, uploads: Path
) -> None:
    """As if one was killed after it wrote a file; a file that nobody noted is nobody's."""
    add(client, drawn(49), image_id="a")
    with Catalogue(index_copy / "catalogue.sqlite", write=True) as catalogue:
        keep_file(catalogue, uploads.resolve(), b"half a", "0" * 64, ".png")
    (uploads / f"{'1' * 64}.png").write_bytes(b"of somebody else")
    assert len(list(uploads.iterdir())) == 3
    open_uploads(Settings(index=index_copy, uploads=uploads))
    assert not (uploads / f"{'0' * 64}.png").exists()
    assert len(list(uploads.iterdir())) == 2
    assert client.get("/v1/images/a/rendered").status_code == 200


def test_files_are_left_alone_while_their_folder_is_away(
    client: TestClient, index_copy: Path, uploads: Path
) -> None:
    add(client, drawn(50), image_id="a")
    away = uploads.rename(uploads.with_name("away"))
    assert client.get("/v1/images/a/rendered").status_code == 404
    assert client.delete("/v1/images/a").status_code == 204
    assert len(list(away.iterdir())) == 1
    away.rename(uploads)
    open_uploads(Settings(index=index_copy, uploads=uploads))
    assert not list(uploads.iterdir())


def test_studies_deleted_on_the_command_line_lose_their_files(
    client: TestClient, index_copy: Path, uploads: Path, data_folder: Path
) -> None:
    add(client, drawn(51), image_id="a", study_id="n")
    delete(index_copy, ["n", "s01"])
    assert not list(uploads.iterdir())
    assert (data_folder / KNOWN).is_file()


def test_deletions_at_the_same_time(client: TestClient, uploads: Path) -> None:
    names = [f"x/{i}" for i in range(8)]
    for seed, name in enumerate(names, 60):
        add(client, drawn(seed), image_id=name)
    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(client.delete, [f"/v1/images/{name}" for name in names]))
    assert [answer.status_code for answer in answers] == [204] * len(names)
    assert not list(uploads.iterdir())


# --- columns ---


def columns(count: int, prefix: str = "c") -> str:
    return json.dumps({f"{prefix}{i}": i for i in range(count)})


def test_an_image_brings_few_columns(client: TestClient, uploads: Path) -> None:
    refused = add(client, drawn(70), image_id="a", metadata=columns(NEW_COLUMNS + 1))
    check_problem(refused, 422, "more than 16 columns are new")
    assert not uploads.exists()
    assert add(client, drawn(70), image_id="a", metadata=columns(NEW_COLUMNS)).status_code == 201
    more = columns(NEW_COLUMNS + 10)
    assert add(client, drawn(71), image_id="b", metadata=more).status_code == 201


def test_uploads_leave_columns_and_give_theirs_back(client: TestClient, index_copy: Path) -> None:
    fill_columns(index_copy, leave=SPARE_COLUMNS + 20)
    assert add(client, drawn(72), image_id="a", metadata=columns(16, "a")).status_code == 201
    refused = add(client, drawn(73), image_id="b", metadata=columns(16, "b"))
    check_problem(refused, 422, "no room for columns")
    assert add(client, drawn(73), image_id="b", metadata=columns(4, "b")).status_code == 201
    # What nobody has a value in any more makes room for others.
    client.delete("/v1/images/a")
    assert add(client, drawn(72), image_id="c", metadata=columns(16, "c")).status_code == 201
    names = [column["name"] for column in client.get("/v1/columns").json()["columns"]]
    assert {"b3", "c15", "filled 1", "age"} <= set(names)
    assert "a1" not in names
    assert found(client, query="Effusion.", where="c3 = 3") == ["c"]
    assert found(client, query="Effusion.", where="b3 = 3") == ["b"]
    # There is room for the tables of the archive's operator.
    with writing(index_copy) as catalogue, catalogue.transaction(write=True) as database:
        make_room(database, [f"more {i}" for i in range(SPARE_COLUMNS)])


# --- whose an image is ---


SCOPES = {
    "other": ["read", "write"],
    "ward": ["read", "write"],
    "admin": ["read", "write", "admin"],
}


class Keyed:
    """A client of a server with a key of each of these scopes."""

    def __init__(self, client: TestClient, keys: dict[str, str]) -> None:
        self.client = client
        self.headers = {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}

    def send(self, key: str, image: int | bytes, **form: Any) -> Any:
        data = drawn(image) if isinstance(image, int) else image
        given = {name: value for name, value in form.items() if value is not None}
        headers = self.headers[key]
        return self.client.post("/v1/images", files={"image": data}, data=given, headers=headers)

    def get(self, key: str, name: str) -> Any:
        return self.client.get(f"/v1/images/{name}", headers=self.headers[key])

    def delete(self, key: str, name: str = "", **params: str) -> int:
        address = f"/v1/images/{name}".rstrip("/")
        answer = self.client.delete(address, params=params, headers=self.headers[key])
        return answer.status_code


@pytest.fixture
def keyed(own_service: Service, uploads: Path, tmp_path: Path) -> Iterator[Keyed]:
    path = tmp_path / "keys"
    keys = {name: add_key(path, name, scopes) for name, scopes in SCOPES.items()}
    settings = Settings(uploads=uploads, keys_file=path, audit_log=tmp_path / "audit.log")
    with serving(own_service, settings) as made:
        yield Keyed(made, keys)


def test_what_others_brought_in_is_changed_by_an_admin_alone(keyed: Keyed, tmp_path: Path) -> None:
    """Whichever way: in its place, moved, with another report, or gone; nothing of it changes."""

    def there() -> list[Any]:
        names = [one + what for one in ("theirs", KNOWN) for what in ("", "/rendered")]
        return [keyed.get("ward", name).content for name in names]

    first = {"image_id": "theirs", "study_id": "n1", "patient_id": "q1", "report": "Said once."}
    assert keyed.send("other", 90, **first).status_code == 201
    before = there()
    for name in ("theirs", KNOWN):
        for more in ({}, {"study_id": "stolen"}, {"patient_id": "q9", "split": "train"}):
            refused = keyed.send("ward", 91, image_id=name, replace="true", **more)
            assert (refused.status_code, refused.json()["detail"]) == (403, OTHERS)
        assert keyed.delete("ward", name) == 403
    assert keyed.delete("ward", study_id="n1") == 403
    in_study = {"image_id": "more", "study_id": "n1"}
    assert keyed.send("ward", 92, **in_study, report="Another.").status_code == 403
    assert there() == before
    # What it adds, and what it added, is its own; the report that is there may come again.
    assert keyed.send("ward", 92, **in_study, report="Said once.").status_code == 201
    assert keyed.send("ward", 93, **in_study, replace="true").status_code == 201
    assert keyed.delete("ward", "more") == 204
    moved = keyed.send("admin", 94, image_id="theirs", replace="true", study_id="n2", report="New.")
    assert (moved.status_code, moved.json()["study_id"]) == (201, "n2")
    told = json.loads((tmp_path / "audit.log").read_text().splitlines()[-1])
    assert told["patient_id"] == ["n2", "q1"]  # and whose image it was
    assert keyed.delete("admin", KNOWN) == 204
