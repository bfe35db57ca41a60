"""``peers check``: the layer that fails, and what to do about it, within ten seconds."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pynetdicom")


from cxrtext.pacs import check as module
from cxrtext.pacs.check import Step, check_peer
from cxrtext.pacs.peers import Peer
from tests.pacs.conftest import Taking
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Known, Orthanc, free_port

Check = Callable[..., list[Step]]


@pytest.fixture
def check(orthanc: Orthanc, known: Known) -> Check:
    """Checks the Orthanc with some keys of its entry changed; None leaves a protocol out."""

    def look(**changed: Any) -> list[Step]:
        entry = orthanc.peer()
        for key, value in changed.items():
            entry[key] = {**entry[key], **value} if isinstance(value, dict) else value
        given = {key: value for key, value in entry.items() if value is not None}
        steps = check_peer(known(given))
        assert PASSWORD not in str(steps)
        return steps

    return look


def failed(steps: list[Step]) -> tuple[str, str]:
    """The one layer that failed, which is the last, and what it said."""
    assert [step.ok for step in steps] == [True] * (len(steps) - 1) + [False]
    return steps[-1].layer, steps[-1].said


def test_a_good_peer(check: Check) -> None:
    steps = check()
    assert all(step.ok for step in steps)
    assert [step.layer for step in steps if step.protocol == "DICOMweb"] == [
        "name", "TCP", "login", "right to search (QIDO)",
    ]  # fmt: skip
    assert [step.layer for step in steps if step.protocol == "DIMSE"] == [
        "name", "TCP", "AET", "right to search (C-FIND)", "right to fetch and syntaxes (C-GET)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "lacking"),
    [
        (("sc", "sr"), ""),
        ((), "'Secondary Capture Image Storage' or 'Comprehensive 3D SR Storage'"),
    ],
)
def test_whether_results_are_taken_is_asked_where_they_go_by_dimse(
    taking: Taking, kinds: tuple[str, ...], lacking: str
) -> None:
    entry = taking(*kinds)
    entry["dimse"] |= {"retrieve": "move", "our_port": free_port()}
    steps = check_peer(Peer.model_validate(entry))
    assert steps[-1].layer == "right to store (C-STORE)"
    assert [step.ok for step in steps[:-1]] == [True] * (len(steps) - 1)
    said = f"does not take {lacking} from 'CXRTEXT'; have it granted"
    assert steps[-1].said == (
        said if lacking else "takes secondary captures and structured reports"
    )
    assert steps[-1].ok is not bool(lacking)
    closed = check_peer(Peer.model_validate({**entry, "write": False}))
    assert [step.layer for step in closed] == [step.layer for step in steps[:-1]]


@pytest.mark.parametrize(
    ("changed", "layer", "says"),
    [
        (
            {"dimse": {"aet": "WRONG"}, "dicomweb": None},
            "AET",
            "is not called 'WRONG' (association rejected); correct dimse.aet",
        ),
        (
            {"dimse": {"our_aet": "NOBODY"}, "dicomweb": None},
            "right to search (C-FIND)",
            "have 'NOBODY' registered there for queries",
        ),
        (
            {"dimse": {"port": 1}, "dicomweb": None},
            "TCP",
            "port 1: connection refused; start the peer there, or correct the port",
        ),
        (
            {"dicomweb": {"url": "https://no.such.host.invalid/x"}, "dimse": None},
            "name",
            "nothing has the name no.such.host.invalid; correct it in the gateway's file",
        ),
    ],
)
def test_the_layer_that_fails(check: Check, changed: Any, layer: str, says: str) -> None:
    found, said = failed(check(**changed))
    assert found == layer
    assert says in said


def test_a_wrong_password(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, "another")
    layer, said = failed(check(dimse=None))
    assert layer == "login"
    assert said == "does not take the login (401); check user and the variable of password_env"


def test_a_peer_that_hangs(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", 3.0)
    monkeypatch.setattr(module, "BUDGET_S", 10.0)

    def is_said_in_time(port: int) -> bool:
        begun, url = time.monotonic(), f"http://127.0.0.1:{port}/dicom-web"
        steps = check(dicomweb={"url": url}, dimse={"port": port})
        found = [(step.protocol, step.layer) for step in steps if not step.ok]
        wanted = [("DICOMweb", "login"), ("DIMSE", "AET")]
        return found == wanted and time.monotonic() - begun < 10

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert any(is_said_in_time(silent.getsockname()[1]) for _ in range(3)), "pauses or not"
