"""The ports that the gateway listens on, and the thread that serves one."""

import threading
from collections.abc import Callable
from ipaddress import ip_address
from socketserver import TCPServer
from typing import Annotated, Self

from pydantic import Field, IPvAnyNetwork, model_validator

from cxrtext.datasets.importing.reports.hl7 import CHARACTER_SETS
from cxrtext.errors import WorkError
from cxrtext.pacs.peers import Host, PeerSection, is_loopback

Port = Annotated[int, Field(ge=0, le=65535)]  # 0: a free one


class Serving(PeerSection):
    host: Host = "127.0.0.1"
    port: Port = 0


class Hl7Port(Serving):
    port: Port = 2575
    charset: str = ""  # of messages that name none, written as in MSH-18; "" for UTF-8
    addresses: tuple[IPvAnyNetwork, ...] = ()  # who may send messages; empty: anyone

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.charset.upper() not in CHARACTER_SETS:
            known = ", ".join(name for name in CHARACTER_SETS if name)
            raise ValueError(f"charset is one of {known}")
        if not is_loopback(self.host) and not self.addresses:
            raise ValueError("hl7 is open to others: give the addresses of who may send")
        return self

    def takes(self, address: str) -> bool:
        """Whether messages may come from an address."""
        sender = ip_address(address)
        sender = getattr(sender, "ipv4_mapped", None) or sender  # IPv6 sockets: ::ffff:10.0.0.5
        return not self.addresses or any(sender in network for network in self.addresses)


class Served:
    """A server on a port, in its own thread from `start` to `close`; a context manager."""

    def __init__(self, at: tuple[str, int], make: Callable[[tuple[str, int]], TCPServer]) -> None:
        try:
            self._server = make(at)
        except OSError as error:
            raise WorkError(
                f"{at[0]}:{at[1]}: {error.strerror}; is another gateway running? if not, name "
                "another port in the gateway's file"
            ) from None
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
