"""Requests over HTTP: send them, repeat them if a busy server asks, turn problems into errors."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError, CxrTextError

if TYPE_CHECKING:
    import httpx2

RETRIES = 5
LONGEST_WAIT_S = 30.0  # do not wait longer for a server
_URL = re.compile(r"https?://[^/?#\s]+(/[^?#\s]*)?")


class ApiError(CxrTextError):
    """The server answered with an error, or not at all.

    ``status`` is 0 without an answer, ``detail`` says what is wrong and what to do, ``request_id``
    is the one in the server's log, and ``retry_after`` is how many seconds the server asks to wait.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        text = f"{title} ({status}): {detail}" if status else f"{title}: {detail}"
        super().__init__(text + (f" [request {request_id}]" if request_id else ""))
        self.status = status
        self.title = title
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after


class Transport:
    """A connection; arguments as for :class:`.Client`, ``content`` as for httpx2."""

    def __init__(
        self, url: str, key: str | None, timeout: float, retries: int, http: "httpx2.Client | None"
    ) -> None:
        if not _URL.fullmatch(url):
            raise ConfigError("the server's address is wrong; write it like http://127.0.0.1:8000")
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError("the key has characters that no key can have; copy it again")
        self._url = url.rstrip("/")
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._retries = retries
        self._own = http is None
        if http is None:
            import httpx2

            # Follow no redirect, so that the key goes nowhere else.
            http = httpx2.Client(timeout=timeout, follow_redirects=False)
        self._http = http

    def close(self) -> None:
        if self._own:
            self._http.close()

    def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any
    ) -> "httpx2.Response":
        """Send a request, and repeat it if a busy server asks (ApiError: a status above 299)."""
        for _ in range(self._retries):
            try:
                return self.once(method, path, headers=headers, **content)
            except ApiError as error:
                _wait_for(error)
        return self.once(method, path, headers=headers, **content)

    def once(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any
    ) -> "httpx2.Response":
        """As :meth:`send`, without repeating."""
        sent = {**self._headers, **(headers or {})}
        with _reaching():
            response = self._http.request(method, self._url + path, headers=sent, **content)
        if response.status_code >= 300:
            raise _error(response)
        return response

    def stream(self, method: str, path: str, **content: Any) -> Iterator[str]:
        """As :meth:`send`, but give the text of the answer as it arrives."""
        for _ in range(self._retries):
            try:
                yield from self._stream_once(method, path, content)
                return
            except ApiError as error:
                _wait_for(error)
        yield from self._stream_once(method, path, content)

    def _stream_once(self, method: str, path: str, content: Mapping[str, Any]) -> Iterator[str]:
        with (
            _reaching(),
            self._http.stream(
                method, self._url + path, headers=self._headers, **content
            ) as response,
        ):
            if response.status_code >= 300:
                response.read()
                raise _error(response)
            yield from response.iter_text()


@contextmanager
def _reaching() -> Iterator[None]:
    import httpx2

    try:
        yield
    except httpx2.HTTPError as error:
        raise ApiError(
            0,
            "No answer",
            f"the server cannot be reached ({type(error).__name__}); check that it is running, and "
            "its address",
        ) from None


def _wait_for(error: ApiError) -> None:
    if error.status != 503 or error.retry_after is None or error.retry_after > LONGEST_WAIT_S:
        raise error
    time.sleep(error.retry_after)


def _error(response: "httpx2.Response") -> ApiError:
    """The error of an answer, from the server's problem document or from a proxy."""
    try:
        value = response.json()
    except ValueError:
        value = None
    problem: dict[str, Any] = value if isinstance(value, dict) else {}
    phrase = response.reason_phrase or "Error"
    detail = str(problem.get("detail") or "the server gave no reason")
    for fault in problem.get("errors") or []:
        if isinstance(fault, dict):
            detail += f" {fault.get('field')}: {fault.get('message')}."
    return ApiError(
        response.status_code,
        str(problem.get("title") or phrase),
        detail,
        response.headers.get("x-request-id"),
        _seconds(response.headers.get("retry-after")),
    )


def _seconds(value: str | None) -> float | None:
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        return None
