"""``peers check``: the layer that fails, and what to do about it, within ten seconds."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pynetdicom")

from pynetdicom import build_context, evt
from pynetdicom.dimse_primitives import C_ECHO
from pynetdicom.transport import AssociationSocket

from cxrtext.pacs import check as module
from cxrtext.pacs.check import Step, check_peer
from cxrtext.pacs.dimse.association import ECHO, Associations
from cxrtext.pacs.faults import DeniedError
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
        (("sc",), "'Comprehensive 3D SR Storage'"),
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


def test_over_dicomweb_the_right_to_store_is_not_asked(check: Check) -> None:
    assert not [step for step in check(write=True) if "store" in step.layer]


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


def test_a_rejected_association_leaves_no_connection_open(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []
    plain = AssociationSocket._create_socket

    def noted(of: AssociationSocket, *given: Any) -> socket.socket:
        made.append(plain(of, *given))
        return made[-1]

    monkeypatch.setattr(AssociationSocket, "_create_socket", noted)
    failed(check(dimse={"aet": "WRONG"}, dicomweb=None))
    assert made
    assert [one for one in made if one.fileno() != -1] == []


def test_wrong_ports_and_paths_of_dicomweb(check: Check, orthanc: Orthanc) -> None:
    web = {"url": f"https://127.0.0.1:{orthanc.http_port}/dicom-web"}
    assert failed(check(dicomweb=web, dimse=None)) == (
        "TLS",
        "does not speak TLS on this port; correct the url in the gateway's file",
    )
    layer, said = failed(check(dicomweb={"url": f"{orthanc.rest}/elsewhere"}, dimse=None))
    assert layer == "right to search (QIDO)"
    assert "(404); is its url that of DICOMweb?" in said
    layer, said = failed(check(dimse={"port": orthanc.http_port}, dicomweb=None))
    assert (layer, said.partition(";")[0]) == ("AET", "ended the association at once")


def test_a_wrong_password(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, "another")
    layer, said = failed(check(dimse=None))
    assert layer == "login"
    assert said == "does not take the login (401); check user and the variable of password_env"
    monkeypatch.delenv(PASSWORD_ENV)
    layer, said = failed(check(dimse=None))
    assert (layer, f"no password in {PASSWORD_ENV}" in said) == ("login", True)


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


def test_a_rejection_that_comes_at_once_is_told_as_one(orthanc: Orthanc, known: Known) -> None:
    entry = orthanc.peer(dicomweb=None)
    entry["dimse"]["aet"] = "WRONG"
    closed = threading.Event()
    handlers = [  # the peer is gone again before our side looks for its answer
        (evt.EVT_CONN_CLOSE, lambda _: closed.set()),
        (evt.EVT_REQUESTED, lambda _: closed.wait(30)),
    ]
    with pytest.raises(DeniedError, match="is not called 'WRONG'"):
        Associations(known(entry)).open([build_context(ECHO)], handlers=handlers)


def test_an_answer_is_taken_by_who_asked_and_by_nobody_else(orthanc: Orthanc, known: Known) -> None:
    peer = known(orthanc.peer())
    association = Associations(peer).open([build_context(ECHO)])
    try:
        answer = C_ECHO()
        association.dimse.msg_queue.put((1, answer))
        assert association.dimse.get_msg(block=False) == (None, None), "as its own thread asks"
        assert association.dimse.get_msg(block=True) == (1, answer)
        assert association.send_c_echo().Status == 0
    finally:
        association.release()
