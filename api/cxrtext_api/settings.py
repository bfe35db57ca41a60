"""What the server is told: plain values, read from nowhere by themselves."""

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

KeyDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Settings(BaseModel):
    """How to serve a model.

    Args:
        checkpoint: The model's folder; by default the one noted in the index.
        index: The index's folder; without one there is no search.
        device: Where to compute.
        host: The address to listen on; one that is not loopback wants keys.
        port: The port to listen on; 0 takes a free one.
        keys: SHA-256 digests of the bearer keys, see :func:`cxrtext_api.keys.read_keys`; none
            means that every caller is let in.
        trusted_hosts: Names, besides the loopback ones and ``host``, by which callers may address
            the server; ``*.example.org`` takes every name below it.
        max_body_bytes: Largest request.
        queue_limit: Requests that may wait for the model, or for the image decoder, at a time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: Path | None = None
    index: Path | None = None
    device: str = "cpu"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    keys: tuple[KeyDigest, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * 2**20
    queue_limit: Annotated[int, Field(ge=1)] = 16

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which callers may address the server, in lower case."""
        return tuple(
            name.lower().strip("[]") for name in (*LOOPBACK_NAMES, self.host, *self.trusted_hosts)
        )


def is_loopback(host: str) -> bool:
    """Whether an address is one that only this machine can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
