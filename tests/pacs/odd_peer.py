"""A DICOMweb server that does what real ones do wrong, one fault at a time."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from socketserver import BaseRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pydicom.datadict
from pydicom import dcmread

Answer = tuple[int, dict[str, str], bytes]


class OddPeer:
    """Answers QIDO and WADO from objects in memory.

    Args:
        objects: DICOM files.
        cap: Most rows of an answer.
        ignores: Parameters that it does not look at ("offset", "StudyTime", "StudyDate").
        before: Called with each request's path and its number; an answer replaces the usual one.
    """

    def __init__(
        self,
        objects: Sequence[bytes],
        *,
        cap: int | None = None,
        ignores: Sequence[str] = (),
        before: Callable[[str, int], Answer | None] = lambda _path, _number: None,
    ) -> None:
        self.objects: dict[str, tuple[dict[str, Any], bytes]] = {}
        for data in objects:
            found = dcmread(BytesIO(data), stop_before_pixels=True)
            row = found.to_json_dict(suppress_invalid_tags=True)
            self.objects[found.SOPInstanceUID] = row, data
        self.cap, self.ignores, self.before = cap, ignores, before
        self.asked: list[str] = []

    def count(self, number: int) -> None:
        """Say that each study has so many objects."""
        for row, _ in self.objects.values():
            row["00201208"] = {"vr": "IS", "Value": [number]}

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Answer:
        self.asked.append(path)
        said = self.before(path, len(self.asked))
        if said is not None:
            return said
        parts = path.strip("/").split("/")[1:]
        if parts == ["studies"]:
            rows = {_value(row, "StudyInstanceUID"): row for row, _ in self.objects.values()}
            wanted = [row for row in rows.values() if self._matches(row, query)]
            return self._rows(wanted, query)
        if parts[-1] == "instances":
            every = (row for row, _ in self.objects.values())
            wanted = [row for row in every if _value(row, "StudyInstanceUID") == parts[1]]
            return self._rows(wanted, query)
        if len(parts) == 6 and parts[5] in self.objects:
            return multipart(self.objects[parts[5]][1])
        return 404, {}, b""

    def _matches(self, row: dict[str, Any], query: Mapping[str, list[str]]) -> bool:
        for name in ("StudyDate", "StudyTime", "AccessionNumber"):
            if name in query and name not in self.ignores:
                first, _, last = query[name][0].partition("-")
                if not first <= _value(row, name) <= (last or first):
                    return False
        return True

    def _rows(self, rows: list[dict[str, Any]], query: Mapping[str, list[str]]) -> Answer:
        offset = 0 if "offset" in self.ignores else int(query.get("offset", ["0"])[0])
        page = rows[offset:][: self.cap]
        return 200, {"Content-Type": "application/dicom+json"}, json.dumps(page).encode()


class Short(OddPeer):
    """Leaves the last row out of the next listings of the images of a study."""

    short = 0

    def _rows(self, rows: list[dict[str, Any]], query: Mapping[str, list[str]]) -> Answer:
        is_short = self.short > 0 and self.asked[-1].endswith("/instances")
        self.short -= is_short
        return super()._rows(rows[:-1] if is_short else rows, query)


def multipart(data: bytes) -> Answer:
    said = {"Content-Type": 'multipart/related; type="application/dicom"; boundary=edge'}
    head = b"--edge\r\nContent-Type: application/dicom\r\n\r\n"
    return 200, said, head + data + b"\r\n--edge--\r\n"


def _value(row: dict[str, Any], keyword: str) -> str:
    tag = pydicom.datadict.tag_for_keyword(keyword)
    return str((row.get(f"{tag:08X}", {}).get("Value") or [""])[0])


@contextmanager
def served(
    peer: OddPeer,
    seconds: float = 0.0,
    certificate: tuple[Path, Path] | None = None,
) -> Iterator[str]:
    """Serve it on loopback, each answer after some seconds; yields the address of its DICOMweb.

    Args:
        certificate: Its file and that of its key, for TLS.
    """

    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each body waits 40 ms for its head to be confirmed

        def do_GET(self) -> None:
            ended.wait(seconds)
            parts = urlsplit(self.path)
            status, headers, body = peer.answer(parts.path, parse_qs(parts.query))
            self.send_response(status)
            length = {"Content-Length": str(len(body))}
            for name, value in {**length, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    with http_server(Handler, context) as port:
        yield f"http{'' if context is None else 's'}://127.0.0.1:{port}/dicom-web"
        ended.set()


@contextmanager
def http_server(
    handler: type[BaseRequestHandler], context: ssl.SSLContext | None = None
) -> Iterator[int]:
    """The port of a server on loopback, which ends with the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
