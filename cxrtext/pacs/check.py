"""Whether a peer can be spoken with, layer by layer, and what to do about the first that fails."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from cxrtext.errors import CxrTextError
from cxrtext.images.dicom.file import ALLOWED, uid_name
from cxrtext.pacs.dicomweb.client import DicomWeb, handshake
from cxrtext.pacs.dimse.association import ECHO, FIND, GET, Associations, dimse_of, storage_contexts
from cxrtext.pacs.dimse.client import DimsePeer
from cxrtext.pacs.faults import AnswerError, DeniedError, GoneError, LoginError, PeerError, TlsError
from cxrtext.pacs.identity import CLASSES
from cxrtext.pacs.peers import Peer, Web
from cxrtext.pacs.query import Question
from cxrtext.pacs.tls import HandshakeError

if TYPE_CHECKING:
    from pynetdicom.association import Association
    from pynetdicom.presentation import PresentationContext

BUDGET_S = 10.0
STEP_S = 3.0  # most seconds of one layer
UNCOMPRESSED = {"1.2.840.10008.1.2", "1.2.840.10008.1.2.1"}


@dataclass(frozen=True, slots=True)
class Step:
    protocol: str  # "DICOMweb" or "DIMSE"
    layer: str
    ok: bool
    said: str  # what was found; where it failed, what to do


class _Failed(Exception):  # noqa: N818 - an answer of a check
    """Args: what is said, and the layer that failed where it is another one than is looked at."""

    def __init__(self, said: str, layer: str = "") -> None:
        super().__init__(said)
        self.layer = layer


Inquiry = Callable[[], str]


def check_peer(peer: Peer) -> list[Step]:
    """Look at every layer of each protocol that a peer has, until one fails; within 10 seconds."""
    end = time.monotonic() + BUDGET_S - 0.5
    given = peer.limits.model_copy(
        update={"timeout_s": STEP_S, "window": None, "requests_per_second": 1000.0}
    )
    asked = peer.model_copy(update={"limits": given})
    layers: dict[str, Iterator[tuple[str, Inquiry]]] = {}
    if peer.dicomweb is not None:
        layers["DICOMweb"] = _web_layers(asked, peer.dicomweb)
    if peer.dimse is not None:
        layers["DIMSE"] = _dimse_layers(asked)
    found: dict[str, list[Step]] = {name: [] for name in layers}

    def look(name: str) -> None:
        for layer, looked in layers[name]:
            step = _within(name, layer, looked, min(STEP_S + 1.0, end - time.monotonic()))
            found[name].append(step)
            if not step.ok:
                return

    threads = [threading.Thread(target=look, args=(name,), daemon=True) for name in layers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(end + 0.5 - time.monotonic(), 0.1))
    return [step for steps in found.values() for step in list(steps)]


def _within(protocol: str, layer: str, look: Inquiry, seconds: float) -> Step:
    answer: list[Step] = []

    def run() -> None:
        try:
            answer.append(Step(protocol, layer, True, look()))
        except _Failed as error:
            answer.append(Step(protocol, error.layer or layer, False, str(error)))
        except (CxrTextError, HandshakeError) as error:
            said = error.what if isinstance(error, PeerError) else str(error)
            answer.append(Step(protocol, layer, False, said))
        except Exception as error:  # noqa: BLE001 - whatever a peer makes a library raise
            said = f"failed ({type(error).__name__}); run with --debug"
            answer.append(Step(protocol, layer, False, said))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(seconds, 0.1))
    hangs = "gave no answer in time; is something between us that swallows it (a firewall)?"
    return answer[0] if answer else Step(protocol, layer, False, hangs)


def _web_layers(peer: Peer, web: Web) -> Iterator[tuple[str, Inquiry]]:
    host, port = web.address
    yield "name", lambda: _resolved(host)
    yield "TCP", lambda: _reached(host, port)
    if web.url.startswith("https:"):
        yield "TLS", lambda: _web_secured(web)
    if web.oauth is not None:
        yield "login service", lambda: _web_token(peer)
    yield "login", lambda: _web_login(peer)
    yield "right to search (QIDO)", lambda: _web_search(peer)


def _dimse_layers(peer: Peer) -> Iterator[tuple[str, Inquiry]]:
    where = dimse_of(peer)
    yield "name", lambda: _resolved(where.host)
    yield "TCP", lambda: _reached(where.host, where.port)
    if where.tls is not None:
        yield "TLS", lambda: Associations(peer).secure()
    yield "AET", lambda: _echoed(peer)
    yield "right to search (C-FIND)", lambda: _found(peer)
    if where.retrieve == "get":
        yield "right to fetch and syntaxes (C-GET)", lambda: _offered(peer)
    else:
        yield "our_port for C-MOVE", lambda: _listened(peer)
    if peer.write and peer.dicomweb is None:  # where there is DICOMweb, results go by it
        yield "right to store (C-STORE)", lambda: _taken(peer)


def _resolved(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _Failed(
            f"nothing has the name {host}; correct it in the gateway's file, or see the DNS here"
        ) from None
    return str(found[0][4][0])


def _reached(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), timeout=STEP_S):
            return f"port {port}"
    except TimeoutError:
        raise _Failed(
            f"port {port} is silent; have the firewall between us opened, or correct the address"
        ) from None
    except OSError as error:
        raise _Failed(
            f"port {port}: {(error.strerror or 'failed').lower()}; start the peer there, or "
            "correct the port in the gateway's file"
        ) from None


def _web_secured(web: Web) -> str:
    try:
        return handshake(web, STEP_S)
    except OSError:
        raise _Failed("ended the connection at once; is it running, on this port?") from None


def _today() -> Question:
    return Question(day=date.today().strftime("%Y%m%d"))


def _web_token(peer: Peer) -> str:
    with contextlib.closing(DicomWeb(peer)) as client:
        return client.log_in()


def _web_login(peer: Peer) -> str:
    with contextlib.closing(DicomWeb(peer)) as client:
        said = client.log_in()
        try:
            client.studies(_today())
        except LoginError:
            raise
        except (AnswerError, DeniedError):
            pass  # the next layer's
    return said


def _web_search(peer: Peer) -> str:
    with contextlib.closing(DicomWeb(peer)) as client:
        found = client.studies(_today())
    return f"answered; {len(found.rows)} studies of today"


def _echoed(peer: Peer) -> str:
    from pynetdicom import build_context

    try:
        with _associated(peer, [build_context(ECHO), build_context(FIND)]) as association:
            if any(one.abstract_syntax == ECHO for one in association.accepted_contexts):
                status = association.send_c_echo()
                if getattr(status, "Status", None) != 0:
                    raise _Failed("took the association, but does not answer C-ECHO; see its log")
    except TlsError as error:
        raise _Failed(error.what, "TLS") from None
    where = dimse_of(peer)
    return f"{where.our_aet} to {where.aet}"


@contextlib.contextmanager
def _associated(
    peer: Peer, contexts: "list[PresentationContext]", *, scp: bool = False
) -> "Iterator[Association]":
    association = Associations(peer).open(contexts, scp=scp)
    try:
        yield association
    finally:
        with contextlib.suppress(Exception):
            association.release()


def _found(peer: Peer) -> str:
    # For questions alone: without a port of our own.
    where = dimse_of(peer).model_copy(update={"retrieve": "get"})
    with contextlib.closing(DimsePeer(peer.model_copy(update={"dimse": where}))) as client:
        try:
            found = client.studies(_today())
        except PeerError as error:
            what = f"{error.what}; have {_ours(peer)} registered there for queries"
            raise _Failed(what) from None
    return f"answered; {len(found.rows)} studies of today"


def _offered(peer: Peer) -> str:
    from pynetdicom import build_context

    with _associated(peer, [build_context(GET), *storage_contexts()], scp=True) as association:
        accepted = association.accepted_contexts
        if not any(context.abstract_syntax == GET for context in accepted):
            raise _Failed(
                f"does not offer C-GET to {_ours(peer)}; have it granted, or set retrieve: move "
                "and our_port in the gateway's file"
            )
        syntaxes = {
            str(context.transfer_syntax[0])
            for context in accepted
            if context.abstract_syntax != GET and context.as_scp
        }
    if not syntaxes:
        raise _Failed("sends no radiographs in a syntax that is read here; see its C-GET settings")
    said = f"{len(syntaxes)} of {len(ALLOWED)} transfer syntaxes"
    if not syntaxes & UNCOMPRESSED:
        said += f", none uncompressed: {', '.join(sorted(map(uid_name, syntaxes)))[:80]}"
    return said


def _listened(peer: Peer) -> str:
    DimsePeer(peer).close()
    where = dimse_of(peer)
    return f"port {where.our_port} is free; the peer must know {where.our_aet} at this address"


def _taken(peer: Peer) -> str:
    from pydicom.uid import ExplicitVRLittleEndian
    from pynetdicom import build_context

    proposed = [build_context(klass, [ExplicitVRLittleEndian]) for klass in CLASSES.values()]
    try:
        with _associated(peer, proposed) as association:
            taken = {context.abstract_syntax for context in association.accepted_contexts}
    except GoneError:  # so pynetdicom ends an association on which nothing is taken
        taken = set()
    lacking = [uid_name(klass) for klass in CLASSES.values() if klass not in taken]
    if lacking:
        raise _Failed(f"does not take {' or '.join(lacking)} from {_ours(peer)}; have it granted")
    return "takes secondary captures and structured reports"


def _ours(peer: Peer) -> str:
    return repr(dimse_of(peer).our_aet)
