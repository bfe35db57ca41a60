"""Marks over HTTP: who may, under whose name, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.client import Client
from cxrtext.records import marks
from cxrtext.service import Service
from cxrtext_api.gate.keys import add_key
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, serving

IMAGE = "images/s25.png"
NONE: dict[str, Any] = {"marks": [], "next": None}
FORM = {"image_id": IMAGE, "kind": "finding", "text": "Edema", "verdict": "wrong"}


@pytest.fixture
def keyed(own_service: Service, tmp_path: Path) -> Iterator[tuple[TestClient, dict[str, Any]]]:
    scopes = {"ward": ["read", "mark"], "night": ["read", "mark"], "guest": ["read"]}
    scopes["scanner"] = ["write"]
    path = tmp_path / "keys"
    keys = {name: add_key(path, name, some) for name, some in scopes.items()}
    settings = Settings(keys_file=path, audit_log=tmp_path / "audit.log")
    with serving(own_service, settings) as made:
        yield made, {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}


def test_a_mark_has_the_name_of_its_key(keyed: Any, tmp_path: Path) -> None:
    client, of = keyed
    for who, verdict in (("ward", "right"), ("night", "right"), ("ward", "wrong")):
        answer = client.post("/v1/marks", data={**FORM, "verdict": verdict}, headers=of[who])
        assert answer.status_code == 200, answer.text
    listed = client.get("/v1/marks", params={"image_id": IMAGE}, headers=of["guest"]).json()
    assert [(one["who"], one["verdict"]) for one in listed["marks"]] == [
        ("night", "right"), ("ward", "wrong"),
    ]  # fmt: skip
    assert client.get("/v1/marks?image_id=other", headers=of["guest"]).json() == NONE
    assert '"ward"' in (tmp_path / "audit.log").read_text()


@pytest.mark.parametrize(
    ("wrong", "status"),
    [({"image_id": "none"}, 404), ({"verdict": "maybe"}, 422), ({"kind": "film"}, 422),
     ({"text": ""}, 422), ({"box": "1,2,3,4"}, 422), ({"kind": "box"}, 422),
     *(({"kind": "box", "box": box}, 422) for box in (
         "1,2,3", "1,2,nan,4", "1,1,1e999,1", "1,1,1_0,1", "70,1,50,1"))],
)  # fmt: skip
def test_what_is_no_mark_is_refused(keyed: Any, wrong: dict[str, str], status: int) -> None:
    client, of = keyed
    check_problem(client.post("/v1/marks", data={**FORM, **wrong}, headers=of["ward"]), status)
    assert client.get("/v1/marks", headers=of["ward"]).json() == NONE


def test_a_reader_has_so_many_marks(keyed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client, of = keyed
    monkeypatch.setattr(marks, "MAX_MARKS", 1)
    assert client.post("/v1/marks", data=FORM, headers=of["ward"]).status_code == 200
    check_problem(client.post("/v1/marks", data=FORM, headers=of["ward"]), 409, "the most that")
    assert client.post("/v1/marks", data=FORM, headers=of["night"]).status_code == 200


def test_marks_are_listed_a_page_at_a_time(own_service: Service) -> None:
    with serving(own_service) as server, Client("http://localhost", http=server) as client:
        said = [f"Sentence {n}." for n in range(5)]
        for text in said:
            client.mark(IMAGE, "sentence", text, "right")
        first = server.get("/v1/marks?limit=2").json()
        assert [one["text"] for one in first["marks"]] == said[:2]
        rest = server.get(f"/v1/marks?limit=200&after={first['next']}").json()
        assert [one["text"] for one in rest["marks"]] == said[2:]
        assert rest["next"] is None
        assert [one.text for one in client.marks()] == said
        check_problem(server.get("/v1/marks?limit=201"), 422)
