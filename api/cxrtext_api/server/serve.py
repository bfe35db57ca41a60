"""Open the server's port, if it may listen there."""

import functools
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from cxrtext.errors import ConfigError, WorkError
from cxrtext.pacs.peers import is_loopback
from cxrtext_api.gate.keys import KEYS_FILE_VARIABLE
from cxrtext_api.settings import Settings

if TYPE_CHECKING:
    from cxrtext_api.runtime.resources import LoadService


BACKLOG = 128  # connections that may wait to be accepted


def run_server(
    settings: Settings,
    on_ready: Callable[[str], None] = lambda _: None,
    *,
    load: "LoadService | None" = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    ``on_ready`` is called once with the address, when the model is loaded and the server answers.
    """
    if settings.keys_file is None and not is_loopback(settings.host):
        raise ConfigError(
            f"host {settings.host} can be reached from other machines and there are no API keys; "
            f"make one with `cxrtext keys add FILE NAME` and set {KEYS_FILE_VARIABLE} to the "
            "file, or listen on 127.0.0.1"
        )
    with listen(settings) as listener:
        from cxrtext_api.server.server import serve_on

        try:
            listener.listen(BACKLOG)
        except OSError as error:  # another starting program was faster
            place = f"{_shown(settings.host)}:{settings.port}"
            raise WorkError(_why_not(error, place)) from None
        url = f"http://{_shown(settings.host)}:{listener.getsockname()[1]}"
        serve_on(settings, listener, functools.partial(on_ready, url), load)


def listen(settings: Settings) -> socket.socket:
    """Take the port before loading the model, which would be in vain if the port is taken.

    Nobody can connect yet: a proxy could not tell waiting for the start from waiting for an answer,
    and would not ask another server.
    """
    host, port = settings.host.strip("[]"), settings.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        raise WorkError(f"{host}: not an address of this machine; listen on 127.0.0.1") from None
    # Name TCP, or asyncio does not see it and leaves small answers waiting (Nagle).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise WorkError(_why_not(error, f"{_shown(host)}:{port}")) from None
    return listener


def _why_not(error: OSError, place: str) -> str:
    why = (error.strerror or "cannot listen").lower()
    return f"{place}: {why}; take another port with --port, or listen on 127.0.0.1"


def _shown(host: str) -> str:
    bare = host.strip("[]")
    return f"[{bare}]" if ":" in bare else bare
