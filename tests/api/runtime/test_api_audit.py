"""The audit log: what it says, what it leaves out, and that nobody asks without it."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import WorkError
from cxrtext.service import Service
from cxrtext_api.gate.keys import add_key
from cxrtext_api.observe.audit import (
    MAX_ID_CHARACTERS,
    MAX_IDS,
    SUBJECT_FIELDS,
    AuditLog,
    add_subjects,
)
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, serving

CANARY = "Xanthippe canary sentence"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_who_asked_about_whom(service: Service, tmp_path: Path, png: bytes) -> None:
    path, keys = tmp_path / "audit.log", tmp_path / "keys"
    header = {"Authorization": f"Bearer {add_key(keys, 'ward-3')}"}
    with serving(service, Settings(keys_file=keys, audit_log=path)) as client:
        client.headers.update(header)
        client.get("/v1/model")
        client.get("/v1/images/images/s01.png")
        client.post("/v1/search", data={"image_id": "images/s02.png", "k": 1})
        client.post("/v1/ground", data={"image_id": "images/s03.png", "sentence": CANARY})
        client.post(
            "/v1/ground", files={"image": (f"{CANARY}.png", png)}, data={"sentence": f"{CANARY}."}
        )
        client.post("/v1/search", data={"query": CANARY, "exclude_patient": ["p07"]})
        refused = client.request("DELETE", "/v1/images/images/s04.png")
        assert refused.status_code == 403
        client.get("/v1/images", headers={"Authorization": "Bearer wrong"})
        client.get("/healthz")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "anary" not in path.read_text()
    told = lines(path)
    for line in told:
        assert line.pop("time").endswith("+00:00")
        assert len(line.pop("request_id")) == 36
    assert {line.pop("who") for line in told} == {"ward-3"}
    pattern = "/v1/images/{image_id:path}"
    assert told == [
        {"method": "GET", "route": "/v1/model", "status": 200},
        {"method": "GET", "route": pattern, "status": 200, "image_id": ["images/s01.png"]},
        {"method": "POST", "route": "/v1/search", "status": 200, "image_id": ["images/s02.png"]},
        {"method": "POST", "route": "/v1/ground", "status": 200, "image_id": ["images/s03.png"]},
        {"method": "POST", "route": "/v1/ground", "status": 200},
        {"method": "POST", "route": "/v1/search", "status": 200, "patient_id": ["p07"]},
        {"method": "DELETE", "route": pattern, "status": 403},
    ]


@pytest.mark.parametrize("asked", [{"offset": 2}, {"where": "age > 41 and age <= 44"}])
def test_a_page_names_whom_it_showed(service: Service, path: Path, asked: dict[str, Any]) -> None:
    with serving(service, Settings(audit_log=path)) as client:
        page = client.get("/v1/images", params={"limit": 3, **asked}).json()
    (line,) = lines(path)
    for name in ("image_id", "study_id", "patient_id"):
        assert line[name] == [image[name] for image in page["images"]]
    assert (line["who"], line["patient_id"]) == ("-", ["p02", "p03", "p04"])


def test_whoever_a_question_names_is_told(service: Service, path: Path, png: bytes) -> None:
    """In each field of each route that can name somebody."""
    known, by_id = "images/s01.png", {"image_id": "images/s01.png"}
    as_csv = {"Accept": "text/csv"}
    everybody = "patient_id in ('p01', 'p02') and (study_id = s01 or image != 'images/s01.png')"
    search, everyone = "POST /v1/search", ["p07", "p08", "p01", "p02"]
    asked: list[tuple[str, dict[str, Any], dict[str, list[str]]]] = [
        ("GET /v1/images", {"params": {"where": "patient_id = 'p05'"}},
         {"patient_id": ["p05"], "study_id": ["s05"], "image_id": ["images/s05.png"]}),
        (search,
         {"data": {"query": "Effusion.", "where": everybody, "exclude_patient": ["p07", "p08"]}},
         {"patient_id": everyone, "study_id": ["s01"], "image_id": [known]}),
        (search, {"data": {"query": "A.", "where": "patient_id = 'p09'"}, "headers": as_csv},
         {"patient_id": ["p09"]}),
        (search, {"data": {"query": "A.", "target": "sentences", "where": "study_id = 's03'"}},
         {"study_id": ["s03"]}),
        # A question that is refused names them too.
        (search, {"data": {"query": "A.", "where": "patient_id = 'p06' and nothing = 1"}},
         {"patient_id": ["p06"]}),
        ("POST /v1/classify", {"data": by_id}, {"image_id": [known]}),
        ("POST /v1/ground", {"data": {**by_id, "sentence": "A."}}, {"image_id": [known]}),
        ("POST /v1/verify", {"data": {**by_id, "report": "Clear."}}, {"image_id": [known]}),
        ("POST /v1/render", {"data": by_id}, {"image_id": [known]}),
        (f"GET /v1/images/{known}", {}, {"image_id": [known]}),
        (f"GET /v1/images/{known}/rendered", {}, {"image_id": [known]}),
        ("DELETE /v1/images", {"params": {"study_id": ["s10", "none"]}},
         {"study_id": ["s10", "none"]}),
        ("POST /v1/images", {"files": {"image": png}, "data": {"study_id": "n", "patient_id": "q"}},
         {"study_id": ["n"], "patient_id": ["q"]}),
    ]  # fmt: skip
    with serving(service, Settings(audit_log=path)) as client:
        for question, options, _ in asked:
            client.request(*question.split(), **options)
    told = lines(path)
    assert len(told) == len(asked)
    for line, (question, _, subjects) in zip(told, asked, strict=True):
        assert {k: line[k] for k in line if k in SUBJECT_FIELDS} == subjects, question


def test_who_was_deleted_with_a_study_is_told(own_service: Service, path: Path, png: bytes) -> None:
    settings = Settings(audit_log=path, uploads=path.with_name("uploads"))
    with serving(own_service, settings) as client:
        client.post("/v1/images", files={"image": png}, data={"study_id": "s02", "image_id": "a"})
        assert client.delete("/v1/images", params={"study_id": "s02"}).json() == {"deleted": 2}
    added, deleted = lines(path)
    for line in (added, deleted):
        assert (line["study_id"], line["patient_id"]) == (["s02"], ["p02"])
    assert (added["image_id"], deleted["image_id"]) == (["a"], ["a", "images/s02.png"])


def test_as_many_as_a_filter_can_name_are_told(service: Service, path: Path) -> None:
    names = [str(i) for i in range(1000, 2600)]
    condition = f"patient_id in ({','.join(names)})"
    assert 9_000 > len(condition) > 8_000
    with serving(service, Settings(audit_log=path)) as client:
        assert client.get("/v1/images", params={"where": condition}).status_code == 200
    assert lines(path)[0]["patient_id"] == names


def test_an_id_forges_no_line_and_is_bounded(service: Service, path: Path) -> None:
    with serving(service, Settings(audit_log=path)) as client:
        client.post("/v1/search", data={"image_id": 'a\n{"who":"forged"}'})
        client.get(f"/v1/images/{'a' * 5000}")
    forged, long = lines(path)
    assert forged["who"] == "-"
    assert forged["image_id"] == ['a\n{"who":"forged"}']
    assert long["image_id"] == ["a" * MAX_ID_CHARACTERS]


def test_ids_are_bounded() -> None:
    given: dict[str, list[str]] = {}
    add_subjects(given, "image_id", [str(i) for i in range(MAX_IDS + 5)])
    add_subjects(given, "image_id", ["more", ""])
    add_subjects(given, "study_id", [""])
    assert len(given["image_id"]) == MAX_IDS
    assert "study_id" not in given


def test_lines_are_appended_and_survive_a_move(path: Path, tmp_path: Path) -> None:
    path.write_text('{"before": true}\n')
    audit = AuditLog(path)
    assert audit.write(who="a")
    path.rename(tmp_path / "audit.1")
    assert audit.write(who="b")
    assert [line.get("who") for line in lines(tmp_path / "audit.1")] == [None, "a"]
    assert [line["who"] for line in lines(path)] == ["b"]
    assert AuditLog(None).write(who="nobody")


def test_a_log_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="name a writable file for the audit log"):
        AuditLog(tmp_path / "none" / "audit.log")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkError, match="audit log"):
        AuditLog(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_no_answer_without_its_line(
    service: Service, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    full = True

    def failing(handle: int, data: bytes) -> int:
        if full and data.startswith(b'{"time"'):
            raise OSError(28, "No space left on device")
        return write(handle, data)

    with serving(service, Settings(audit_log=path)) as client:
        monkeypatch.setattr(os, "write", failing)
        client.get("/v1/model")
        check_problem(client.get("/v1/model"), 503, "audit log cannot be written")
        assert client.get("/healthz").status_code == 200
        full = False
        assert client.get("/v1/model").status_code == 200
    assert [line.get("event", line.get("status")) for line in lines(path)] == ["audit resumed", 200]
