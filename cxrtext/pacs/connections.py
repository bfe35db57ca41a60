"""Connections that peers open to a port of ours: looked at, and encrypted, before they count.

It is done in the connection's own thread and within seconds, so that who connects and is silent, or
sends what no peer sends, holds up nobody.
"""

import socket
import ssl
import time

from cxrtext.pacs.tls import refusal

OPENING_S = 10.0
"""How long a peer may take from its connection to its request."""

_TLS = b"\x16"  # the first byte of a handshake


class RefusedError(Exception):
    """Says why a connection is not taken; "" where nothing came of it."""


def admit(
    connection: socket.socket, tls: ssl.SSLContext | None, begin: bytes, seconds: float = OPENING_S
) -> socket.socket:
    """Wait for the first byte of a peer, and encrypt the connection where a context is given.

    Args:
        begin: The first byte of the protocol.

    Raises:
        RefusedError: What comes is no such protocol, or nothing comes in time.
    """
    end = time.monotonic() + seconds
    connection.settimeout(seconds)
    try:
        first = connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        raise RefusedError(f"it said nothing for {seconds:.0f} s") from None
    except OSError:
        raise RefusedError("") from None
    if not first:  # a look whether the port is open
        raise RefusedError("")
    if tls is None:
        if first != begin:
            raise RefusedError(of_another_protocol(first))
        return connection
    if first == begin:
        raise RefusedError("it speaks no TLS, and this port does; switch it on there")
    if first != _TLS:
        raise RefusedError(of_another_protocol(first))
    connection.settimeout(max(end - time.monotonic(), 0.1))
    secured = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
    except OSError as error:
        secured.close()
        raise RefusedError(refusal(error)) from None
    return secured


def of_another_protocol(first: bytes) -> str:
    """What is said of a peer that begins as none of this port does."""
    if first[:1] == _TLS:
        return (
            "it speaks TLS, and this port does not; switch it off there, or on here with "
            "--tls-cert and --tls-key"
        )
    return "it sent something else than this port is for; is it a peer, or a scan?"
