"""HTTP as peers and their login services are asked: no redirect, no proxy, answers with an end."""

import logging
import ssl
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cxrtext.pacs.faults import AnswerError, BusyError
from cxrtext.records.numbers import read_strict_json

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 5.0


def open_client(tls: ssl.SSLContext, timeout_s: float, parallel: int = 1) -> "httpx2.Client":
    """A client whose certificates are verified; nothing of the environment changes it."""
    import httpx2

    # Their lines quote addresses, with what is asked for.
    for logger in ("httpx2", "httpcore2"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    return httpx2.Client(
        verify=tls,
        timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=parallel, keepalive_expiry=5.0),
        follow_redirects=False,
        trust_env=False,
    )


def timed(
    peer: str, response: "httpx2.Response", seconds: float, what: str = "an answer"
) -> Iterator[bytes]:
    """The bytes of an answer, none after some time (BusyError)."""
    end = time.monotonic() + seconds
    for piece in response.iter_bytes():
        yield piece
        if time.monotonic() > end:
            raise BusyError(peer, f"{what} was not whole after {seconds:.0f} s")


def read(
    peer: str, response: "httpx2.Response", seconds: float, most: int, what: str = "an answer"
) -> bytes:
    """A whole answer of so many bytes at most (AnswerError, BusyError)."""
    data = bytearray()
    for piece in timed(peer, response, seconds, what):
        data += piece
        if len(data) > most:
            raise AnswerError(peer, f"{what} is larger than {most >> 10} KiB")
    return bytes(data)


def read_json(data: bytes) -> Any:
    """What an answer says; None where it is not JSON."""
    try:
        return read_strict_json(data)
    except (ValueError, RecursionError):
        return None
