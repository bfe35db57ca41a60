"""The parts of a gateway: what each does until it is stopped."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError, CxrTextError, DataError
from cxrtext.pacs.gateway.file import Gateway, read_gateway
from cxrtext_cli.options import pick_device, say

if TYPE_CHECKING:
    from cxrtext.service import Service

DICOM, HL7, INTAKE, ANSWER, SERVER, FOLLOW = "dicom", "hl7", "intake", "answer", "server", "follow-"
IN_PLACE = (DICOM, HL7, SERVER)
"""Parts that take over what changed in the file without ending; SIGHUP tells them."""

LOOK_S = 0.5


def parts_of(gateway: Gateway) -> list[str]:
    """The names of the parts that a file asks for (ConfigError: it asks for none)."""
    parts = [name for name in (DICOM, HL7) if getattr(gateway, name) is not None]
    parts += [f"{FOLLOW}{peer.name}" for peer in gateway.peers if peer.follow is not None]
    if gateway.project is not None:
        parts.append(INTAKE)
        parts += [ANSWER] if any(peer.results for peer in gateway.peers) else []
        parts += [SERVER] if gateway.serve is not None else []
    if not parts:
        raise ConfigError("the file asks for nothing: give dicom, hl7, or a peer with follow")
    return parts


def run_part(path: Path, name: str, serve: Callable[[Gateway], None]) -> None:
    """Do the work of a part, by ``serve`` of the server (ConfigError: it is not asked for)."""
    gateway = read_gateway(path)
    if name not in (known := parts_of(gateway)):
        raise ConfigError(f"{path}: asks for no part {name!r}; it asks for {', '.join(known)}")
    if name == SERVER:
        serve(gateway)
    elif name in IN_PLACE:
        _receive(path, gateway, name)
    else:
        _work(gateway, name)


def run_once(gateway: Gateway) -> int:
    """Take all that is there, once: follow, take in, answer; gives how many parts failed."""
    failed = 0
    for name in parts_of(gateway):
        try:
            if name not in IN_PLACE:
                _work(gateway, name, once=True)
        except CxrTextError as error:
            say(f"{name}: {error}")
            failed += 1
    return failed


def _work(gateway: Gateway, name: str, *, once: bool = False) -> None:
    if name.startswith(FOLLOW):
        from cxrtext.pacs.retrieval.follow import follow_peer

        peer = gateway.peer(name.removeprefix(FOLLOW))
        say(f"{peer.name}: {follow_peer(peer, gateway.inbox, say, once=once)}")
    else:
        (_intake if name == INTAKE else _answer)(gateway, once)


def index_of(gateway: Gateway) -> Path:
    """The index that is filled (DataError: there is none yet)."""
    from cxrtext.project import find_place

    if gateway.project is None:
        raise DataError("the gateway's file names no project; give it one")
    return find_place(gateway.project).require_index()


def service_of(gateway: Gateway) -> "Service":
    """The model of that index, and what it has."""
    from cxrtext.service import load_service

    return load_service(None, index_of(gateway), device=pick_device(gateway.device))


def _until_stopped(where: str, changed: Callable[[], None]) -> None:
    """Say where a port is, and call ``changed`` on SIGHUP, until an interrupt."""
    wanted = threading.Event()
    before = signal.signal(signal.SIGHUP, lambda *_: wanted.set())
    say(where)
    try:
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


def _receive(path: Path, gateway: Gateway, name: str) -> None:
    """Receive on a port; SIGHUP takes over who may send, the character set and TLS."""
    from cxrtext.pacs.inbox.queue import Inbox

    at, kind = getattr(gateway, name), _listener(name)

    def changed() -> None:
        new = read_gateway(path)
        listener.update(getattr(new, name) or at, new.peers)

    with (
        Inbox(gateway.inbox, reserve=round(gateway.reserve_gib * 2**30)) as inbox,
        kind(inbox, at, gateway.peers, say) as listener,
    ):
        _until_stopped(f"listens on {at.host}:{listener.port}{' (TLS)' * bool(at.tls)}", changed)


def _listener(name: str) -> Any:
    if name == HL7:
        from cxrtext.pacs.hl7.mllp import MessageListener

        return MessageListener
    from cxrtext.pacs import need

    need("pynetdicom")
    from cxrtext.pacs.dimse.server import Listener

    return Listener


def _intake(gateway: Gateway, once: bool) -> None:
    from cxrtext.images.burnt_in import burnt_in_text, need_tesseract
    from cxrtext.pacs.inbox.intake import WorkerSettings
    from cxrtext.pacs.inbox.worker import work

    if gateway.burnt_in == "hold":
        need_tesseract()
    settings = WorkerSettings(
        index=index_of(gateway),
        archive=gateway.archive,
        device=pick_device(gateway.device),
        ids=gateway.ids.read(),
        columns=gateway.ids.keep,
        issuer=gateway.ids.issuer,
        peers=gateway.by_name,
        readers=gateway.readers,
        burnt_in=burnt_in_text if gateway.burnt_in == "hold" else None,
    )
    work(gateway.inbox, settings, say, once=once)


def _answer(gateway: Gateway, once: bool) -> None:
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.rules import answer_until

    chosen = [peer for peer in gateway.peers if peer.results is not None]
    folder, ids = ResultsFolder(gateway.results), gateway.ids.read()
    with closing(service_of(gateway)) as service:
        answer_until(service, chosen, folder, ids, say, once=once)
