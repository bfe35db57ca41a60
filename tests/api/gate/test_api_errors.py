"""What is refused, and that no refusal says anything that the caller sent."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.errors import CheckpointError
from cxrtext.service import FindingScore, Service
from cxrtext_api.settings import Settings

CANARY = "DoeJohn19501231"
KNOWN = "images/s01.png"


def test_an_unknown_address(client: TestClient, check_problem: Any) -> None:
    for path in ("/v1", "/v1/", "/v1/nothing", "/nothing", "/healthz/", "/redoc"):
        check_problem(client.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/classify", "POST"),
        ("GET", "/v1/search", "POST"),
        ("PUT", "/v1/ground", "POST"),
        ("PUT", "/v1/images/images/s01.png", "DELETE, GET, HEAD"),
        ("PUT", "/v1/images", "DELETE, GET, HEAD, POST"),
        ("PATCH", "/v1/images/images/s01.png/rendered", "GET, HEAD"),
        ("DELETE", "/v1/images/images/s01.png/rendered", "GET, HEAD"),
        ("POST", "/v1/model", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("DELETE", "/openapi.json", "GET, HEAD"),
        ("OPTIONS", "/v1/classify", "POST"),
    ],
)
def test_another_method(
    client: TestClient, check_problem: Any, method: str, path: str, allowed: str
) -> None:
    response = client.request(method, path)
    check_problem(response, 405)
    assert response.headers["allow"] == allowed


def test_a_body_that_is_too_large(
    service: Service, serve: Any, check_problem: Any, png: bytes
) -> None:
    limit = len(png) + 1000
    with serve(service, Settings(max_body_bytes=limit)) as client:
        assert client.post("/v1/classify", files={"image": png}).status_code == 200
        for route in ("/v1/classify", "/v1/render", "/nothing"):
            check_problem(client.post(route, files={"image": bytes(limit)}), 413, "larger")


def test_a_body_that_does_not_say_its_length(
    service: Service, serve: Any, check_problem: Any, png: bytes
) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'

    def chunks(content: bytes) -> Iterator[bytes]:
        yield head
        for start in range(0, len(content), 512):
            yield content[start : start + 512]
        yield b"\r\n--x--\r\n"

    limit = len(png) + 1000
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    with serve(service, Settings(max_body_bytes=limit)) as client:
        whole = client.post("/v1/classify", content=chunks(png), headers=headers)
        assert whole.status_code == 200
        large = client.post("/v1/classify", content=chunks(bytes(limit)), headers=headers)
        check_problem(large, 413, "larger")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"--x\r\n\0: 1\r\n\r\n", "multipart/form-data; boundary=x", 400),
        (b"--x", "multipart/form-data", 400),
        (b"--x\r\ncut off", "multipart/form-data; boundary=x", 400),
        (b'{"query": "Effusion."}', "application/json", 415),
    ],
)
def test_a_body_of_another_form(
    client: TestClient, check_problem: Any, content: bytes, kind: str, status: int
) -> None:
    response = client.post("/v1/search", content=content, headers={"Content-Type": kind})
    check_problem(response, status)


def test_hosts_at_the_door(
    client: TestClient, service: Service, serve: Any, check_problem: Any
) -> None:
    for host in ("evil.example", "localhost.evil.example", "", "[::2]"):
        for path in ("/", "/healthz", "/v1/model"):
            check_problem(client.get(path, headers={"Host": host}), 400, "host name")
    for host in ("localhost", "LOCALHOST:9", "127.0.0.1:8000", "[::1]:8000"):
        assert client.get("/healthz", headers={"Host": host}).json() == {"status": "ok"}
    settings = Settings(host="10.0.0.5", trusted_hosts=("Cxr.example.org", "*.lab.example.org"))
    named = {"cxr.example.org": 200, "a.lab.example.org:443": 200, "10.0.0.5:8000": 200}
    named |= {"lab.example.org": 400, "evil-lab.example.org": 400}
    with serve(service, settings) as client:
        for host, status in named.items():
            assert client.get("/healthz", headers={"Host": host}).status_code == status, host


def _requests(png: bytes) -> list[dict[str, Any]]:
    """Requests that each carry the canary, most of them wrong."""
    image = {"image": png}
    text = {"image": (f"{CANARY}.png", CANARY.encode())}
    prompts = f'{{"{CANARY}": {{"positive": "{CANARY}"}}}}'
    post: list[tuple[str, dict[str, Any]]] = [
        ("/v1/search", {"data": {"query": CANARY * 200}}),
        ("/v1/search", {"data": {"query": f"{CANARY}."}}),
        ("/v1/search", {"data": {"query": CANARY, "k": CANARY}}),
        ("/v1/search", {"data": {"query": CANARY, "target": CANARY}}),
        ("/v1/search", {"data": {"image_id": CANARY}}),
        ("/v1/search", {"data": {CANARY: CANARY}}),
        ("/v1/search", {"json": {CANARY: CANARY}}),
        ("/v1/search", {"data": {"image": CANARY}}),
        ("/v1/search", {"data": {"query": CANARY, "where": f"{CANARY} = '{CANARY}'"}}),
        ("/v1/search", {"data": {"query": CANARY, "where": f"age {CANARY} 4"}}),
        ("/v1/verify", {"files": text, "data": {"report": CANARY}}),
        ("/v1/verify", {"data": {"image_id": KNOWN, "report": f"INDICATION: {CANARY}"}}),
        ("/v1/images", {"files": text, "data": {"image_id": CANARY, "study_id": CANARY}}),
        ("/v1/images", {"files": image, "data": {"metadata": f'{{"{CANARY}": [1]}}'}}),
        ("/v1/images", {"files": image, "data": {"study_id": f"<{CANARY}>"}}),
        ("/v1/classify", {"files": text}),
        ("/v1/classify", {"files": image, "data": {"prompts": prompts}}),
        ("/v1/classify", {"files": image, "data": {"prompts": CANARY}}),
        ("/v1/classify", {"files": {"image_id": (CANARY, b"x")}}),
        ("/v1/ground", {"files": text, "data": {"sentence": CANARY}}),
        ("/v1/ground", {"files": image, "data": {"sentence": CANARY}}),
        ("/v1/ground", {"files": image, "data": {"sentence": CANARY * 200}}),
        ("/v1/render", {"files": text}),
        (f"/v1/render?size={CANARY}", {"files": image}),
    ]
    get: list[tuple[str, dict[str, Any]]] = [
        (f"/v1/images/{CANARY}", {}),
        (f"/v1/images/{CANARY}/rendered", {}),
        (f"/v1/images?limit={CANARY}", {}),
        (f"/v1/images?where={CANARY}=1", {}),
        (f"/v1/{CANARY}?{CANARY}={CANARY}", {}),
        (f"/web/{CANARY}.js", {}),
        ("/v1/model", {"headers": {"Host": f"{CANARY}.example"}}),
        ("/v1/model", {"headers": {"Origin": f"https://{CANARY}.example"}}),
    ]
    return [{"method": "POST", "url": url, **form} for url, form in post] + [
        {"method": "GET", "url": url, **form} for url, form in get
    ]


def test_nothing_that_was_sent_comes_back_or_is_logged(
    client: TestClient, png: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("cxrtext_api.access").setLevel(logging.INFO)
    statuses = set()
    for request in _requests(png):
        response = client.request(**request)
        statuses.add(response.status_code)
        told = response.text + str(response.headers)
        assert CANARY.lower() not in told.lower(), request["url"]
    for address in (f"/v1/images/{CANARY}", f"/v1/images?study_id={CANARY}"):
        response = client.delete(address)
        assert response.status_code == 404
        assert CANARY not in response.text + str(response.headers)
    assert statuses == {200, 400, 403, 404, 415, 422}
    ours = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    assert any(record.name == "cxrtext_api.access" for record in ours)
    assert not [r.getMessage() for r in ours if CANARY.lower() in r.getMessage().lower()]


@pytest.mark.parametrize("error", [RuntimeError, ValueError, CheckpointError, KeyError])
def test_an_unforeseen_error_is_told_by_its_id_alone(
    service: Service,
    serve: Any,
    check_problem: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error(f"/data/{CANARY}.png")

    with serve(service) as client:
        monkeypatch.setattr(service, "search_pausing", fail)
        response = client.post("/v1/search", data={"query": "Effusion."})
        assert client.get("/readyz").status_code == 200
    body = check_problem(response, 500, "its log has the details")
    assert CANARY not in response.text
    assert "Traceback" not in response.text
    logged = [r.getMessage() for r in caplog.records if r.name == "cxrtext_api"]
    assert len(logged) == 1
    assert body["instance"].removeprefix("urn:uuid:") in logged[0]
    assert error.__name__ in logged[0]
    assert "in fail" in logged[0]
    assert CANARY not in caplog.text


def test_a_number_that_is_none_is_an_error_not_an_answer(
    service: Service, serve: Any, check_problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FindingScore("Edema", float("nan"), float("nan"))
    with serve(service) as client:
        monkeypatch.setattr(service, "classify", lambda *_: [found])
        response = client.post("/v1/classify", data={"image_id": "images/s01.png"})
    check_problem(response, 500)


@pytest.mark.parametrize("path", ["/", "/web/main.js", "/openapi.json", "/healthz", "/v1/images"])
def test_head_is_answered_as_get_without_its_body(client: TestClient, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert head.status_code == whole.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["content-length"] == str(len(whole.content))


NO_WHOLE = ["10.0", "1_0", " 10", "1e1", "true", "٣"]
NO_NUMBER = ["1_0", "inf", "0.5 ", "true", "0x1"]


@pytest.mark.parametrize(
    ("field", "values"), [("k", NO_WHOLE), ("offset", NO_WHOLE), ("min_score", NO_NUMBER)]
)
def test_text_that_is_no_number(
    client: TestClient, check_problem: Any, field: str, values: list[str]
) -> None:
    for value in values:
        form = {"query": "Edema.", field: value}
        problem = check_problem(client.post("/v1/search", data=form), 422)
        assert problem["errors"][0]["field"] == field
        if field == "offset":
            assert client.get("/v1/images", params={"limit": value}).status_code == 422
