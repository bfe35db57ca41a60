"""The compose files and the unit: that the command line takes what they say."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cxrtext.pacs.gateway.file import Serve, Status
from cxrtext.pacs.gateway.numbers import GatewayMetrics
from cxrtext.pacs.ports import Hl7Port
from cxrtext_api.observe.metrics import Metrics
from cxrtext_cli.main import app as cli

DOCKER = Path(__file__).parents[1] / "docker"
UNIT = DOCKER / "systemd" / "cxrtext-gateway.service"
COMPOSE = sorted(DOCKER.glob("compose*.yaml"))
VALUE = "7"
"""What a variable is taken for: an option of any kind may have it."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


SERVICES = [
    (f"{path.name}: {name}", service)
    for path in COMPOSE
    for name, service in documents(path)[0]["services"].items()
]
LINES = [
    *((where, one["command"]) for where, one in SERVICES if re.match("cxrtext(:|$)", one["image"])),
    (
        UNIT.name,
        re.findall(r"^ExecStart=\S+/cxrtext (.*)$", UNIT.read_text("utf-8"), re.M)[0].split(),
    ),
]
"""Every command line of cxrtext that a manifest holds."""


def parse(words: list[str]) -> None:
    command: Any = typer.main.get_command(cli)
    words = [re.sub(r"\$[{(]\w+[^})]*[})]", VALUE, word) for word in words]
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    with command.make_context(command.name, list(words)):
        pass


@pytest.mark.parametrize(("where", "words"), LINES)
def test_every_command_line_is_one(where: str, words: list[str]) -> None:
    parse(words)
    assert words[0] in ("serve", "index", "gateway"), where


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["serve", "--readerz=1"], "No such option"),
        (["serve", "--readers=many"], "(?i)valid integer|int"),
        (["index", "check", "DIR", "extra"], "extra"),
        (["index", "pulls"], "pulls"),
    ],
)
def test_a_command_line_that_is_none_is_found(words: list[str], match: str) -> None:
    with pytest.raises(Exception, match=match):
        parse(words)


def test_the_gateway_has_its_extra_its_ports_and_its_health() -> None:
    (gateway,) = (
        one
        for one in documents(DOCKER / "compose.gateway.yaml")[0]["services"].values()
        if one["image"].startswith("cxrtext")
    )
    # Another file's image of the same name would be taken without being built.
    assert gateway["image"] == "cxrtext:pacs"
    assert gateway["build"]["args"]["EXTRAS"] == "pacs"
    ports = [int(one.rpartition(":")[2]) for one in gateway["ports"]]
    orthanc = json.loads((DOCKER / "orthanc" / "orthanc.json").read_text(encoding="utf-8"))
    assert ports == [orthanc["DicomPort"], Hl7Port().port]
    assert f"http://127.0.0.1:{Status().port}/healthz" in gateway["healthcheck"]["test"][3]
    (scraped, server) = documents(DOCKER / "prometheus.yml")[0]["scrape_configs"]
    assert scraped["dns_sd_configs"] == [{"names": ["gateway"], "type": "A", "port": Status().port}]
    assert server["dns_sd_configs"][0]["port"] == Serve().port
    proxy = (DOCKER / "nginx" / "gateway.conf").read_text(encoding="utf-8")
    assert f"server gateway:{Serve().port};" in proxy
    server = documents(DOCKER / "compose.yaml")[0]["services"]["cxrtext"]
    assert server["networks"]["outside"]["aliases"] == ["gateway"]


def run(*words: object) -> str:
    if shutil.which(str(words[0])) is None:
        pytest.skip(f"{words[0]} is not here")
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_alert_fires_and_is_silent() -> None:
    run("promtool", "check", "config", "--syntax-only", DOCKER / "prometheus.yml")
    run("promtool", "test", "rules", Path(__file__).with_name("alerts.yaml"))
    (group,) = documents(DOCKER / "alerts.yml")[0]["groups"]
    tried = Path(__file__).with_name("alerts.yaml").read_text(encoding="utf-8")
    assert {one["alert"] for one in group["rules"]} == set(re.findall(r'name="(Cxr\w+)"', tried))
    known = {family.name for family in GatewayMetrics().registry.collect()}
    known |= {family.name for family in Metrics().registry.collect()}
    named = set(re.findall(r"cxrtext_\w+", " ".join(one["expr"] for one in group["rules"])))
    assert named <= known


def test_the_unit_is_one(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?<=ExecStart=)\S+", "/bin/true", UNIT.read_text("utf-8")), "utf-8")
    assert run("systemd-analyze", "verify", unit) == ""


def chosen_lock(extras: str) -> subprocess.CompletedProcess[str]:
    """Which file of digests the build takes, by the lines of its shell that choose one."""
    said = (DOCKER.parent / "Dockerfile").read_text(encoding="utf-8")
    chosen = re.search(r'case "\$EXTRAS" in.*?esac', said.replace("\\\n", "\n"), re.S)
    assert chosen is not None
    shell = f"EXTRAS={extras}; {chosen[0]}; echo $lock"
    return subprocess.run(["sh", "-c", shell], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("extras", "lock"), [("", "server"), ("pacs", "pacs"), ("tensorboard", "tensorboard")]
)
def test_a_build_by_digests_has_every_package_of_its_extras(extras: str, lock: str) -> None:
    assert chosen_lock(extras).stdout == f"{lock}\n"
    text = (DOCKER / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
    kept = dict(re.findall(r"^(\S+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", text, re.M))
    assert len(kept) == text.count("==")
    project = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["project"]["dependencies"])
    if extras:
        wanted += project["project"]["optional-dependencies"][extras]
    for line in wanted:
        need = Requirement(line)
        name = canonicalize_name(need.name)
        if name != "torch":
            assert kept.get(name, "0") in need.specifier, line
    pins = (DOCKER.parent / "constraints.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([^#\s=]+)==(\S+)$", pins, re.M):
        assert kept.get(canonicalize_name(name), version) == version, name


def test_a_build_by_digests_without_a_file_is_refused() -> None:
    answer = chosen_lock("cluster")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "EXTRAS=cluster" in answer.stderr


def test_every_container_is_without_rights_and_writes_to_volumes_alone() -> None:
    for where, service in SERVICES:
        assert service["read_only"] is True, where
        assert service["cap_drop"] == ["ALL"], where
        assert "no-new-privileges:true" in service["security_opt"], where
        assert service["mem_limit"], where
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, where
