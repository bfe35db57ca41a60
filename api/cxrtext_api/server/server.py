"""Uvicorn's server, with bounded connections, an announcement, and an end in time."""

import asyncio
import functools
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from cxrtext_api.app import create_app
from cxrtext_api.gate.keys import KeyRing
from cxrtext_api.observe.audit import AuditLog
from cxrtext_api.runtime.resources import LoadService, Resources, load_from_settings
from cxrtext_api.settings import Settings

MAX_HEAD_BYTES = 16 * 1024
"""Largest part of a request's line and headers that is kept while more of it is to come."""

CLOSING_SECONDS = 10
"""Of the time that accepted requests have to end, what is kept for closing what they used."""

LOOK_SECONDS = 0.25
_log = logging.getLogger("cxrtext_api")


def serve_on(
    settings: Settings,
    listener: socket.socket,
    announce: Callable[[], object],
    load: LoadService | None = None,
) -> None:
    """Serve on a socket that listens already, and announce when the model is loaded."""
    app = create_app(settings, load or load_from_settings, warm=True)
    server = _Server(app, settings)
    resources: Resources = app.state.resources
    with _stopping(server), _ending_in_time(server, settings):
        asyncio.run(_serve(server, resources, listener, announce))
    if resources.failure is not None:
        raise resources.failure


class _Server(uvicorn.Server):
    """Uvicorn's server, which says that it is not ready for a while before it stops."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol_for(settings),
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_keep_alive=settings.keep_alive_seconds,
                timeout_graceful_shutdown=max(1, settings.shutdown_seconds - CLOSING_SECONDS),
            )
        )
        self._app = app
        self.stopping = False
        self._drain_seconds = settings.drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None

    def take_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take signals on a loop; SIGHUP reads the keys and opens the audit log anew."""
        self._loop = loop
        with suppress(ValueError, RuntimeError):  # only a main thread takes signals
            loop.add_signal_handler(signal.SIGHUP, self._reload)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopping = True
        draining = self._app.state.draining
        self._app.state.draining = True
        if draining or not self._drain_seconds or self._loop is None:
            super().handle_exit(sig, frame)
        else:
            self._loop.call_soon_threadsafe(
                self._loop.call_later, self._drain_seconds, super().handle_exit, sig, frame
            )

    def _reload(self) -> None:
        keys: KeyRing = self._app.state.keys
        audit: AuditLog = self._app.state.audit
        if self._loop is not None:  # neither file is read on it
            self._loop.run_in_executor(None, functools.partial(keys.refresh, force=True))
            self._loop.run_in_executor(None, audit.reopen)


async def _serve(
    server: _Server, resources: Resources, listener: socket.socket, announce: Callable[[], object]
) -> None:
    async def watch() -> None:
        try:
            await resources.settled.wait()
            while not (server.started or server.should_exit):
                await asyncio.sleep(0.01)
            if resources.failure is not None:
                server.should_exit = True
            elif not server.should_exit:
                announce()
        except BaseException:
            server.should_exit = True
            raise

    server.take_signals(asyncio.get_running_loop())
    watching = asyncio.create_task(watch())
    await server.serve(sockets=[listener])
    if not watching.done():
        watching.cancel()
    else:
        watching.result()


@contextmanager
def _stopping(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the server, and nothing else.

    While it serves, uvicorn has handlers of its own; when it is done it puts these back and raises
    the signal again, which would otherwise end the process with a status other than 0.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _ending_in_time(server: _Server, settings: Settings) -> Iterator[None]:
    """End the process where it was asked to stop and does not within the time that it has.

    What pauses ends by itself.  A thread that hangs in the system or in another library's code,
    such as on a disk that does not answer, cannot be ended otherwise.
    """
    ended = threading.Event()
    seconds = settings.drain_seconds + settings.shutdown_seconds

    def watch() -> None:
        # Looked at rather than waited for: a handler of signals must not touch what has a lock.
        while not (server.should_exit or server.stopping):
            if ended.wait(LOOK_SECONDS):
                return
        if not ended.wait(seconds):
            _log.error("work under way did not end within %g s of the signal; ending now", seconds)
            os._exit(1)

    threading.Thread(target=watch, name="end", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def protocol_for(settings: Settings) -> type[H11Protocol]:
    """A class of connections that are closed where a request's head does not arrive in time.

    The server's own timeout of idle connections begins only after a first answer.
    """

    class BoundedConnection(H11Protocol):
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                transport.close()
                return
            self._wait_for_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waits = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
            if not waits:
                self._stop_waiting()
            elif self._patience is None:
                self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_head(self) -> None:
            self._patience = self.loop.call_later(settings.header_seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return BoundedConnection
