"""The API: what a key may do, and that answers are those of the commands."""

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from tests.border.conftest import Served, answer, rows_of
from tests.datasets.written import save_radiograph

QUERY = "Left pleural effusion."


def test_without_a_key_nothing_is_told(served: Served) -> None:
    for method, path in (
        ("GET", "/v1/model"), ("GET", "/v1/images"), ("POST", "/v1/search"), ("GET", "/v1/marks"),
        ("POST", "/v1/images"), ("DELETE", "/v1/images/x"), ("GET", "/metrics"),
    ):  # fmt: skip
        given = served(method, path, "")
        assert given.status_code == 401, path
        assert given.headers["content-type"] == "application/problem+json"
    assert served("GET", "/v1/model", "not-a-key").status_code == 401
    assert served("GET", "/healthz", "").status_code == 200


@pytest.mark.parametrize(
    ("key", "method", "path", "status"),
    [
        ("reader", "DELETE", "/v1/images/x", 403),
        ("blind", "GET", "/metrics", 200), ("blind", "GET", "/v1/images", 403),
        ("reader", "POST", "/v1/marks", 403), ("writer", "DELETE", "/v1/images/x", 404),
        ("reader", "GET", "/v1/images/x", 404), ("reader", "GET", "/v1/nothing", 404),
    ],
)  # fmt: skip
def test_a_key_may_do_what_its_scopes_say(
    key: str, method: str, path: str, status: int, served: Served
) -> None:
    form = {"image_id": "x", "kind": "finding", "text": "Edema", "verdict": "right"}
    given = served(method, path, key, **({"data": form} if method == "POST" else {}))
    assert given.status_code == status


def test_search_answers_as_the_command_does(served: Served, index: Path) -> None:
    form = {"query": QUERY, "k": 7, "where": "age > 40"}
    hits = served("POST", "/v1/search", data=form).json()["images"]
    asked = answer("search", index, QUERY, "-k", 7, "--where", "age > 40")
    assert [hit["image_id"] for hit in hits] == [hit["image"] for hit in asked]
    assert [hit["score"] for hit in hits] == pytest.approx(
        [hit["score"] for hit in asked], abs=1e-5
    )


def test_classify_and_ground_answer_as_the_commands_do(
    served: Served, checkpoint: Path, film: Path, tmp_path: Path
) -> None:
    file = {"image": ("film.png", film.read_bytes(), "image/png")}
    (row,) = answer("classify", checkpoint, film)
    for one in served("POST", "/v1/classify", files=file).json()["findings"]:
        assert one["probability"] == pytest.approx(row[one["finding"]], abs=1e-5)
    form = {"sentence": QUERY}
    found = served("POST", "/v1/ground", files=file, data=form).json()
    out = "--out", tmp_path / "map.png"
    assert found["grid"] == answer("ground", checkpoint, film, QUERY, *out)["grid"]
    picture = served("POST", "/v1/ground", files=file, data=form, headers={"Accept": "image/png"})
    assert picture.content[:4] == b"\x89PNG"


def test_verify_judges_each_sentence(served: Served, film: Path) -> None:
    file = {"image": ("film.png", film.read_bytes(), "image/png")}
    report = {"report": "Left pleural effusion. No pneumothorax."}
    found = served("POST", "/v1/verify", files=file, data=report).json()["sentences"]
    assert [one["sentence"] for one in found] == ["Left pleural effusion.", "No pneumothorax."]


def test_an_image_of_the_index_with_its_report_and_films(served: Served, drawn: Path) -> None:
    row = rows_of(drawn / "manifest.csv")[0]
    path = f"/v1/images/{quote(row['image'], safe='')}"
    image = served("GET", path).json()
    assert (image["study_id"], image["patient_id"]) == (row["study_id"], row["patient_id"])
    assert served("GET", f"{path}/rendered").headers["content-type"] == "image/png"
    films = served("GET", f"{path}/timeline").json()["films"]
    own = [r["image"] for r in rows_of(drawn / "manifest.csv")
           if r["patient_id"] == row["patient_id"]]  # fmt: skip
    assert [film["image_id"] for film in films] == own


def test_an_upload_is_found_and_deleted(served: Served, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (96, 80)).astype(np.uint8)
    Image.fromarray(noise).save(film := tmp_path / "film.png")
    form = {"image_id": "new.png", "study_id": "new", "patient_id": "pnew",
            "report": "Large left pleural effusion."}  # fmt: skip
    file = {"image": ("film.png", film.read_bytes(), "image/png")}
    assert served("POST", "/v1/images", files=file, data=form).status_code == 403
    assert served("POST", "/v1/images", "writer", files=file, data=form).status_code == 201
    assert (
        served("POST", "/v1/images", "writer", files=file, data=form).status_code == 200
    )  # the same again
    hits = served("POST", "/v1/search", data={"query": QUERY, "k": 100}).json()["images"]
    assert "new.png" in {hit["image_id"] for hit in hits}
    like = served("POST", "/v1/search", data={"image_id": "new.png", "k": 3}).json()["images"]
    assert like
    assert served("DELETE", "/v1/images/new.png", "writer").status_code in (200, 204)
    assert served("GET", "/v1/images/new.png").status_code == 404


def test_a_dicom_upload_gets_its_ids_from_the_header(served: Served, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 4096, (96, 80)).astype(np.uint16)
    save_radiograph(
        tmp_path / "film.dcm", "1.2.826.0.1.3680043.10.7.1", pixels, PatientID="DCM1",
        StudyInstanceUID="1.2.826.0.1.3680043.10.7.2", PatientName="Planted^Name",
    )  # fmt: skip
    file = {"image": ("film.dcm", (tmp_path / "film.dcm").read_bytes(), "application/dicom")}
    made = served("POST", "/v1/images", "writer", files=file)
    assert made.status_code == 201, made.text
    image = made.json().get("image", made.json())
    assert image["patient_id"] == "DCM1"
    assert "Planted" not in made.text


def test_marks_are_kept_and_the_last_one_holds(served: Served, drawn: Path) -> None:
    image = rows_of(drawn / "manifest.csv")[1]["image"]
    form = {"image_id": image, "kind": "finding", "text": "Edema", "verdict": "right"}
    assert served("POST", "/v1/marks", "marker", data=form).status_code == 200
    assert served("POST", "/v1/marks", "marker", data={**form, "verdict": "wrong"}).is_success
    marks = served("GET", "/v1/marks", "marker", params={"image_id": image}).json()["marks"]
    assert [(mark["text"], mark["verdict"]) for mark in marks] == [("Edema", "wrong")]


@pytest.mark.parametrize(
    ("path", "form", "named"),
    [
        ("/v1/search", {"k": "3"}, "query"), ("/v1/search", {"query": QUERY, "k": "0"}, "k"),
        ("/v1/search", {"query": QUERY, "k": "many"}, "k"),
        ("/v1/search", {"query": QUERY, "where": "weight > 3"}, "column"),
        ("/v1/ground", {"sentence": QUERY}, "image"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_a_problem_that_names_its_field(
    path: str, form: dict[str, str], named: str, served: Served
) -> None:
    given = served("POST", path, data=form)
    assert given.status_code == 422
    assert given.headers["content-type"] == "application/problem+json"
    assert named in given.text


def test_what_is_no_image_is_refused_without_its_content(served: Served) -> None:
    file = {"image": ("film.png", b"SECRET-TEXT", "image/png")}
    given = served("POST", "/v1/classify", files=file)
    assert 400 <= given.status_code < 500
    assert "SECRET" not in given.text


def test_the_page_its_documentation_and_description_are_served(served: Served) -> None:
    page = served("GET", "/", "")
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    paths = served("GET", "/openapi.json").json()["paths"]
    assert {"/v1/search", "/v1/classify", "/v1/ground", "/v1/verify", "/v1/images"} <= set(paths)
