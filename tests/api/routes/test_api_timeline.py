"""A patient's films in the order of time, over HTTP and as Python asks them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cxrtext.client import Client
from cxrtext.errors import DataError
from cxrtext.index import build_index, open_index
from cxrtext.models import ImageTextModel
from cxrtext.project.project import Project
from cxrtext.service import Service
from cxrtext_api.gate.keys import hash_key
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, serving
from tests.timelines import PATIENTS, REASONS, image_of, write_timelines


@pytest.fixture(scope="module")
def dated_index(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dated")
    build_index(write_timelines(folder / "set"), checkpoint, folder / "index")
    return folder / "index"


@pytest.fixture
def dated_service(model: ImageTextModel, dated_index: Path) -> Service:
    return Service(model, open_index(dated_index, model))


@pytest.fixture(scope="module")
def client(model: ImageTextModel, dated_index: Path) -> Iterator[TestClient]:
    with serving(Service(model, open_index(dated_index, model))) as made:
        yield made


def test_films_come_in_the_order_of_time_with_days_from_the_one_asked(client: TestClient) -> None:
    body = client.get(f"/v1/images/{image_of('in order', 0)}/timeline").json()
    assert (body["patient_id"], body["ordered"], body["reason"]) == ("in order", True, None)
    assert not body["shifted"]
    found = [(one["study_id"], one["projection"], one["days"]) for one in body["films"]]
    assert found == [
        ("a", "frontal", -62), ("b", "frontal", -59), ("b", "lateral", -59), ("c", "frontal", 0),
        ("d", "frontal", 0), ("e", "lateral", 365),
    ]  # fmt: skip
    assert body["films"][0]["acquired"] == "2019-12-30T23:50:00"
    assert body["films"][3]["image_id"] == image_of("in order", 0)


def test_a_frontal_film_is_compared_with_a_frontal_and_a_lateral_with_a_lateral(
    client: TestClient,
) -> None:
    def prior(number: int) -> str | None:
        answer = client.get(f"/v1/images/{image_of('in order', number)}/timeline")
        return str(said) if (said := answer.json()["prior"]) else None

    frontal, lateral, last = image_of("in order", 2), image_of("in order", 3), 5
    assert (prior(0), prior(last), prior(4)) == (frontal, lateral, image_of("in order", 0))
    assert prior(1) is None  # the first
    assert prior(3) is None  # no lateral before it


def test_shifted_dates_and_numbers_give_an_order_too(client: TestClient) -> None:
    body = client.get(f"/v1/images/{image_of('shifted alike', 1)}/timeline").json()
    assert (body["ordered"], body["shifted"], body["films"][0]["days"]) == (True, True, -3)
    body = client.get(f"/v1/images/{image_of('in sequence', 0)}/timeline").json()
    assert [one["study_id"] for one in body["films"]] == ["i", "h"]
    assert (body["prior"], body["films"][0]["days"]) == (image_of("in sequence", 1), None)
    assert client.get(f"/v1/images/{image_of('one study', 0)}/timeline").json()["ordered"]


def test_days_since_the_first_study_give_an_order_without_a_date(client: TestClient) -> None:
    body = client.get(f"/v1/images/{image_of('by days', 0)}/timeline").json()
    assert [one["study_id"] for one in body["films"]] == ["4", "2", "3"]
    assert [(one["days"], one["acquired"]) for one in body["films"]] == [
        (-31, None), (0, None), (0, None),
    ]  # fmt: skip
    assert body["prior"] == image_of("by days", 2)


@pytest.mark.parametrize(("patient", "reason"), REASONS.items())
def test_what_may_be_in_a_false_order_is_in_none(
    client: TestClient, patient: str, reason: str
) -> None:
    body = client.get(f"/v1/images/{image_of(patient, 0)}/timeline").json()
    assert (body["ordered"], body["prior"]) == (False, None)
    assert reason in body["reason"]
    assert {one["days"] for one in body["films"]} == {None}
    assert len(body["films"]) == len(PATIENTS[patient])


def test_an_unknown_image_and_a_patient_who_is_everybody(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_problem(client.get("/v1/images/none/timeline"), 404)
    monkeypatch.setattr("cxrtext.index.order.MOST_FILMS", 5)
    answer = client.get(f"/v1/images/{image_of('in order', 0)}/timeline")
    check_problem(answer, 422, "more than 500 images have the patient_id")


def test_only_a_key_that_reads_sees_it_and_the_audit_names_all_films(
    dated_service: Service, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(f"r read {hash_key('reads')}\nw write {hash_key('writes')}\n")
    settings = Settings(keys_file=tmp_path / "keys", audit_log=tmp_path / "audit")
    address = f"/v1/images/{image_of('in order', 1)}/timeline"
    with serving(dated_service, settings) as client:
        check_problem(client.get(address), 401)
        check_problem(client.get(address, headers={"Authorization": "Bearer writes"}), 403)
        with Client("http://localhost", "reads", http=client) as typed:
            assert typed.timeline(image_of("in order", 1)).films[0].study_id == "a"
    seen = json.loads((tmp_path / "audit").read_text().splitlines()[-1])
    assert set(seen["study_id"]) == set("abcde")


def test_python_gives_rows_or_says_why_not(dated_service: Service, tmp_path: Path) -> None:
    with Project(tmp_path, dated_service) as project:
        found = project.timeline(image_of("in order", 0))
        assert found.table()["days"].to_pylist() == [-62, -59, -59, 0, 0, 365]
        with pytest.raises(DataError, match="in no order: films of one study are dated 91 days"):
            project.timeline(image_of("study torn", 0))
