"""A gateway in one process: following, taking in, answering, reports, and the server."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from cxrtext.errors import ConfigError, CxrTextError, DataError
from cxrtext.files import lock_now
from cxrtext.pacs.gateway.file import Gateway
from cxrtext.pacs.hl7.mllp import MessageListener
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.rules import Answerer
from cxrtext.pacs.retrieval.follow import follow_peer
from cxrtext.pacs.throttle import Throttle
from cxrtext.project import find_place
from cxrtext_cli.gateway.status import Part, StatusServer
from cxrtext_cli.options import pick_device, say

WAIT_S = (1.0, 60.0)  # before a failed part starts again, at first and at most
STOP_S = 45.0  # for all parts together to end
INTAKE = "intake"

Serve = Callable[[Gateway], None]


def run(gateway: Gateway, serve: Serve) -> None:
    """Run all that a gateway's file asks for until an interrupt; ``serve`` runs the server."""
    stopped = threading.Event()
    with _state(gateway) as inbox, ExitStack() as stack:
        parts = {name: Part(name) for name in _parts(gateway)}
        if gateway.hl7 is not None:
            listener = MessageListener(inbox, gateway.hl7, partial(_say, Part("hl7")))
            stack.enter_context(listener)
            say(f"hl7: listens on {gateway.hl7.host}:{listener.port}")
        status = stack.enter_context(StatusServer(gateway, parts))
        threads = [
            threading.Thread(target=_keep, args=(part, gateway, inbox, stopped), daemon=True)
            for part in parts.values()
        ]
        for thread in threads:
            thread.start()
        try:
            say(f"{', '.join(parts)}; {status.address}/healthz tells how they are")
            if gateway.serve is not None:
                serve(gateway)
            else:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                while True:
                    time.sleep(3600)
        except KeyboardInterrupt:
            say("stopping; what was acknowledged is kept")
        finally:
            stopped.set()
            end = time.monotonic() + STOP_S
            for thread in threads:
                thread.join(max(end - time.monotonic(), 0.1))


def run_once(gateway: Gateway) -> int:
    """Follow, take in and answer once; gives how many parts failed."""
    failed = 0
    with _state(gateway) as inbox:
        for name in _parts(gateway):
            try:
                _work(Part(name), gateway, inbox, None)
            except CxrTextError as error:
                say(f"{name}: {error}")
                failed += 1
    return failed


@contextmanager
def _state(gateway: Gateway) -> Iterator[Inbox]:
    """Lock a gateway's state, and open and tidy its inbox."""
    gateway.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    reserve = round(gateway.reserve_gib * 2**30)
    with (gateway.state / "gateway.lock").open("a") as lock:
        lock_now(lock, f"{gateway.state}: another gateway runs on this state")
        with Inbox(gateway.inbox, reserve=reserve) as inbox:
            inbox.tidy()
            yield inbox


def _parts(gateway: Gateway) -> list[str]:
    """The names of the threads that a file asks for (ConfigError: none)."""
    parts = [f"follow-{peer.name}" for peer in gateway.peers if peer.follow is not None]
    parts += [INTAKE] if gateway.project is not None else []
    if not parts and gateway.hl7 is None:
        raise ConfigError("the file asks for nothing: give hl7, or a peer with follow")
    return parts


def _keep(part: Part, gateway: Gateway, inbox: Inbox, stopped: threading.Event) -> None:
    """Do the work of a part until all are stopped; start it again after a failure."""
    wait = WAIT_S[0]
    while not stopped.is_set():
        part.started, part.up = time.monotonic(), True
        try:
            _work(part, gateway, inbox, stopped)
            why = "ended"
        except CxrTextError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the other parts go on
            why = f"failed ({type(error).__name__})"
        part.up = False
        if not stopped.is_set():
            part.restarts += 1
            _say(part, f"{why}; beginning again in {wait:.0f} s")
        stopped.wait(wait)
        wait = min(2 * wait, WAIT_S[1])


def _say(part: Part, text: str) -> None:
    part.said = text
    say(f"{part.name}: {text}")


def _work(part: Part, gateway: Gateway, inbox: Inbox, stopped: threading.Event | None) -> None:
    """Do the work of a part until it is stopped, or once if ``stopped`` is None."""
    tell = partial(_say, part)
    if part.name == INTAKE:
        _take_in(gateway, inbox, tell, stopped)
        return
    peer = gateway.peer(part.name.removeprefix("follow-"))
    throttle = Throttle(peer.limits, stopped)
    tell(str(follow_peer(peer, inbox, tell, throttle, once=stopped is None)))


def _take_in(
    gateway: Gateway, inbox: Inbox, tell: Callable[[str], None], stopped: threading.Event | None
) -> None:
    ids = gateway.ids.read()
    answerer = None
    if any(peer.results for peer in gateway.peers):
        answerer = Answerer(gateway.peers, ResultsFolder(gateway.results), ids, tell)
    with Worker(inbox, _settings(gateway), tell) as worker:
        if stopped is None:
            worker.drain()
            if answerer is not None:
                answerer.answer(worker.service)
            return
        worker.service.warm_up()
        tell(f"takes in for {index_of(gateway)}")
        worker.run(stopped, answerer.turn if answerer else lambda _: None)


def _settings(gateway: Gateway) -> WorkerSettings:
    from cxrtext.images.burnt_in import burnt_in_text, need_tesseract

    if gateway.burnt_in == "hold":
        need_tesseract()
    return WorkerSettings(
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


def index_of(gateway: Gateway) -> Path:
    """The index to fill (DataError: there is none yet)."""
    if gateway.project is None:
        raise DataError("the gateway's file names no project; give it one")
    return find_place(gateway.project).require_index()
