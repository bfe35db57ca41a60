"""The file of a gateway."""

import shutil
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cxrtext.errors import ConfigError, DataError, UnavailableError
from cxrtext.pacs.dimse.client import DimsePeer
from cxrtext.pacs.gateway.file import read_gateway
from cxrtext.pacs.peers import Limits, Peer
from cxrtext_cli.gateway.parts import parts_of
from tests.pacs.certificates import Certificates

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
    gateway = read_gateway(write(tmp_path / "gateway.yaml", {"peers": entries}))
    peers = gateway.by_name
    assert list(peers) == ["one", "two"]
    assert [peer.sends_as for peer in peers.values()] == [(), ("ARCHIVE",)]
    one, two = peers.values()
    assert one.dicomweb is not None
    assert one.dicomweb.url == WEB["url"]
    assert str(one.limits.window) == "19:00-07:00"
    assert two.dimse is not None
    assert (two.dimse.our_aet, two.write) == ("CXRTEXT", True)
    two.require_write()
    with pytest.raises(ConfigError, match="one: nothing is sent to it; set write: true"):
        one.require_write()
    with pytest.raises(ConfigError, match="there is no peer 'three'; there is one, two"):
        gateway.peer("three")


def test_paths_are_relative_to_the_file_wherever_it_is_read_from(
    tmp_path: Path, certificates: Certificates
) -> None:
    shutil.copy(certificates.ours.path, tmp_path / "ours.pem")
    shutil.copy(certificates.ours.key, tmp_path / "key")
    (tmp_path / "listed").write_text("A1\n")
    said = {
        "project": "project",
        "ids": {"hash": "key"},
        "dicom": {"tls": {"certificate": "ours.pem", "key": "key"}},
        "peers": [{"name": "a", "dicomweb": WEB, "follow": {"accessions": "listed"}}],
    }
    found = read_gateway(write(tmp_path / "gateway.yaml", said))
    assert (found.state, found.project) == (tmp_path / "gateway", tmp_path / "project")
    assert found.ids.hash == tmp_path / "key"
    assert found.dicom is not None
    assert found.dicom.tls is not None
    assert found.dicom.tls.certificate == tmp_path / "ours.pem"
    follow = found.peer("a").follow
    assert follow is not None
    assert follow.listed == ("A1",)
    for text, says in (
        ("A1\nA*", "number 2 is no acc"),
        ("\n", "holds no"),
        ("A" * 17, "number 1"),
    ):
        (tmp_path / "listed").write_text(text)
        with pytest.raises(DataError, match=says):
            _ = follow.listed


def test_parts_follow_from_the_file(tmp_path: Path) -> None:
    def parts(**more: Any) -> list[str]:
        peers = [
            {"name": "a", "dicomweb": WEB, "write": True, "follow": {"from": "2022-01-01"},
             "results": {"sentences": ["Effusion."]}},
            {"name": "ris", "addresses": ["10.0.0.7"]},
        ]  # fmt: skip
        said = {"peers": peers, **more}
        return parts_of(read_gateway(write(tmp_path / "gateway.yaml", said)))

    assert parts() == ["follow-a"]
    alone = {"peers": [{"name": "a", "titles": ["A"]}]}
    with pytest.raises(ConfigError, match="asks for nothing: give dicom, hl7, or a peer with"):
        parts_of(read_gateway(write(tmp_path / "gateway.yaml", alone)))
    assert parts(dicom={}, hl7={"host": "10.0.0.1"}) == ["dicom", "hl7", "follow-a"]
    assert parts(project="p", serve={}) == ["follow-a", "intake", "answer", "server"]


def web(**more: Any) -> dict[str, Any]:
    return {"name": "a", "dicomweb": {**WEB, **more}}


def oauth(**more: str) -> dict[str, Any]:
    return web(oauth={"token_url": "https://a.example.org/t", "client_id": "c", **more})


def dimse(**more: Any) -> dict[str, Any]:
    return {"name": "a", "dimse": {**DIMSE, **more}}


OPEN = "/etc/passwd"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({**web(), "name": "../x"}, "../x: name: String should match"),
        ({"name": "a"}, "a: give dicomweb, dimse, addresses or titles"),
        (web(url="http://pacs.example.org/x"), "a: dicomweb: url: http"),
        (web(url=f"https://u:{SECRET}@a.example.org/"), "a: dicomweb: url: the address holds a us"),
        (web(user="u"), "user and password_env stand together"),
        (web(password=SECRET), "dicomweb: password: is not known; there is ca, certificate,"),
        (oauth(token_url="http://a.example.org/t", secret_env="S"), "give https beyond loopback"),
        (dimse(aet="LONGER-THAN-16-CHARS"), "a: dimse: aet:"),
        (dimse(retrieve="move"), "retrieve: move needs our_port"),
        (dimse(tls=None), "a: dimse: tls: is to be such as {ca: FILE}, or {} for the system's"),
        (dimse(tls={"certificate": OPEN, "key": OPEN}), f"{OPEN}: holds no certificate; give it"),
        ({**web(), "limits": {"window": "7-19"}}, 'such as "19:00-07:00"'),
        ({**web(), "results": {"sentences": ["Effusion."]}}, "set write: true, and where it is"),
    ],
)
def test_a_wrong_entry_is_one_line_with_its_place(
    tmp_path: Path, entry: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_gateway(write(tmp_path / "gateway.yaml", {"peers": [entry]}))
    line = str(caught.value)
    assert says in line
    assert "\n" not in line
    assert SECRET not in line


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    with pytest.raises(ConfigError, match="No such file"):
        read_gateway(path)
    good = {"peers": [{"name": "one", "dicomweb": WEB}]}
    with pytest.raises(ConfigError, match=f"run: chmod 600 {path}"):
        read_gateway(write(path, good, 0o640))
    for text, says in (
        ("[", "line 1: not readable YAML: expected the node"),
        (
            "peers: [{name: a, titles: [A]}]\nsta: x",
            "sta: is not known; there is state, project",
        ),
        ("peers: [{name: a, titles: [A]}]\nhl7: {host: 0.0.0.0}", "give the addresses of who may"),
        ("peers: [{name: a, titles: [A]}]\ndicom: {tls: {}}", "dicom: tls of a port of ours needs"),
    ):
        with pytest.raises(ConfigError, match=says):
            read_gateway(write(path, text))
    with pytest.raises(ConfigError, match="the name one stands there twice"):
        read_gateway(write(path, {"peers": [*good["peers"], *deepcopy(good["peers"])]}))
    assert list(read_gateway(write(path, good)).by_name) == ["one"]


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
