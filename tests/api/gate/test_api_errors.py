"""What is refused, and that no refusal says anything that the caller sent."""

import logging
from typing import Any
from unittest.mock import patch

import pytest
from fastapi.testclient import TestClient

from cxrtext.errors import CheckpointError
from cxrtext.service import FindingScore, Service
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, serving

CANARY = "DoeJohn19501231"
KNOWN = "images/s01.png"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/classify", "POST"),
        ("POST", "/", "GET"),
    ],
)
def test_another_method(client: TestClient, method: str, path: str, allowed: str) -> None:
    response = client.request(method, path)
    check_problem(response, 405)
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("says_its_length", [True, False])
def test_a_body_that_is_too_large(service: Service, png: bytes, says_its_length: bool) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    limit = len(png) + 1000

    def post(route: str, image: bytes) -> Any:
        parts = [head, *(image[i : i + 512] for i in range(0, len(image), 512)), b"\r\n--x--\r\n"]
        content = b"".join(parts) if says_its_length else iter(parts)
        return client.post(route, content=content, headers=headers)

    with serving(service, Settings(max_body_bytes=limit)) as client:
        assert post("/v1/classify", png).status_code == 200
        for route in ("/v1/classify", "/v1/render"):
            check_problem(post(route, bytes(limit)), 413, "larger")
        wrong = check_problem(post("/nothing", bytes(limit)), 413 if says_its_length else 404)
        assert says_its_length == ("larger" in wrong["detail"])


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"--x\r\n\0: 1\r\n\r\n", "multipart/form-data; boundary=x"),
        (b"--x", "multipart/form-data"),
        (b"--x\r\ncut off", "multipart/form-data; boundary=x"),
    ],
)
def test_a_body_that_is_no_form(client: TestClient, content: bytes, kind: str) -> None:
    response = client.post("/v1/search", content=content, headers={"Content-Type": kind})
    check_problem(response, 400)


def test_hosts_at_the_door(client: TestClient, service: Service) -> None:
    for path in ("/", "/healthz", "/v1/model"):
        check_problem(client.get(path, headers={"Host": "evil.example"}), 400, "host name")
    settings = Settings(host="10.0.0.5", trusted_hosts=("Cxr.example.org", "*.lab.example.org"))
    named = {"cxr.example.org": 200, "a.lab.example.org:443": 200, "10.0.0.5:8000": 200}
    named |= {"lab.example.org": 400, "evil-lab.example.org": 400}
    with serving(service, settings) as client:
        for host, status in named.items():
            assert client.get("/healthz", headers={"Host": host}).status_code == status, host


def _requests(png: bytes) -> list[dict[str, Any]]:
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
        (f"/v1/images/{CANARY}/timeline", {}),
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
    service: Service, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error(f"/data/{CANARY}.png")

    with serving(service) as client, patch.object(service, "search_pausing", fail):
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


def test_a_number_that_is_none_is_an_error_not_an_answer(service: Service) -> None:
    found = FindingScore("Edema", float("nan"), float("nan"))
    with serving(service) as client, patch.object(service, "classify", return_value=[found]):
        response = client.post("/v1/classify", data={"image_id": "images/s01.png"})
    check_problem(response, 500)


NO_WHOLE = ["10.0", "1_0", " 10", "1e1", "true", "٣"]
NO_NUMBER = ["1_0", "inf", "0.5 5", "true", "0x1"]


@pytest.mark.parametrize(
    ("field", "values"), [("k", NO_WHOLE), ("offset", NO_WHOLE), ("min_score", NO_NUMBER)]
)
def test_text_that_is_no_number(client: TestClient, field: str, values: list[str]) -> None:
    for value in values:
        form = {"query": "Edema.", field: value}
        problem = check_problem(client.post("/v1/search", data=form), 422)
        assert problem["errors"][0]["field"] == field
        if field == "offset":
            assert client.get("/v1/images", params={"limit": value}).status_code == 422
