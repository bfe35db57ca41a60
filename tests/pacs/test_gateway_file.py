"""The file of a gateway."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cxrtext.errors import ConfigError
from cxrtext.pacs.gateway.file import read_gateway

WEB = {"url": "https://pacs.example.org/dicom-web"}
SECRET = "hunter2"


def write(path: Path, value: Any, mode: int = 0o600) -> Path:
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    path.chmod(mode)
    return path


def test_peers_are_read_by_name(tmp_path: Path) -> None:
    entries = [
        {"name": "one", "dicomweb": WEB, "follow": {}},
        {"name": "two", "dicomweb": {**WEB}, "write": True},
    ]
    gateway = read_gateway(write(tmp_path / "gateway.yaml", {"peers": entries}))
    assert list(gateway.by_name) == ["one", "two"]
    one, two = gateway.peers
    assert one.dicomweb.url == WEB["url"]
    two.require_write()
    with pytest.raises(ConfigError, match="one: nothing is sent to it; set write: true"):
        one.require_write()
    with pytest.raises(ConfigError, match="there is no peer 'three'; there is one, two"):
        gateway.peer("three")


def test_paths_are_relative_to_the_file_wherever_it_is_read_from(tmp_path: Path) -> None:
    said = {
        "project": "project",
        "ids": {"hash": "key"},
        "peers": [{"name": "a", "dicomweb": {**WEB, "ca": "ca.pem"}}],
    }
    found = read_gateway(write(tmp_path / "gateway.yaml", said))
    assert (found.state, found.project) == (tmp_path / "gateway", tmp_path / "project")
    assert found.ids.hash == tmp_path / "key"
    assert found.peer("a").dicomweb.ca == tmp_path / "ca.pem"


def web(**more: Any) -> dict[str, Any]:
    return {"name": "a", "dicomweb": {**WEB, **more}}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({**web(), "name": "../x"}, "../x: name: String should match"),
        ({"name": "a"}, "a: dicomweb: Field required"),
        (web(url="http://pacs.example.org/x"), "a: dicomweb: url: http"),
        (web(url=f"https://u:{SECRET}@a.example.org/"), "a: dicomweb: url: the address holds a us"),
        (web(user="u"), "user and password_env stand together"),
        (web(password=SECRET), "dicomweb: password: is not known; there is url, user,"),
        (web(user="u", password_env="P", token_env="T"), "give one login: user with password_env"),
        ({**web(), "dimse": {}}, "a: dimse: is not known; there is name, dicomweb"),
        (
            {**web(), "results": {"sentences": ["Effusion."]}},
            "has rules for results, which need write: true",
        ),
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
    peers = "peers: [{name: a, dicomweb: {url: 'http://localhost/x'}}]"
    for text, says in (
        ("[", "line 1: not readable YAML: expected the node"),
        (
            f"{peers}\nsta: x",
            "sta: is not known; there is state, project",
        ),
        (
            "peers: [{name: a, dicomweb: {url: 'http://localhost/x'}}]\nhl7: {host: 0.0.0.0}",
            "give the addresses of who may",
        ),
    ):
        with pytest.raises(ConfigError, match=says):
            read_gateway(write(path, text))
    with pytest.raises(ConfigError, match="two peers are named one"):
        read_gateway(write(path, {"peers": [*good["peers"], *deepcopy(good["peers"])]}))
    assert list(read_gateway(write(path, good)).by_name) == ["one"]
