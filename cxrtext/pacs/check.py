"""Check whether a peer answers, and what to do if it does not."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date

from cxrtext.errors import CxrTextError
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.faults import GoneError, LoginError, PeerError, TlsError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.query import Question
from cxrtext.pacs.retrieval.changes import ask

STEP_S = 3.0  # how long a peer may be silent
SEARCH = "right to search (QIDO)"
_NAMED: dict[type[PeerError], str] = {GoneError: "address", LoginError: "login", TlsError: "TLS"}
"""Layers that the type of the error names."""


@dataclass(frozen=True, slots=True)
class Step:
    layer: str
    ok: bool
    said: str  # what was found; if it failed, what to do


def check_peer(peer: Peer) -> list[Step]:
    """Ask a peer what following asks, up to the first failure; this changes nothing."""
    limits = peer.limits.model_copy(update={"timeout_s": STEP_S})
    steps: list[Step] = []
    try:
        with closing(DicomWeb(peer.model_copy(update={"limits": limits}))) as client:
            for layer, answer in _questions(peer, client):
                steps.append(Step(layer, False, ""))
                steps[-1] = Step(layer, True, f"answered; {answer()}")
    except CxrTextError as error:
        layer = steps.pop().layer if steps else "the gateway's file"
        what = error.what if isinstance(error, PeerError) else str(error)
        steps.append(Step(_NAMED.get(type(error), layer), False, what))  # type: ignore[arg-type]
    return steps


def _questions(peer: Peer, client: DicomWeb) -> Iterator[tuple[str, Callable[[], str]]]:
    today = Question(date.today().strftime("%Y%m%d"))
    yield SEARCH, lambda: f"{len(client.studies(today)[0])} studies of today"
    if peer.dicomweb.orthanc:
        yield (
            "Orthanc's list of changes",
            lambda: f"the last one is number {ask(client, 'last')['Last']}",
        )
