"""How we log in to a peer over HTTP: a user and a password, a token, or tokens of a login service.

A login service gives tokens for some minutes to whoever knows the client's secret (client
credentials, RFC 6749, section 4.4), as identity providers before DICOMweb servers do.  Secrets come
from the environment; they and the tokens stay in memory.
"""

import base64
import math
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from cxrtext.errors import ConfigError
from cxrtext.pacs import faults
from cxrtext.pacs.dicomweb.http import open_client, read, read_json
from cxrtext.pacs.peers import OAuth, Web

EARLY_S = 30.0  # how long before its end a token is renewed
UNSAID_S = 300.0  # how long a token is used whose service does not say when it ends
TIMEOUT_S = 10.0
MAX_ANSWER = 2**16

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
_CODES = (
    *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client"),
    *("unsupported_grant_type", "invalid_scope"),
)
"""What a login service may say is wrong (RFC 6749, section 5.2); nothing else of it is shown."""


class Login:
    """What each request carries: the same header for ever, or none.

    ``said``: as whom we ask; ``keys``: of the gateway's file, that a refused login is about.
    """

    def __init__(self, said: str, keys: str, header: str | None = None) -> None:
        self.said, self.keys, self._header = said, keys, header

    def headers(self) -> dict[str, str]:
        return {} if self._header is None else {"Authorization": self._header}

    def renewed(self, refused: Mapping[str, str]) -> bool:  # noqa: ARG002 - of tokens alone
        """Whether a request that was refused (401) with some headers may be sent with others."""
        return False


def open_login(peer: str, web: Web, tls: ssl.SSLContext) -> Login:
    if web.user is not None and web.password_env is not None:
        basic = _basic(web.user, _secret("password", web.password_env))
        return Login(f"user {web.user}", "user and the variable of password_env", basic)
    if web.token_env is not None:
        token = _secret("token", web.token_env)
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"what {web.token_env} holds is no token; set that variable again")
        return Login("a token", "the variable of token_env", f"Bearer {token}")
    if web.oauth is not None:
        return Tokens(peer, web.oauth, _secret("secret", web.oauth.secret_env), tls)
    return Login("no user", "user and the variable of password_env")


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


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Tokens(Login):
    """Tokens of a login service, renewed before they end; any number of threads may ask."""

    def __init__(
        self,
        peer: str,
        oauth: OAuth,
        secret: str,
        tls: ssl.SSLContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(f"client {oauth.client_id}", "scope and audience of oauth")
        self._peer, self._oauth, self._secret, self._tls = peer, oauth, secret, tls
        self._clock, self._lock = clock, threading.Lock()
        self._token, self._until = "", -math.inf

    def headers(self) -> dict[str, str]:
        with self._lock:
            asked = self._clock()
            if asked >= self._until:
                self._token, seconds = self._ask()
                self._until = asked + max(seconds - EARLY_S, seconds / 2)
            return {"Authorization": f"Bearer {self._token}"}

    def renewed(self, refused: Mapping[str, str]) -> bool:
        """Give up a token that was refused; the next one may be taken."""
        with self._lock:
            if refused.get("Authorization") == f"Bearer {self._token}":
                self._until = -math.inf
        return True

    def _ask(self) -> tuple[str, float]:
        import httpx2

        form = {"grant_type": "client_credentials"}
        form |= {"scope": self._oauth.scope} if self._oauth.scope else {}
        form |= {"audience": self._oauth.audience} if self._oauth.audience else {}
        headers = {"Accept": "application/json"}
        if self._oauth.credentials == "body":
            form |= {"client_id": self._oauth.client_id, "client_secret": self._secret}
        else:  # each is form-encoded first (RFC 6749, section 2.3.1)
            headers["Authorization"] = _basic(
                quote(self._oauth.client_id, safe=""), quote(self._secret, safe="")
            )
        try:
            with (
                open_client(self._tls, TIMEOUT_S) as http,
                http.stream("POST", self._oauth.token_url, data=form, headers=headers) as answer,
            ):
                data = read(self._peer, answer, TIMEOUT_S, MAX_ANSWER, "its login service's answer")
                return self._read(answer.status_code, data)
        except httpx2.TimeoutException:
            raise faults.BusyError(self._peer, "its login service is silent") from None
        except httpx2.HTTPError as error:
            trusted = "; see oauth.ca in the gateway's file" if _is_of_tls(error) else ""
            raise faults.GoneError(
                self._peer, f"its login service (oauth.token_url) cannot be reached{trusted}"
            ) from None

    def _read(self, status: int, data: bytes) -> tuple[str, float]:
        found = read_json(data)
        answer = found if isinstance(found, dict) else {}
        if status >= 300:
            raise self._refused(status, answer.get("error"))
        token, kind = answer.get("access_token"), answer.get("token_type", "Bearer")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise faults.AnswerError(
                self._peer, "its login service gave no token; is oauth.token_url the right one?"
            )
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise faults.AnswerError(self._peer, "its login service gives no bearer tokens")
        seconds = answer.get("expires_in")
        if isinstance(seconds, str) and seconds.isdigit():
            seconds = int(seconds)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            return token, UNSAID_S
        return token, max(float(seconds), 1.0)

    def _refused(self, status: int, code: object) -> faults.PeerError:
        if status == 429 or status >= 500:
            return faults.BusyError(self._peer, f"its login service has no answer ({status})")
        shown = code if code in _CODES else status
        if status == 401 or code == "invalid_client":
            return faults.LoginError(
                self._peer,
                f"its login service does not take the client ({shown}); check oauth.client_id, "
                "the variable of secret_env, and credentials: header or body",
            )
        if status < 400 or status == 404:
            return faults.AnswerError(
                self._peer, f"its login service gives no token ({shown}); check oauth.token_url"
            )
        return faults.DeniedError(
            self._peer, f"its login service refuses a token ({shown}); check scope and audience"
        )


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
