"""A peer over DICOMweb: QIDO-RS, WADO-RS and STOW-RS within its limits.

Requests carry our login and follow no redirect or proxy; time and size of answers are limited.
"""

import base64
import logging
import os
import re
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.errors import ConfigError
from cxrtext.images.dicom.described import Described
from cxrtext.pacs import query
from cxrtext.pacs.faults import (
    AnswerError,
    BusyError,
    DeniedError,
    GoneError,
    LoginError,
    PeerError,
    TlsError,
    TooLargeError,
)
from cxrtext.pacs.peers import Peer, Web
from cxrtext.pacs.throttle import Throttle
from cxrtext.records.numbers import read_strict_json

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 5.0
DEADLINE = 20  # times `timeout_s`: how long a whole answer may take
MAX_JSON = 64 * 2**20
ANY_SYNTAX = 'multipart/related; type="application/dicom"; transfer-syntax=*'
DICOM_JSON = "application/dicom+json"

_BOUNDARY = re.compile(r'boundary="?([^";,\s]{1,200})"?', re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: "httpx2.Headers"
    data: bytes


class DicomWeb:
    """A peer over DICOMweb; any number of threads may ask.

    Args:
        throttle: For a followed peer: repeats requests that fail because it is busy or gone.
            Without one, each is sent once.
    """

    def __init__(self, peer: Peer, throttle: Throttle | None = None) -> None:
        self.name = peer.name
        self.throttle = throttle or Throttle(peer.limits, tries=1)
        self._web, self._url = peer.dicomweb, peer.dicomweb.url
        self._max_bytes = peer.limits.object_mb * 2**20
        self._deadline_s = DEADLINE * peer.limits.timeout_s
        self._http = open_client(peer.dicomweb, peer.limits.timeout_s, peer.limits.parallel)

    def close(self) -> None:
        self._http.close()

    def studies(self, question: query.Question) -> tuple[dict[str, Described], bool]:
        """The studies of an answer by UID, and whether the peer may have more (QIDO-RS)."""
        params = [*question.matches().items()]
        params += [("includefield", keyword) for keyword in query.STUDY_FIELDS]
        if question.offset:
            params.append(("offset", str(question.offset)))
        rows, full = self._search("/studies", params, "its studies")
        studies = [query.from_json(row, query.STUDY_FIELDS) for row in rows]
        return {study.first("StudyInstanceUID"): study for study in reversed(studies)}, full

    def instances(self, study: str) -> list[Described]:
        """Ask for the instances of a study (QIDO-RS), series by series if there are many."""
        rows = self._instances(f"/studies/{study}")
        if len(rows) >= query.UNCUT:
            series, _ = self._search(f"/studies/{study}/series", [], "the series of a study")
            for row in series:
                uid = query.from_json(row, ("SeriesInstanceUID",)).first("SeriesInstanceUID")
                if is_uid(uid):
                    rows |= self._instances(f"/studies/{study}/series/{uid}")
        return list(rows.values())

    def _instances(self, place: str) -> dict[str, Described]:
        """The instances of a study or series by UID, page by page while pages bring new ones."""
        fields = [("includefield", keyword) for keyword in query.INSTANCE_FIELDS]
        instances: dict[str, Described] = {}
        read = 0
        while True:
            params = [*fields, ("offset", str(read))] if read else fields
            rows, full = self._search(f"{place}/instances", params, "the images of a study")
            before = len(instances)
            for row in rows:
                said = query.from_json(row, query.INSTANCE_FIELDS)
                instances.setdefault(said.first("SOPInstanceUID"), said)
            read += len(rows)
            if len(instances) == before or not full:
                return instances

    def fetch(self, instance: query.Instance, number: str = "") -> bytes:
        """Fetch an object (WADO-RS), or the copy of it that has this number in Orthanc."""
        address = (
            f"{self._web.orthanc}/instances/{number}/file"
            if number
            else (
                f"{self._url}/studies/{instance.study}/series/{instance.series}"
                f"/instances/{instance.instance}"
            )
        )
        headers = {"Accept": ANY_SYNTAX, "Accept-Encoding": "identity"}
        answer = self._ask("an image", "GET", address, most=self._max_bytes, headers=headers)
        data, said = answer.data, answer.headers.get("content-type", "")
        if said.lower().startswith("multipart/"):
            data = self._first_part(data, said)
        if not data:
            raise AnswerError(self.name, "an image arrived empty")
        return data

    def store(self, data: bytes, study: str) -> None:
        """Send an object of a study (STOW-RS)."""
        boundary = secrets.token_hex(16)
        head = f"--{boundary}\r\nContent-Type: application/dicom\r\n\r\n".encode()
        headers = {
            "Accept": DICOM_JSON,
            "Content-Type": f'multipart/related; type="application/dicom"; boundary={boundary}',
        }
        address = f"{self._url}/studies/{study}"
        content = head + data + f"\r\n--{boundary}--\r\n".encode()
        said = self._json(self._ask("to store", "POST", address, headers=headers, content=content))
        if failed := query.values_of(said, "00081198"):  # it may be present and empty
            reason = query.from_json(failed[0], ("FailureReason",)).first("FailureReason")
            code = f"{int(reason):04X}" if reason.isdigit() else "no code"
            raise AnswerError(self.name, f"did not take an object ({code})")

    def orthanc(self, path: str, **params: str | int) -> Any:
        """Ask Orthanc's own REST API, such as its list of changes."""
        address = f"{self._web.orthanc}{path}"
        return self._json(self._ask("Orthanc's changes", "GET", address, params=params or None))

    def _search(
        self, path: str, params: Sequence[tuple[str, str]], what: str
    ) -> tuple[list[Any], bool]:
        """The rows of an answer, and whether the peer may have cut it off."""
        headers = {"Accept": DICOM_JSON}
        answer = self._ask(what, "GET", self._url + path, params=params, headers=headers)
        if answer.status == 204:
            return [], False
        rows = self._json(answer)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise AnswerError(self.name, f"its answer for {what} is not a list of DICOM JSON")
        if len(rows) > query.MAX_ROWS:
            raise AnswerError(
                self.name, f"its answer for {what} has more than {query.MAX_ROWS} rows"
            )
        more = any("299" in value for value in answer.headers.get_list("warning"))
        return rows, more or len(rows) >= query.UNCUT

    def _ask(
        self, what: str, method: str, address: str, *, most: int = 0, **content: Any
    ) -> _Answer:
        """Send a request, repeated as the throttle says (PeerError).

        Args:
            most: The most bytes of an object; 0 for a text answer.
        """

        def ask() -> _Answer:
            with self._reaching(what), self._http.stream(method, address, **content) as response:
                if response.status_code == 401:
                    raise LoginError(
                        self.name,
                        "does not take the login (401); check user and the variable of "
                        "password_env, or that of token_env",
                    )
                if response.status_code >= 300:
                    raise refusal(self.name, what, response.status_code, response.headers)
                data = self._read(response, most)
                return _Answer(response.status_code, response.headers, data)

        return self.throttle.patiently(self.name, ask)

    def _read(self, response: "httpx2.Response", most: int) -> bytes:
        data, end = bytearray(), time.monotonic() + self._deadline_s
        for piece in response.iter_bytes():
            data += piece
            if most and len(data) > most:
                raise TooLargeError(self.name, most)
            if not most and len(data) > MAX_JSON:
                raise AnswerError(self.name, f"an answer is larger than {MAX_JSON >> 10} KiB")
            if time.monotonic() > end:
                why = f"an answer was not whole after {self._deadline_s:.0f} s"
                raise BusyError(self.name, why)
        return bytes(data)

    @contextmanager
    def _reaching(self, what: str) -> Iterator[None]:
        import httpx2

        try:
            yield
        except httpx2.TimeoutException as error:
            if isinstance(error, httpx2.ConnectTimeout):
                why = f"cannot be reached within {CONNECT_S:.0f} s"
                raise GoneError(self.name, why) from None
            raise BusyError(self.name, f"was silent too long when asked for {what}") from None
        except httpx2.ConnectError as error:
            if why := _about_tls(error):
                raise TlsError(self.name, why) from None
            why = "cannot be reached; is it running, and is its address right?"
            raise GoneError(self.name, why) from None
        except httpx2.HTTPError as error:
            why = f"broke off an answer ({type(error).__name__})"
            raise BusyError(self.name, why) from None

    def _json(self, answer: _Answer) -> Any:
        if (value := read_json(answer.data)) is None:
            raise AnswerError(self.name, "an answer is not JSON; is its url that of DICOMweb?")
        return value

    def _first_part(self, data: bytes, said: str) -> bytes:
        """The first part of a multipart answer (RFC 2046)."""
        boundary = _BOUNDARY.search(said)
        if boundary is None:
            raise AnswerError(self.name, "an image arrived as multipart without a boundary")
        edge = b"--" + boundary.group(1).encode("latin-1")
        begin = data.find(b"\r\n\r\n", max(data.find(edge), 0)) + 4
        end = data.find(b"\r\n" + edge, begin)
        if begin < 4 or end < 0:
            raise AnswerError(self.name, "an image arrived incomplete")
        return data[begin:end]


def open_client(web: Web, timeout_s: float, parallel: int) -> "httpx2.Client":
    """A client that logs in and verifies certificates (ConfigError: secret or CA is missing)."""
    import httpx2

    # Their log lines quote addresses, including what we ask for.
    for logger in ("httpx2", "httpcore2"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    try:
        context = ssl.create_default_context(cafile=web.ca)
    except OSError as error:
        why = "it holds no certificates as PEM" if isinstance(error, ssl.SSLError) else ""
        raise ConfigError(f"{web.ca}: {why or error.strerror}; see ca in the file") from None
    # ca may name the peer's own certificate instead of an authority's.
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
        raise ConfigError(f"what {name} holds is not a token; set that variable again")
    return {"Authorization": f"Bearer {token}"}


def _secret(what: str, name: str) -> str:
    """The value of a variable, else the text of the file that ``{name}_FILE`` names."""
    value = os.environ.get(name, "")
    if not value and (file := os.environ.get(f"{name}_FILE", "")):
        try:
            value = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"{file}: cannot be read; {name}_FILE names it") from None
    if not value:
        raise ConfigError(f"the environment has no {what} in {name}; set that variable")
    return value


def read_json(data: bytes) -> Any:
    """The value of an answer, or None if it is not JSON."""
    try:
        return read_strict_json(data)
    except (ValueError, RecursionError):
        return None


def _about_tls(error: BaseException | None) -> str:
    """What is wrong with TLS if that is why a connection failed, else ""."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); name the hospital's "
            "authority as ca in the gateway's file, or have the certificate renewed"
        )
    reason = (error.reason or "").replace("_", " ").lower() if error is not None else ""
    return f"does not speak our TLS on this port ({reason}); check its url" if reason else ""


def refusal(peer: str, what: str, status: int, headers: Mapping[str, str]) -> PeerError:
    if status == 403:
        return DeniedError(peer, f"its user has no right to {what} (403); have it granted there")
    if status in (408, 425, 429, 500, 502, 503, 504):
        return BusyError(peer, f"has no answer for {what} ({status})", retry_after=_asked(headers))
    if 300 <= status < 400:
        return AnswerError(
            peer, f"sends on to another address ({status}), which is not followed; correct its url"
        )
    if status == 404:
        return AnswerError(peer, f"does not have {what} (404); is its url that of DICOMweb?")
    return AnswerError(peer, f"refuses {what} ({status})")


def _asked(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isdigit() and len(value) < 8 else None
