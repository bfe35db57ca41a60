"""The socket that the server listens on."""

import errno
import socket

from cxrtext.errors import WorkError
from cxrtext_api.settings import Settings


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
    # Named, or asyncio does not tell it is TCP and leaves a small answer waiting (Nagle).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise WorkError(_why_not(error, f"{_shown(host)}:{port}", port)) from None
    return listener


def url_of(settings: Settings, listener: socket.socket) -> str:
    """The address that a caller on this machine uses."""
    return f"http://{_shown(settings.host)}:{listener.getsockname()[1]}"


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
