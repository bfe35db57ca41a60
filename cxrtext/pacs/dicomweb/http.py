"""HTTP as peers are asked: our login, no redirect, no proxy, answers with an end."""

import base64
import logging
import os
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError
from cxrtext.pacs.faults import AnswerError, BusyError
from cxrtext.pacs.peers import Web
from cxrtext.records.numbers import read_strict_json

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 5.0


_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1


def open_client(web: Web, timeout_s: float, parallel: int) -> "httpx2.Client":
    """A client that logs in and verifies certificates (ConfigError: no secret, no authorities)."""
    import httpx2

    # Their lines quote addresses, with what is asked for.
    for logger in ("httpx2", "httpcore2"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    try:
        context = ssl.create_default_context(cafile=web.ca)
    except OSError as error:
        why = "it holds no certificates as PEM" if isinstance(error, ssl.SSLError) else ""
        raise ConfigError(f"{web.ca}: {why or error.strerror}; see ca in the file") from None
    # Who names the peer's own certificate instead of an authority means that one.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return httpx2.Client(
        verify=context,
        headers=_login(web),
        timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=parallel, keepalive_expiry=5.0),
        follow_redirects=False,
        trust_env=False,
    )


def _login(web: Web) -> dict[str, str]:
    """The header that logs in; secrets come from the environment and stay in memory."""
    if web.user is not None and web.password_env is not None:
        pair = f"{web.user}:{_secret('password', web.password_env)}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {} if web.token_env is None else bearer(web.token_env)


def bearer(name: str) -> dict[str, str]:
    """The header with the token that a variable holds (ConfigError)."""
    token = _secret("token", name)
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"what {name} holds is no token; set that variable again")
    return {"Authorization": f"Bearer {token}"}


def _secret(what: str, name: str) -> str:
    """What a variable holds, or else the file that the variable of its name and ``_FILE`` names."""
    value = os.environ.get(name, "")
    if not value and (file := os.environ.get(f"{name}_FILE", "")):
        try:
            value = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"{file}: cannot be read; {name}_FILE names it") from None
    if not value:
        raise ConfigError(f"the environment has no {what} in {name}; set that variable")
    return value


def timed(peer: str, response: "httpx2.Response", seconds: float) -> Iterator[bytes]:
    """The bytes of an answer, none after some time (BusyError)."""
    end = time.monotonic() + seconds
    for piece in response.iter_bytes():
        yield piece
        if time.monotonic() > end:
            raise BusyError(peer, f"an answer was not whole after {seconds:.0f} s")


def read(peer: str, response: "httpx2.Response", seconds: float, most: int) -> bytes:
    """A whole answer of so many bytes at most (AnswerError, BusyError)."""
    data = bytearray()
    for piece in timed(peer, response, seconds):
        data += piece
        if len(data) > most:
            raise AnswerError(peer, f"an answer is larger than {most >> 10} KiB")
    return bytes(data)


def read_json(data: bytes) -> Any:
    """What an answer says; None where it is not JSON."""
    try:
        return read_strict_json(data)
    except (ValueError, RecursionError):
        return None
