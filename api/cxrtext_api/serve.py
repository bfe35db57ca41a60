"""Running the server in this process."""

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from cxrtext.errors import ConfigError, WorkError
from cxrtext_api.app import create_app
from cxrtext_api.keys import KEYS_FILE_VARIABLE
from cxrtext_api.resources import LoadService, Resources, load_from_settings
from cxrtext_api.settings import Settings, is_loopback

SHUTDOWN_SECONDS = 10


def run_server(
    settings: Settings,
    on_ready: Callable[[str], None] | None = None,
    *,
    load: LoadService = load_from_settings,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        settings: What to serve, and where.
        on_ready: Called once with the address, when the server answers with the model loaded.
        load: Loads the service from the settings.

    Raises:
        ConfigError: The host can be reached by others and there are no keys.
        WorkError: The port is in use, or the host is not an address of this machine.
        CxrTextError: The model or the index cannot be loaded.
    """
    _check_exposure(settings)
    with listen(settings) as listener:
        app = create_app(settings, load)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        resources: Resources = app.state.resources
        url = f"http://{_shown(settings.host)}:{listener.getsockname()[1]}"
        with _stopping(server):
            asyncio.run(_serve(server, resources, listener, lambda: on_ready and on_ready(url)))
    if resources.failure is not None:
        raise resources.failure


async def _serve(
    server: uvicorn.Server,
    resources: Resources,
    listener: socket.socket,
    announce: Callable[[], object],
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


def _check_exposure(settings: Settings) -> None:
    if not settings.keys and not is_loopback(settings.host):
        raise ConfigError(
            f"host {settings.host} can be reached from other machines and there are no API keys; "
            f"set {KEYS_FILE_VARIABLE} to a file of one key a line, or listen on 127.0.0.1"
        )


def listen(settings: Settings) -> socket.socket:
    """Take the port, before the model is loaded for nothing.

    Raises:
        WorkError: It is in use, or the host is not an address of this machine.
    """
    host, port = settings.host.strip("[]"), settings.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        raise WorkError(f"{host}: not an address of this machine; listen on 127.0.0.1") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise WorkError(_why_not(error, f"{_shown(host)}:{port}", port)) from None
    return listener


def _why_not(error: OSError, place: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{place} is in use by another program; stop it, or take another port with --port"
    if error.errno == errno.EACCES:
        return f"{place}: port {port} is reserved for the system; take one from 1024 on with --port"
    return f"{place}: {(error.strerror or 'cannot listen').lower()}; listen on 127.0.0.1"


def _shown(host: str) -> str:
    """A host as an address has it."""
    bare = host.strip("[]")
    return f"[{bare}]" if ":" in bare else bare
