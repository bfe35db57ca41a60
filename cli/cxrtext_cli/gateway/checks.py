"""What a gateway needs on this machine: its folder, its project, its ports, what it calls."""

import os
import socket
from collections.abc import Callable, Iterator

from cxrtext.errors import CxrTextError
from cxrtext.pacs.check import Step
from cxrtext.pacs.gateway.file import Gateway
from cxrtext.pacs.ports import Serving
from cxrtext_cli.gateway.parts import index_of
from cxrtext_cli.gateway.status import ask


def check_own(gateway: Gateway) -> list[Step]:
    """Look at each, whatever became of the one before."""
    steps = []
    for layer, look in _layers(gateway):
        try:
            steps.append(Step("", layer, True, look()))
        except CxrTextError as error:
            steps.append(Step("", layer, False, str(error)))
        except OSError as error:
            steps.append(Step("", layer, False, f"{error.strerror}; choose another in the file"))
    return steps


def _layers(gateway: Gateway) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "state", lambda: _writable(gateway)
    if gateway.project is not None:
        yield "project", lambda: str(index_of(gateway))
    if gateway.burnt_in == "hold":
        yield "OCR", _read
    running = ask(gateway) is not None
    for name in ("dicom", "hl7", "serve", "status"):
        if (port := getattr(gateway, name)) is not None:
            yield f"port of {name}", lambda port=port: _free(port, running=running)  # type: ignore[misc]
        if (tls := getattr(port, "context", None)) is not None:
            yield f"TLS of {name}", lambda tls=tls: "on" if tls() else "off"  # type: ignore[misc]


def _writable(gateway: Gateway) -> str:
    gateway.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(gateway.state, os.W_OK):
        raise OSError(0, f"{gateway.state} cannot be written")
    return str(gateway.state)


def _read() -> str:
    from cxrtext.images.burnt_in import need_tesseract

    need_tesseract()
    return "tesseract is there"


def _free(port: Serving, *, running: bool) -> str:
    if running:
        return f"{port.host}:{port.port}, used by the gateway that runs"
    family = socket.AF_INET6 if ":" in port.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind((port.host, port.port))
    return f"{port.host}:{port.port}"
