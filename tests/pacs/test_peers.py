"""The file of peers."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cxrtext.errors import ConfigError, UnavailableError
from cxrtext.pacs.dimse.client import DimsePeer
from cxrtext.pacs.peers import Limits, Peer, read_peer, read_peers

WEB = {"url": "https://pacs.example.org/dicom-web"}
DIMSE = {"host": "pacs.example.org", "port": 104, "aet": "ARCHIVE"}
SECRET = "hunter2"


def write(path: Path, value: Any, mode: int = 0o600) -> Path:
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    path.chmod(mode)
    return path


def test_peers_are_read_by_name(tmp_path: Path) -> None:
    entries = [
        {"name": "one", "dicomweb": WEB, "limits": {"window": "19:00-07:00"}},
        {"name": "two", "dimse": DIMSE, "write": True},
    ]
    peers = read_peers(write(tmp_path / "peers.yaml", {"peers": entries}))
    assert list(peers) == ["one", "two"]
    one, two = peers.values()
    assert one.dicomweb is not None
    assert one.dicomweb.url == WEB["url"]
    assert str(one.limits.window) == "19:00-07:00"
    assert two.dimse is not None
    assert (two.dimse.our_aet, two.write) == ("CXRTEXT", True)
    two.require_write()
    with pytest.raises(ConfigError, match="one: nothing is sent to it; set write: true"):
        one.require_write()
    with pytest.raises(ConfigError, match="has no peer 'three'; it has one, two"):
        read_peer(tmp_path / "peers.yaml", "three")


def web(**more: Any) -> dict[str, Any]:
    return {"name": "a", "dicomweb": {**WEB, **more}}


def oauth(**more: str) -> dict[str, Any]:
    return web(oauth={"token_url": "https://a.example.org/t", "client_id": "c", **more})


def dimse(**more: Any) -> dict[str, Any]:
    return {"name": "a", "dimse": {**DIMSE, **more}}


OPEN = "/etc/passwd"
"""A file that everybody may read."""


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({**web(), "name": "../x"}, "../x: name: String should match"),
        ({"name": "a"}, "a: neither dicomweb nor dimse is given"),
        (web(url="http://pacs.example.org/x"), "a: dicomweb: url: http"),
        (web(url=f"https://u:{SECRET}@a.example.org/"), "a: dicomweb: url: the address holds a us"),
        (web(url="ftp://x/"), "url: the address is wrong"),
        (web(user="u"), "user and password_env stand together"),
        (web(password=SECRET), "password: Extra inputs"),
        (web(ca="/no/ca.pem"), "/no/ca.pem: no such file"),
        (web(token_env="A", user="u", password_env="B"), "give one login"),
        (oauth(), "secret_env"),
        (oauth(secret=SECRET), "a: dicomweb: oauth: secret: Extra inputs are not permitted"),
        (oauth(token_url="http://a.example.org/t", secret_env="S"), "give https beyond loopback"),
        (dimse(aet="LONGER-THAN-16-CHARS"), "a: dimse: aet:"),
        (dimse(aet="A\\B"), "a: dimse: aet:"),
        (dimse(port=0), "a: dimse: port:"),
        (dimse(retrieve="move"), "retrieve: move needs our_port"),
        (dimse(retrieve="move", our_port=1, tls={}), "move with tls needs tls.certificate"),
        (dimse(tls=True), "a: dimse: tls: is to be such as {ca: FILE}, or {} for the system's"),
        (dimse(tls=None), "a: dimse: tls: is to be such as {ca: FILE}, or {} for the system's"),
        (dimse(tls={"cert": "x"}), "a: dimse: tls: cert: Extra inputs are not permitted"),
        (dimse(tls={"key": "x"}), "a: dimse: tls: certificate and key stand together: give both"),
        (dimse(tls={"ca": "/no/ca.pem"}), "/no/ca.pem: no such file; dimse.tls.ca names a PEM"),
        (dimse(tls={"certificate": OPEN, "key": OPEN}), f"the key; run: chmod 600 {OPEN}"),
        ({**web(), "limits": {"window": "7-19"}}, 'such as "19:00-07:00"'),
        ({**web(), "limits": {"parallel": 0}}, "a: limits: parallel:"),
        ({**web(), "limits": {"object_mb": 1025}}, "a: limits: object_mb:"),  # cannot be read
        ({**web(), "results": {"sentences": ["Effusion."]}}, "write is false; set write: true"),
        (
            {**web(), "write": True, "results": {"sentences": ["Effusion."], "kinds": ["sc"]}},
            "results: kinds is no key any more: results are always a secondary capture and an SR",
        ),
    ],
)
def test_a_wrong_entry_is_one_line_with_its_place(
    tmp_path: Path, entry: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_peers(write(tmp_path / "peers.yaml", {"peers": [entry]}))
    line = str(caught.value)
    assert says in line
    assert "\n" not in line
    assert SECRET not in line


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "peers.yaml"
    with pytest.raises(ConfigError, match="No such file"):
        read_peers(path)
    good = {"peers": [{"name": "one", "dicomweb": WEB}]}
    with pytest.raises(ConfigError, match=f"run: chmod 600 {path}"):
        read_peers(write(path, good, 0o640))
    for text, says in (
        ("[", "line 1: not readable YAML: expected the node"),
        ("x", "lists no peers"),
        ("peers: []", "peers: Tuple"),
    ):
        with pytest.raises(ConfigError, match=says):
            read_peers(write(path, text))
    with pytest.raises(ConfigError, match="the name one stands there twice"):
        read_peers(write(path, {"peers": good["peers"] * 2}))
    assert list(read_peers(write(path, good))) == ["one"]


@pytest.mark.parametrize(
    ("window", "now", "hours"),
    [
        ("19:00-07:00", "20:00", 0), ("19:00-07:00", "06:59", 0), ("19:00-07:00", "07:00", 12),
        ("08:00-12:00", "08:00", 0), ("08:00-12:00", "12:00", 20), ("08:00-12:00", "05:00", 3),
    ],
)  # fmt: skip
def test_hours_in_which_a_peer_may_be_asked(window: str, now: str, hours: int) -> None:
    found = Limits.model_validate({"window": window}).window
    assert found is not None
    at = datetime.fromisoformat(f"2024-03-01T{now}")
    assert found.opens_in(at).total_seconds() == hours * 3600


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cxrtext.pacs.find_spec", lambda _name: None)
    with pytest.raises(
        UnavailableError, match=r"pynetdicom is not installed; run: pip install 'cxrtext\[pacs\]'"
    ):
        DimsePeer(Peer.model_validate({"name": "a", "dimse": DIMSE}))
