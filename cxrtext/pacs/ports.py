"""Ports of ours, as the file of the gateway has them, and the thread that serves one."""

import ssl
import threading
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address
from socketserver import TCPServer
from typing import Annotated, Self

from pydantic import Field, model_validator

from cxrtext.datasets.importing.reports.hl7 import CHARACTER_SETS
from cxrtext.errors import WorkError
from cxrtext.pacs.peers import Aet, Host, PeerSection, Tls

Port = Annotated[int, Field(ge=0, le=65535)]  # 0: a free one


class Serving(PeerSection):
    """A port of ours."""

    host: Host = "127.0.0.1"
    port: Port = 0


class _Encrypted(Serving):
    tls: Tls | None = None  # with a ca, who connects needs a certificate by it

    @model_validator(mode="after")
    def _has_a_certificate(self) -> Self:
        if self.tls is not None and self.tls.certificate is None:
            raise ValueError("tls of a port of ours needs certificate and key")
        return self

    def context(self) -> ssl.SSLContext | None:
        return self.tls.server_context() if self.tls else None


class DicomPort(_Encrypted):
    title: Aet = "CXRTEXT"
    port: Port = 11112
    associations: Annotated[int, Field(ge=1, le=256)] = 8  # at a time
    object_mb: Annotated[int, Field(ge=1, le=1024)] = 256  # largest object; held in memory


class Hl7Port(_Encrypted):
    port: Port = 2575
    charset: str = ""  # of messages that name none, as MSH-18 has it; "" for UTF-8

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.charset.upper() not in CHARACTER_SETS:
            known = ", ".join(name for name in CHARACTER_SETS if name)
            raise ValueError(f"charset is one of {known}")
        return self


class Served:
    """A server on a port, in a thread of its own from `start` to `close`; a context manager."""

    def __init__(self, at: tuple[str, int], make: Callable[[tuple[str, int]], TCPServer]) -> None:
        try:
            self._server = make(at)
        except OSError as error:
            raise WorkError(
                f"{at[0]}:{at[1]}: {error.strerror}; does another gateway run? else name another "
                "port in its file"
            ) from None
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_within(address: str, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    """Whether an address is of networks; a socket of IPv6 has IPv4 ones as ::ffff:10.0.0.5."""
    found = ip_address(address)
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in networks)
