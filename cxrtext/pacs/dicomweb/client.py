"""A peer over DICOMweb: QIDO-RS, WADO-RS and STOW-RS within its limits.

Objects go to disk as they come, byte for byte, and no more of them than the limit.
"""

import re
import secrets
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.images.dicom.described import Described
from cxrtext.pacs import query
from cxrtext.pacs.dicomweb.http import CONNECT_S, open_client, read, read_json, timed
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
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.throttle import Throttle

if TYPE_CHECKING:
    import httpx2

DEADLINE = 20  # times `timeout_s`: how long a whole answer may take, however slowly its bytes come
MAX_JSON = 64 * 2**20
MAX_PART_HEADERS = 16_384
ANY_SYNTAX = 'multipart/related; type="application/dicom"; transfer-syntax=*'
DICOM_JSON = "application/dicom+json"

_BOUNDARY = re.compile(r'boundary="?([^";,\s]{1,200})"?', re.IGNORECASE)


class DicomWeb:
    """A peer over DICOMweb; any number of threads may ask."""

    def __init__(self, peer: Peer, *, throttle: Throttle | None = None) -> None:
        self.name = peer.name
        self.throttle = throttle or Throttle(peer.limits)
        self._web, self._url = peer.dicomweb, peer.dicomweb.url
        self._max_bytes = peer.limits.object_mb * 2**20
        self._deadline_s = DEADLINE * peer.limits.timeout_s
        self._http = open_client(peer.dicomweb, peer.limits.timeout_s, peer.limits.parallel)

    def close(self) -> None:
        self._http.close()

    def studies(self, question: query.Question) -> query.Studies:
        params = [*question.matches().items()]
        params += [("includefield", keyword) for keyword in query.STUDY_FIELDS]
        if question.offset:
            params.append(("offset", str(question.offset)))
        rows, more = self._search("/studies", params, "its studies")
        return query.Studies([query.from_json(row, query.STUDY_FIELDS) for row in rows], more)

    def instances(self, study: str) -> list[Described]:
        """Ask for the instances of a study (QIDO-RS), series by series where there are many."""
        rows = self._instances(f"/studies/{study}")
        if len(rows) >= query.UNCUT:
            series, _ = self._search(f"/studies/{study}/series", [], "the series of a study")
            for one in series:
                uid = query.from_json(one, ("SeriesInstanceUID",)).first("SeriesInstanceUID")
                if is_uid(uid):
                    rows |= self._instances(f"/studies/{study}/series/{uid}")
        return list(rows.values())

    def _instances(self, place: str) -> dict[str, Described]:
        """The instances of a study or series by UID; asked for by pages while these are new."""
        fields = [("includefield", keyword) for keyword in query.INSTANCE_FIELDS]
        found: dict[str, Described] = {}
        read = 0
        while True:
            params = [*fields, ("offset", str(read))] if read else fields
            rows, more = self._search(f"{place}/instances", params, "the images of a study")
            before = len(found)
            for row in rows:
                said = query.from_json(row, query.INSTANCE_FIELDS)
                found.setdefault(said.first("SOPInstanceUID"), said)
            read += len(rows)
            if len(found) == before or not (more or len(rows) >= query.UNCUT):
                return found

    def fetch(self, instance: query.Instance, path: Path, number: str = "") -> None:
        """Fetch an object (WADO-RS); with Orthanc's own number, that copy of it."""
        address = (
            f"{self._web.orthanc}/instances/{number}/file"
            if number
            else (
                f"{self._url}/studies/{instance.study}/series/{instance.series}"
                f"/instances/{instance.instance}"
            )
        )
        headers = {"Accept": ANY_SYNTAX, "Accept-Encoding": "identity"}
        with self._asking("an image", "GET", address, headers=headers) as response:
            said = response.headers.get("content-type", "")
            with path.open("wb") as file:
                size = 0
                for piece in self._first_part(response, said):
                    size += len(piece)
                    if size > self._max_bytes:
                        raise TooLargeError(self.name, self._max_bytes)
                    file.write(piece)
        if size == 0:
            raise AnswerError(self.name, "an image came empty")

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
        with self._asking("to store", "POST", address, headers=headers, content=content) as answer:
            said = self._json(self._read(answer))
        if failed := _items(said, "00081198"):  # there and empty where it was taken
            reason = query.from_json(failed[0], ("FailureReason",)).first("FailureReason")
            code = f"{int(reason):04X}" if reason.isdigit() else "no code"
            raise AnswerError(self.name, f"did not take an object ({code})")

    def orthanc(self, path: str, **params: str | int) -> Any:
        """Ask Orthanc's own REST API, such as its list of changes; of a peer that has it."""
        address = f"{self._web.orthanc}{path}"
        with self._asking("Orthanc's changes", "GET", address, params=params or None) as response:
            return self._json(self._read(response))

    def _search(
        self, path: str, params: Sequence[tuple[str, str]], what: str
    ) -> tuple[list[Any], bool]:
        headers = {"Accept": DICOM_JSON}
        address = self._url + path
        with self._asking(what, "GET", address, params=params, headers=headers) as response:
            if response.status_code == 204:
                return [], False
            data = self._read(response)
            more = any("299" in value for value in response.headers.get_list("warning"))
        rows = self._json(data)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise AnswerError(self.name, f"its answer for {what} is not a list of DICOM JSON")
        if len(rows) > query.MAX_ROWS:
            raise AnswerError(
                self.name, f"its answer for {what} has more than {query.MAX_ROWS} rows"
            )
        return rows, more

    @contextmanager
    def _asking(
        self, what: str, method: str, address: str, **content: Any
    ) -> "Iterator[httpx2.Response]":
        """Send a request; what goes wrong inside the block is the peer's fault."""
        self.throttle.wait()
        with self._reaching(what), self._http.stream(method, address, **content) as response:
            if response.status_code == 401:
                raise LoginError(
                    self.name,
                    "does not take the login (401); check user and the variable of password_env, "
                    "or that of token_env",
                )
            if response.status_code >= 300:
                raise refusal(self.name, what, response.status_code, response.headers)
            yield response

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

    def _read(self, response: "httpx2.Response") -> bytes:
        return read(self.name, response, self._deadline_s, MAX_JSON)

    def _json(self, data: bytes) -> Any:
        if (found := read_json(data)) is None:
            raise AnswerError(self.name, "an answer is not JSON; is its url that of DICOMweb?")
        return found

    def _first_part(self, response: "httpx2.Response", said: str) -> Iterator[bytes]:
        pieces = timed(self.name, response, self._deadline_s)
        if not said.lower().startswith("multipart/"):
            return pieces
        boundary = _BOUNDARY.search(said)
        if boundary is None:
            raise AnswerError(self.name, "an image came as multipart without a boundary")
        return first_part(self.name, pieces, boundary.group(1).encode("latin-1"))


def first_part(peer: str, pieces: Iterator[bytes], boundary: bytes) -> Iterator[bytes]:
    """The first part of a multipart answer (RFC 2046), as it comes (AnswerError: not whole)."""
    buffer = bytearray()
    start = -1
    for piece in pieces:
        buffer += piece
        begin = buffer.find(b"--" + boundary)
        start = buffer.find(b"\r\n\r\n", begin) if begin >= 0 else -1
        if start >= 0:
            break
        if len(buffer) > MAX_PART_HEADERS:
            raise AnswerError(peer, "an image came as multipart without a part")
    if start < 0:
        raise AnswerError(peer, "an image did not come whole")
    del buffer[: start + 4]
    end = b"\r\n--" + boundary
    while (found := buffer.find(end)) < 0:
        keep = len(end) - 1
        if len(buffer) > keep:
            yield bytes(buffer[:-keep])
            del buffer[:-keep]
        piece = next(pieces, b"")
        if not piece:
            raise AnswerError(peer, "an image did not come whole")
        buffer += piece
    yield bytes(buffer[:found])
    for _ in pieces:  # so that the connection can be used again
        pass


def _items(answer: object, tag: str) -> list[Any]:
    element = answer.get(tag) if isinstance(answer, dict) else None
    values = element.get("Value") if isinstance(element, dict) else None
    return values if isinstance(values, list) else []


def _about_tls(error: BaseException | None) -> str:
    """What is wrong with TLS, where that is why a connection failed; else ""."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); name the hospital's "
            "authority as ca in the gateway's file, or have the certificate renewed"
        )
    reason = (error.reason or "").replace("_", " ").lower() if error is not None else ""
    return f"speaks no TLS that we do on this port ({reason}); see its url" if reason else ""


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
