"""The host names of our server; any other may be an attacker's (DNS rebinding)."""

import ipaddress
import re
from collections.abc import Sequence

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?|\[(?P<address>[0-9A-Fa-f:.]+)\])"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


def names_of(host: str, trusted: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of a server that listens on ``host``, in lower case."""
    return tuple(name.lower().strip("[]") for name in (*_LOOPBACK, host, *trusted))


def is_known_host(headers: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a request has exactly one Host header, and it names a server among ``names``.

    ``*.example.org`` matches all names below it.
    """
    host = name_in(headers[0]) if len(headers) == 1 else None
    return host is not None and any(
        host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in names
    )


def name_in(value: str) -> str | None:
    """The name in ``name``, ``name:port`` or ``[address]:port``, in lower case; else None."""
    match = _HOST.fullmatch(value)
    if match is None or (match["port"] is not None and not 0 < int(match["port"]) < 2**16):
        return None
    if match["address"] is None:
        return match["name"].lower()
    try:
        return str(ipaddress.IPv6Address(match["address"]))
    except ValueError:
        return None
