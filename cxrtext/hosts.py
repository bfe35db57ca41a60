"""The host names of our server; any other may be an attacker's (DNS rebinding)."""

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?|\[(?P<address>[0-9A-Fa-f:.]+)\])"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


class Host(NamedTuple):
    """A host from an address, in lower case; no port means the scheme's own."""

    name: str
    port: int | None


def names_of(host: str, trusted: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of a server that listens on ``host``, in lower case."""
    return tuple(name.lower().strip("[]") for name in (*_LOOPBACK, host, *trusted))


def known_host(headers: Sequence[str], names: Sequence[str]) -> Host | None:
    """The host of a request's Host headers; None unless there is exactly one, in ``names``."""
    host = parse_host(headers[0]) if len(headers) == 1 else None
    return host if host is not None and is_among(host.name, names) else None


def is_among(host: str, names: Sequence[str]) -> bool:
    """Whether a host is among ``names``; ``*.example.org`` matches all names below it."""
    return any(
        host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in names
    )


def parse_host(value: str) -> Host | None:
    """The host and port of ``name``, ``name:port`` or ``[address]:port``; else None."""
    match = _HOST.fullmatch(value)
    if match is None:
        return None
    port = None if match["port"] is None else int(match["port"])
    if port is not None and not 0 < port < 2**16:
        return None
    name = match["name"].lower()
    if match["address"] is not None:
        try:
            name = str(ipaddress.IPv6Address(match["address"]))
        except ValueError:
            return None
    return Host(name, port)
