"""The compose files and the Kubernetes manifests: that the command line takes what they say."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cxrtext_api.app import create_app
from cxrtext_api.settings import Settings
from cxrtext_cli.main import app as cli

DOCKER = Path(__file__).parents[1] / "docker"
COMPOSE = sorted(DOCKER.glob("compose*.yaml"))
KUBERNETES = sorted((DOCKER / "kubernetes").glob("*.yaml"))
VALUE = "7"
"""What a variable is taken for: an option of any kind may have it."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


SERVICES = [
    (f"{path.name}: {name}", service)
    for path in COMPOSE
    for name, service in documents(path)[0]["services"].items()
]
PODS = [
    (f"{path.name}: {one['metadata']['name']}", one, one["spec"]["template"]["spec"])
    for path in KUBERNETES
    for one in documents(path)
    if isinstance(one.get("spec", {}).get("template"), dict)
]
"""Where each object with a pod stands, the object, and the pod."""
CONTAINERS = [
    (where, container)
    for where, _, pod in PODS
    for container in (*pod.get("initContainers", []), *pod["containers"])
]
LINES = [
    *((where, one["command"]) for where, one in SERVICES if re.match("cxrtext(:|$)", one["image"])),
    *(
        (where, one["args"])
        for where, one in CONTAINERS
        if one["image"] == "cxrtext" and "command" not in one
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
    assert words[0] in ("serve", "index", "job", "gateway"), where


def test_dask_takes_what_a_manifest_says_to_it() -> None:
    pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    from distributed.cli.dask_scheduler import main as scheduler
    from distributed.cli.dask_worker import main as worker

    known, seen = {"scheduler": scheduler, "worker": worker}, []
    for _, container in CONTAINERS:
        *python, name = container.get("command", [""])
        if python == ["python", "-m", "dask"]:
            with known[name].make_context(name, list(container["args"])):
                seen.append(name)
    assert seen == ["scheduler", "worker"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["serve", "--rate-limits=0"], "No such option"),
        (["serve", "--rate-limit=many"], "(?i)valid integer|int"),
        (["index", "check", "DIR", "extra"], "extra"),
        (["index", "pulls"], "pulls"),
    ],
)
def test_a_command_line_that_is_none_is_found(words: list[str], match: str) -> None:
    with pytest.raises(Exception, match=match):
        parse(words)


def test_an_image_has_the_extra_that_its_commands_need() -> None:
    services = documents(DOCKER / "compose.pacs.yaml")[0]["services"]
    own = [one for one in services.values() if one["image"].startswith("cxrtext")]
    assert len(own) == 3
    for service in own:
        # Another file's image of the same name would be taken without being built.
        assert service["image"] == "cxrtext:pacs"
        assert service["build"]["args"]["EXTRAS"] == "pacs"


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


def test_probes_ask_addresses_of_the_server() -> None:
    routes = {getattr(route, "path", "") for route in create_app(Settings()).state.routes}
    for where, container in CONTAINERS:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe in container:
                asked = container[probe]["httpGet"]["path"]
                assert asked in routes, (where, probe)
                assert asked == ("/healthz" if probe == "livenessProbe" else "/readyz")


def test_every_container_is_without_rights_and_writes_to_volumes_alone() -> None:
    for where, service in SERVICES:
        assert service["read_only"] is True, where
        assert service["cap_drop"] == ["ALL"], where
        assert "no-new-privileges:true" in service["security_opt"], where
        assert service["mem_limit"], where
    for where, _, pod in PODS:
        assert pod["automountServiceAccountToken"] is False, where
        assert pod["securityContext"]["runAsNonRoot"] is True, where
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
    for where, container in CONTAINERS:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True, where
        assert security["allowPrivilegeEscalation"] is False, where
        assert security["capabilities"] == {"drop": ["ALL"]}, where
        assert container["resources"]["requests"], where
        assert container["resources"]["limits"]["memory"], where


def test_kubernetes_objects_name_each_other() -> None:
    everything = [one for path in KUBERNETES for one in documents(path)]
    names = {(one["kind"], one.get("metadata", {}).get("name")) for one in everything}
    listed = documents(DOCKER / "kubernetes" / "kustomization.yaml")[0]["resources"]
    apart = {"kustomization.yaml", "archive-job.yaml"}
    assert {*listed, *apart} == {path.name for path in KUBERNETES}
    for _, one, pod in PODS:
        labels = one["spec"]["template"]["metadata"]["labels"]
        if "selector" in one["spec"]:
            assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        claims = {c["metadata"]["name"] for c in one["spec"].get("volumeClaimTemplates", [])}
        for container in (*pod.get("initContainers", []), *pod["containers"]):
            for mount in container.get("volumeMounts", []):
                assert mount["name"] in volumes.keys() | claims
            for source in container.get("envFrom", []):
                if "configMapRef" in source:
                    assert ("ConfigMap", source["configMapRef"]["name"]) in names
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in names
        if one["kind"] == "StatefulSet":
            assert ("Service", one["spec"]["serviceName"]) in names
    for one in everything:  # a service or a budget that selects no pod is none
        selector = one.get("spec", {}).get("selector", {})
        wanted = selector if one["kind"] == "Service" else selector.get("matchLabels", {})
        if one["kind"] in ("Service", "PodDisruptionBudget"):
            of_pods = [o["spec"]["template"]["metadata"]["labels"] for _, o, _ in PODS]
            assert any(wanted.items() <= labels.items() for labels in of_pods), one["metadata"]


def test_nginx_asks_every_replica_of_the_compose_file() -> None:
    services = documents(DOCKER / "compose.replicas.yaml")[0]["services"]
    serving = {name for name, one in services.items() if one.get("command", [""])[0] == "serve"}
    said = (DOCKER / "nginx" / "compose.conf").read_text(encoding="utf-8")
    assert set(re.findall(r"server (\S+):8000 ", said)) == serving == {"replica-a", "replica-b"}
