"""Whether a peer can be spoken with, layer by layer, and what to do about the first that fails."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date

from cxrtext.errors import CxrTextError
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.faults import LoginError, PeerError, TlsError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.query import Question

STEP_S = 3.0  # most seconds of one layer, and a third of those of all
HANGS = "gave no answer in time; is something between us that swallows it (a firewall)?"
SEARCH = "right to search (QIDO)"
_NAMED: dict[type[PeerError], str] = {LoginError: "login", TlsError: "TLS"}
"""Layers that are known by the fault of a question."""


@dataclass(frozen=True, slots=True)
class Step:
    layer: str
    ok: bool
    said: str  # what was found; where it failed, what to do


def check_peer(peer: Peer) -> list[Step]:
    """Look at every layer of a peer until one fails; within 10 seconds."""
    limits = peer.limits.model_copy(update={"timeout_s": STEP_S, "requests_per_second": 1000.0})
    steps: list[Step] = []
    for layer, look in _layers(peer.model_copy(update={"limits": limits})):
        steps.append(_within(layer, look))
        if not steps[-1].ok:
            break
    return steps


def _layers(peer: Peer) -> Iterator[tuple[str, Callable[[], str]]]:
    host, port = peer.dicomweb.address
    yield "address", lambda: _reached(host, port)
    yield SEARCH, lambda: _searched(peer)
    if peer.dicomweb.orthanc:
        yield "Orthanc's list of changes", lambda: _listed(peer)


def _within(layer: str, look: Callable[[], str]) -> Step:
    """Look at a layer, on a thread that is left behind where it hangs."""
    answer: list[Step] = []

    def run() -> None:
        try:
            answer.append(Step(layer, True, look()))
        except PeerError as error:
            answer.append(Step(_NAMED.get(type(error), layer), False, error.what))
        except CxrTextError as error:
            answer.append(Step(layer, False, str(error)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(STEP_S + 0.2)
    return answer[0] if answer else Step(layer, False, HANGS)


def _reached(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), timeout=STEP_S) as connection:
            return f"{connection.getpeername()[0]}, port {port}"
    except (socket.gaierror, UnicodeError):
        why = f"nothing has the name {host}; correct it in the gateway's file, or see the DNS here"
    except TimeoutError:
        why = f"port {port} is silent; have the firewall between us opened, or correct the address"
    except OSError as error:
        said = (error.strerror or "failed").lower()
        why = f"port {port}: {said}; start the peer there, or correct the port in the file"
    raise PeerError(host, why)


def _searched(peer: Peer) -> str:
    with closing(DicomWeb(peer)) as client:
        found = client.studies(Question(day=date.today().strftime("%Y%m%d")))
    return f"answered; {len(found.rows)} studies of today"


def _listed(peer: Peer) -> str:
    with closing(DicomWeb(peer)) as client:
        return f"answered; the last one is number {client.orthanc('/changes?last')['Last']}"
