"""The parts of a gateway: what each does until it is stopped."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError, CxrTextError, DataError
from cxrtext.pacs.gateway.file import Gateway, read_gateway
from cxrtext_cli.options import pick_device, say

DICOM, HL7, INTAKE, ANSWER, SERVER, FOLLOW = "dicom", "hl7", "intake", "answer", "server", "follow-"
IN_PLACE = (DICOM, HL7, SERVER)
"""Parts that take over what changed in the file without ending; SIGHUP tells them."""

LOOK_S = 0.5


def parts_of(gateway: Gateway) -> list[str]:
    """The names of the parts that a file asks for."""
    parts = [name for name in (DICOM, HL7) if getattr(gateway, name) is not None]
    parts += [f"{FOLLOW}{peer.name}" for peer in gateway.peers if peer.follow is not None]
    if gateway.project is not None:
        parts.append(INTAKE)
        parts += [ANSWER] if any(peer.results for peer in gateway.peers) else []
        parts += [SERVER] if gateway.serve is not None else []
    return parts


def run_part(path: Path, name: str, serve: Callable[[Gateway], None]) -> None:
    """Do the work of a part until it is stopped (ConfigError: the file asks for no such part).

    ``serve`` is the work of the server.
    """
    gateway = read_gateway(path)
    if name not in (known := parts_of(gateway)):
        raise ConfigError(f"{path}: asks for no part {name!r}; it asks for {', '.join(known)}")
    if name.startswith(FOLLOW):
        _follow(gateway, name)
    elif name in (INTAKE, ANSWER):
        (_intake if name == INTAKE else _answer)(gateway)
    elif name == SERVER:
        serve(gateway)
    else:
        (_dicom if name == DICOM else _hl7)(path, gateway)


def run_once(path: Path) -> int:
    """Take all that is there, once: follow, take in, answer; gives how many parts failed."""
    gateway, failed = read_gateway(path), 0
    for name in parts_of(gateway):
        try:
            if name.startswith(FOLLOW):
                _follow(gateway, name, once=True)
            elif name == INTAKE:
                _intake(gateway, once=True)
            elif name == ANSWER:
                _answer(gateway, once=True)
        except CxrTextError as error:
            say(f"{name}: {error}")
            failed += 1
    return failed


def index_of(gateway: Gateway) -> Path:
    """The index that is filled (DataError: there is none yet)."""
    from cxrtext.project import find_place

    if gateway.project is None:
        raise DataError("the gateway's file names no project; give it one")
    return find_place(gateway.project).require_indexes()[0]


@contextmanager
def _told(changed: Callable[[], None]) -> Iterator[None]:
    """Call ``changed`` when SIGHUP comes, on this thread, until the block ends by an interrupt."""
    wanted = threading.Event()
    before = signal.signal(signal.SIGHUP, lambda *_: wanted.set())
    try:
        yield
        while True:
            time.sleep(LOOK_S)
            if wanted.is_set():
                wanted.clear()
                try:
                    changed()
                except CxrTextError as error:
                    say(f"{error}; what was there before stays")
    finally:
        signal.signal(signal.SIGHUP, before)


def _dicom(path: Path, gateway: Gateway) -> None:
    from cxrtext.pacs import need
    from cxrtext.pacs.inbox.queue import Inbox

    need("pynetdicom")
    from cxrtext.pacs.dimse.server import Caps, Listener

    port = gateway.dicom
    assert port is not None  # noqa: S101 - the file asks for the part
    caps = Caps(port.associations, port.object_mb * 2**20)

    def senders(of: Gateway) -> dict[str, Any]:
        return {
            "allowed": of.titles,
            "addresses": of.addresses,
            "tls": of.dicom and of.dicom.context(),
        }

    with ExitStack() as stack:
        inbox = stack.enter_context(Inbox(gateway.inbox, reserve=_bytes(gateway)))
        listener = stack.enter_context(
            Listener(
                inbox, ae_title=port.title, host=port.host, port=port.port, caps=caps, say=say,
                **senders(gateway),
            )
        )  # fmt: skip
        spoken = " (TLS)" if port.tls else ""
        say(f"{port.title} listens on {port.host}:{listener.port}{spoken}")
        stack.enter_context(_told(lambda: listener.update(**senders(read_gateway(path)))))


def _hl7(path: Path, gateway: Gateway) -> None:
    from cxrtext.pacs.hl7.mllp import MessageListener
    from cxrtext.pacs.inbox.queue import Inbox

    port = gateway.hl7
    assert port is not None  # noqa: S101 - the file asks for the part

    def senders(of: Gateway) -> dict[str, Any]:
        own = of.hl7
        return {
            "allowed": of.addresses,
            "charset": own.charset if own else "",
            "tls": own and own.context(),
        }

    with ExitStack() as stack:
        inbox = stack.enter_context(Inbox(gateway.inbox, reserve=_bytes(gateway)))
        listener = stack.enter_context(
            MessageListener(inbox, host=port.host, port=port.port, say=say, **senders(gateway))
        )
        say(f"HL7 (MLLP{' over TLS' if port.tls else ''}) on {port.host}:{listener.port}")
        stack.enter_context(_told(lambda: listener.update(**senders(read_gateway(path)))))


def _bytes(gateway: Gateway) -> int:
    return round(gateway.reserve_gib * 2**30)


def _follow(gateway: Gateway, name: str, *, once: bool = False) -> None:
    from cxrtext.pacs.retrieval.follow import follow_peer

    peer = gateway.peer(name.removeprefix(FOLLOW))
    tally = follow_peer(peer, gateway.inbox, say, once=once)
    say(f"{peer.name}: {tally}")


def _intake(gateway: Gateway, *, once: bool = False) -> None:
    from cxrtext.images.burnt_in import burnt_in_text, need_tesseract

    from cxrtext.pacs.inbox.worker import WorkerSettings, work

    if gateway.burnt_in == "hold":
        need_tesseract()
    settings = WorkerSettings(
        index=index_of(gateway),
        archive=gateway.archive,
        device=pick_device(gateway.device),
        hash_ids=gateway.ids.hash,
        columns=gateway.ids.keep,
        issuer=gateway.ids.issuer,
        peers=gateway.by_name,
        readers=gateway.readers,
        burnt_in=burnt_in_text if gateway.burnt_in == "hold" else None,
    )
    work(gateway.inbox, settings, lambda: False, say, once=once)


def _answer(gateway: Gateway, *, once: bool = False) -> None:
    from cxrtext.datasets.admission.ids import Ids, read_key
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.rules import answer_until
    from cxrtext.service import load_service

    ids = Ids(None if gateway.ids.hash is None else read_key(gateway.ids.hash))
    chosen = [peer for peer in gateway.peers if peer.results is not None]
    service = load_service(None, index_of(gateway), device=pick_device(gateway.device))
    with closing(service):
        answer_until(service, chosen, ResultsFolder(gateway.results), ids=ids, say=say, once=once)
