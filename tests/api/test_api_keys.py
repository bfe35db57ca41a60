"""Bearer keys: where they are read from, and which doors they open."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.errors import ConfigError
from cxrtext.service import Service
from cxrtext_api.keys import is_known, read_keys
from cxrtext_api.settings import Settings

KEY = "correct-horse-battery"
OTHER = "staple-staple-staple"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def guarded() -> Settings:
    return Settings(keys=(digest(OTHER), digest(KEY)))


def test_keys_are_read_from_the_environment_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# of the reading room\n{KEY}  # first\n\n{OTHER}\n")
    assert read_keys({}) == ()
    assert read_keys({"CXRTEXT_API_KEYS": f" {KEY}, ,{OTHER}"}) == (digest(KEY), digest(OTHER))
    assert read_keys({"CXRTEXT_API_KEYS_FILE": str(path)}) == (digest(KEY), digest(OTHER))
    both = {"CXRTEXT_API_KEYS_FILE": str(path), "CXRTEXT_API_KEYS": KEY}
    assert read_keys(both) == (digest(KEY), digest(OTHER))


@pytest.mark.parametrize(
    ("content", "told"), [("", "no key"), ("# none\n", "no key"), ("short\n", "fewer than 16")]
)
def test_a_file_without_good_keys(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(ConfigError, match=told) as raised:
        read_keys({"CXRTEXT_API_KEYS_FILE": str(path)})
    assert "short" not in str(raised.value)


def test_a_missing_file_of_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_keys({"CXRTEXT_API_KEYS_FILE": str(tmp_path / "none")})


def test_a_known_key() -> None:
    digests = (digest(OTHER), digest(KEY))
    assert is_known(KEY, digests)
    assert not is_known(KEY + "x", digests)
    assert not is_known(digest(KEY), digests)
    assert not is_known("", ())


def test_settings_take_digests_and_no_keys() -> None:
    with pytest.raises(ValueError, match="keys"):
        Settings(keys=(KEY,))


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {KEY}",
        KEY,
        "Bearer wrong-wrong-wrong-wrong",
        f"Bearer {digest(KEY)}",
    ],
)
def test_without_a_key_no_route_is_open(
    service: Service, serve: Any, check_problem: Any, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    with serve(service, guarded()) as client:
        for method, path in _routes(client):
            response = client.request(method, path, headers=headers)
            check_problem(response, 401, "Authorization: Bearer")
            assert response.headers["www-authenticate"] == "Bearer"
        check_problem(client.get("/nothing", headers=headers), 401)


def _routes(client: TestClient) -> list[tuple[str, str]]:
    """Every route under /v1, as the API describes it."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [
        (method.upper(), path.replace("{image_id}", "images/s01.png"))
        for path, methods in paths.items()
        for method in methods
        if path.startswith("/v1/")
    ]
    assert len(found) == 8
    return found


def test_a_body_is_not_read_without_a_key(service: Service, serve: Any, check_problem: Any) -> None:
    read = []

    def chunks() -> Any:
        read.append(1)
        yield b"--x--"

    with serve(service, guarded()) as client:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        check_problem(client.post("/v1/classify", content=chunks(), headers=headers), 401)
    assert read == []


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"bearer  {OTHER} "])
def test_with_a_key(service: Service, serve: Any, header: str) -> None:
    with serve(service, guarded()) as client:
        response = client.get("/v1/model", headers={"Authorization": header})
    assert response.status_code == 200
    assert response.json()["images"] == 48


def test_what_is_not_about_a_patient_wants_no_key(service: Service, serve: Any) -> None:
    with serve(service, guarded()) as client:
        for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/web/main.js"):
            assert client.get(path).status_code == 200, path
        assert client.get("/web/../v1/model").status_code == 401
        assert client.get("/web//v1/model").status_code == 404
