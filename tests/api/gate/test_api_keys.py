"""Bearer keys: where they are read from, which doors they open, and how they change."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from cxrtext.errors import ConfigError
from cxrtext.service import Service
from cxrtext_api.gate.keys import (
    SCOPES,
    Caller,
    Key,
    KeyRing,
    add_key,
    find_caller,
    hash_key,
    read_key_file,
)
from cxrtext_api.settings import Settings
from cxrtext_cli.main import app
from tests.api.conftest import Clock, check_problem, serving

KEY = "correct-horse-battery"
OTHER = "staple-staple-staple"
READER = frozenset({"read"})


@pytest.fixture(autouse=True)
def private() -> Iterator[None]:
    """Files that tests write are their owner's alone, as files of keys are to be."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def guarded(tmp_path: Path) -> Settings:
    path = tmp_path / "guarded"
    path.write_text(f"one read {hash_key(OTHER)}\ntwo read {hash_key(KEY)}\n")
    return Settings(keys_file=path)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_file_of_keys(path: Path) -> None:
    path.write_text(
        "# of the reading room\n\n"
        f"ward-3 read,write {hash_key(OTHER)} 2031-05-06\n"
        f"prometheus metrics {'AB' * 32}\n"
    )
    ward, numbers = read_key_file(path)
    assert ward.key_id == "ward-3"
    assert ward.scopes == {"read", "write"}
    assert ward.expires == date(2031, 5, 6)
    assert numbers.scopes == {"metrics"}
    assert numbers.digest == "ab" * 32


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("secret-secret-secret secret", "form of a key"),
        (f"a read {'0' * 63}", "form of a key"),
        (f"a owner {'0' * 64}", "unknown scope"),
        (f"a\u00e9 read {'0' * 64}", "letters, digits"),
        (f"a read {'0' * 64} tomorrow", "2027-12-31"),
        (f"a read {'0' * 64} 2031-01-01 more", "form of a key"),
        (f"a read {'0' * 64}\na read {'1' * 64}", "second key named a"),
    ],
)
def test_a_line_that_is_no_key(path: Path, line: str, told: str) -> None:
    path.write_text(line, encoding="utf-8")
    with pytest.raises(ConfigError, match=told) as raised:
        read_key_file(path)
    assert str(path) in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "0000" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_key_file(tmp_path / "none")
    for content, told in ((b"\xff\xfe", "UTF-8"), (b"#" * (2**20 + 1), "larger than")):
        (tmp_path / "keys").write_bytes(content)
        with pytest.raises(ConfigError, match=told):
            read_key_file(tmp_path / "keys")
    (tmp_path / "empty").write_text("# none\n")
    with pytest.raises(ConfigError, match="holds no key"):
        KeyRing(tmp_path / "empty")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_add_keys_to_is_refused(path: Path, mode: int) -> None:
    path.write_text(f"ward read {hash_key(KEY)}\n")
    path.chmod(mode)
    with pytest.raises(ConfigError, match="other users") as raised:
        KeyRing(path)
    assert f"chmod 600 {path}" in str(raised.value)
    path.chmod(0o640)  # of a group that the server is in, as where secrets are mounted
    assert KeyRing(path).find(KEY) is not None


def test_digests_that_all_can_read_are_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = add_key(path, "ward")
    KeyRing(path)
    assert "every user" not in caplog.text
    path.chmod(0o644)
    assert KeyRing(path).find(key) is not None
    assert "every user of this machine can read it" in caplog.text
    path.chmod(0o646)
    with pytest.raises(ConfigError, match="mode 0646"):
        add_key(path, "another")


def test_a_running_server_takes_no_keys_from_a_file_that_others_can_write(path: Path) -> None:
    key = add_key(path, "ward")
    ring = KeyRing(path)
    with path.open("a") as file:
        file.write(f"intruder read,write {hash_key(OTHER)}\n")
    path.chmod(0o666)
    ring.refresh()
    assert ring.find(OTHER) is None
    assert ring.find(key) is not None


def test_a_key_is_made_once_and_kept_as_a_digest(path: Path) -> None:
    first = add_key(path, "ward-3", ["write", "read"], date(2031, 1, 1))
    second = add_key(path, "viewer")
    assert first != second
    assert len(first) >= 43  # 256 bits
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert first not in text
    assert (
        f"ward-3 read,write {hashlib.sha256(first.encode()).hexdigest()} 2031-01-01 #sum:" in text
    )
    today = date(2026, 1, 1)
    assert find_caller(first, read_key_file(path), today) == Caller(
        "ward-3", frozenset({"read", "write"})
    )
    with pytest.raises(ConfigError, match="has a key named viewer"):
        add_key(path, "viewer")
    for name, scopes in (("a b", ["read"]), ("", ["read"]), ("#a", ["read"]), ("x", ["root"])):
        with pytest.raises(ConfigError):
            add_key(path, name, scopes)
    assert path.read_text() == text


def test_a_line_that_was_changed_is_refused_and_one_that_is_taken_out_is_a_key_less(
    path: Path,
) -> None:
    for name in ("ward", "clinic", "front"):
        add_key(path, name)
    header, ward, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, ward.replace("ward", "wbrd"), *rest]))
    with pytest.raises(ConfigError, match=r"line 2: is not what was written; take '#sum:"):
        read_key_file(path)
    path.write_text(header + "".join(rest))
    assert [key.key_id for key in read_key_file(path)] == ["clinic", "front"]
    path.write_text(ward.partition("#sum:")[0].replace("ward", "wing"))
    assert [key.key_id for key in read_key_file(path)] == ["wing"]


def taken_out(path: Path, name: str) -> None:
    """Take a key's line out of a file, as its operator does."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(f"{name} ")))


def test_every_key_is_compared_whichever_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Mock(wraps=hmac.compare_digest)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    keys = tuple(Key(key_id=f"k{i}", digest=hash_key(f"{KEY}{i}")) for i in range(5))
    for given in (f"{KEY}0", f"{KEY}4", "wrong"):
        compare.reset_mock()
        find_caller(given, keys)
        assert compare.call_count == 5


def test_a_key_ends_after_its_last_day() -> None:
    key = Key(key_id="a", digest=hash_key(KEY), expires=date(2030, 6, 1))
    assert find_caller(KEY, [key], date(2030, 6, 1)) is not None
    assert find_caller(KEY, [key], date(2030, 6, 2)) is None
    over = replace(key, expires=datetime.now(UTC).date() - timedelta(days=1))
    assert find_caller(KEY, [over]) is None


def test_a_ring_follows_its_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = add_key(path, "first")
    clock = Clock()
    ring = KeyRing(path, clock)
    second = add_key(path, "second")
    assert ring.find(second) is None, "looked at no more than once a second"
    clock.now = 1.0
    assert ring.find(second) == Caller("second", READER)
    taken_out(path, "first")
    clock.now = 2.0
    assert ring.find(first) is None
    good = path.read_text()
    path.write_text("broken line\n")
    for clock.now in (3.0, 4.0, 5.0):
        assert ring.find(second) is not None, "a broken file leaves the keys as they were"
    assert caplog.text.count("stay as they were") == 1
    assert "broken" not in caplog.text
    path.unlink()
    clock.now = 6.0
    assert ring.find(second) is not None
    path.write_text(good)
    clock.now = 7.0
    assert ring.find(second) is not None
    path.write_text("# nobody\n")
    ring.refresh()
    assert ring.find(second) is None, "the last key was revoked"


WRONG_HEADERS: tuple[str | bytes | None, ...] = (
    None, "", "Bearer", "Bearer ", f"Basic {KEY}", KEY, "Bearer wrong-wrong-wrong-wrong",
    f"Bearer {hash_key(KEY)}", b"Bearer \xff\xfe",
)  # fmt: skip


def test_without_a_key_no_route_is_open(service: Service, guarded: Settings) -> None:
    with serving(service, guarded) as client:
        for header in WRONG_HEADERS:
            headers: dict[str, Any] = {} if header is None else {"Authorization": header}
            for method, path in _routes(client):
                response = client.request(method, path, headers=headers)
                check_problem(response, 401, "Authorization: Bearer")
                assert response.headers["www-authenticate"] == "Bearer"
            check_problem(client.get("/v1/nothing", headers=headers), 404)


def _routes(client: TestClient) -> list[tuple[str, str]]:
    paths = client.get("/openapi.json").json()["paths"]
    found = [
        (method.upper(), path.replace("{image_id}", "images/s01.png"))
        for path, methods in paths.items()
        for method in methods
        if path.startswith("/v1/") or path == "/metrics"
    ]
    assert len(found) >= 13
    return found


def test_a_body_is_not_read_without_a_key(service: Service, guarded: Settings) -> None:
    read = []

    def chunks() -> Any:
        read.append(1)
        yield b"--x--"

    with serving(service, guarded) as client:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        check_problem(client.post("/v1/classify", content=chunks(), headers=headers), 401)
    assert read == []


READ_IMAGE = "/v1/images/images/s01.png"
LET_IN = {
    "GET /metrics": ("read", "metrics"),
    "POST /v1/images": ("read,write",),
    "DELETE /v1/images": ("read,write",),
    f"DELETE {READ_IMAGE}": ("read,write",),
    "POST /v1/marks": ("mark,read",),
    "GET /v1/held": ("admin,read",),
    "POST /v1/held": ("admin,read",),
}
"""Scopes that let in; every other route wants ``read``."""


def test_scopes_at_the_door(own_service: Service, path: Path) -> None:
    every = [",".join(sorted({*two})) for two in combinations_with_replacement(SCOPES, 2)]
    keys = {some: add_key(path, f"k{n}", some.split(",")) for n, some in enumerate(every)}
    with serving(own_service, Settings(keys_file=path)) as client:
        for method, address in _routes(client):
            wanted = LET_IN.get(f"{method} {address}", ("read",))
            for some, key in keys.items():
                response = client.request(method, address, headers=bearer(key))
                has = set(some.split(","))
                if any(has.issuperset(one.split(",")) for one in wanted):
                    assert response.status_code != 401, address
                    assert "lacks the scope" not in response.text, (method, address, some)
                else:
                    check_problem(response, 403, "lacks the scope")


def test_a_key_that_may_only_mark_learns_neither_ids_nor_patients(
    own_service: Service, path: Path
) -> None:
    key = add_key(path, "marker", ["mark"])
    form = {"kind": "finding", "text": "Edema", "verdict": "right"}
    with serving(own_service, Settings(keys_file=path)) as client:
        answers = [
            client.post("/v1/marks", data={**form, "image_id": name}, headers=bearer(key)).json()
            for name in ("images/s01.png", "none")
        ]
        one, other = ({k: v for k, v in a.items() if k != "instance"} for a in answers)
        assert one == other
        assert one["status"] == 403


def test_with_a_key_all_is_answered_and_what_names_no_patient_also_without(
    service: Service, guarded: Settings
) -> None:
    with serving(service, guarded) as client:
        for path in ("/", "/openapi.json", "/healthz", "/readyz", "/web/main.js"):
            assert client.get(path).status_code == 200, path
        for header in (f"Bearer {KEY}", f"bearer  {OTHER} "):
            response = client.get("/v1/model", headers={"Authorization": header})
            assert response.status_code == 200
        assert client.get("/web/../v1/model").status_code == 401
        assert client.get("/web//v1/model").status_code == 404


def test_the_command_makes_a_key(tmp_path: Path) -> None:
    path = str(tmp_path / "keys")
    run = partial(CliRunner().invoke, app)
    made = run(["keys", "add", path, "ward", "--scope", "read", "--scope", "write"])
    assert made.exit_code == 0
    key = made.stdout.strip()
    assert run(["keys", "add", path, "old", "--expires", "2020-01-31"]).exit_code == 0
    caller = find_caller(key, read_key_file(Path(path)))
    assert caller == Caller("ward", frozenset({"read", "write"}))
    assert key not in Path(path).read_text()
    assert run(["keys", "add", path, "x", "--expires", "tomorrow"]).exit_code == 2
