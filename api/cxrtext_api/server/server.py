"""Uvicorn's server, with an announcement when the model is loaded."""

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from cxrtext_api.app import create_app
from cxrtext_api.runtime.resources import LoadService, Resources, load_from_settings
from cxrtext_api.settings import Settings

MAX_HEAD_BYTES = 16 * 1024
"""The most to keep of a request's line and headers while they are incomplete."""

KEEP_ALIVE_SECONDS = 15
SHUTDOWN_SECONDS = 30  # for accepted requests to end


def configured(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def serve_on(
    settings: Settings,
    listener: socket.socket,
    announce: Callable[[], object],
    load: LoadService | None = None,
) -> None:
    """Serve on a listening socket, and announce when the model is loaded."""
    app = create_app(settings, load or load_from_settings, warm=True)
    resources: Resources = app.state.resources
    # When all is closed, Uvicorn raises the signal that stopped it again.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(app, listener, announce))
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangup)
    if resources.failure is not None:
        raise resources.failure


async def _serve(app: FastAPI, listener: socket.socket, announce: Callable[[], object]) -> None:
    server, resources = uvicorn.Server(configured(app)), app.state.resources

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

    watching = asyncio.create_task(watch())
    await server.serve(sockets=[listener])
    if not watching.done():
        watching.cancel()
    else:
        watching.result()
