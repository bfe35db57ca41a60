"""A corpus of hostile files and words: no crash, no 500, no leak, in bounded time.

The files go through every route that takes an image, the words into every field that takes words.
"""

import json
import logging
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from pydicom import dcmread
from pydicom.dataset import FileDataset
from pydicom.uid import UID, DeflatedExplicitVRLittleEndian, JPEGBaseline8Bit

from cxrtext.images import sandbox
from cxrtext.service import Service
from cxrtext_api.observe.logs import JsonFormatter
from cxrtext_api.settings import Settings
from tests.api.conftest import as_file, check_problem, serving

CANARY = "Xanthippe"
REFUSED = {400, 404, 413, 415, 422}
ROUTES: dict[str, dict[str, str]] = {
    "/v1/render": {},
    "/v1/classify": {},
    "/v1/ground": {"sentence": "Left pleural effusion."},
    "/v1/verify": {"report": "FINDINGS: Left pleural effusion."},
    "/v1/search": {},
}


def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def zeros(block: int, times: int) -> bytes:
    """Zeros, deflated: one block again and again, as to compress them all would take seconds."""
    packer = zlib.compressobj(9, wbits=-15)
    one = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    return one * times + b"\x03\0"


def zlibbed(block: int, times: int) -> bytes:
    checksum = block * times % 65_521 << 16 | 1
    return b"\x78\xda" + zeros(block, times) + struct.pack(">I", checksum)


def png_bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred kilobytes or less that unpacks to width times height pixels."""
    data = zlibbed(1 + width, min(height, 12_000)) if height else zlib.compress(b"")
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def text_bomb() -> bytes:
    """A small picture with compressed text that unpacks to 256 MB."""
    whole = as_file(np.zeros((8, 8), np.uint8), "png")
    return whole[:33] + chunk(b"zTXt", b"Comment\0\0" + zlibbed(2**20, 256)) + whole[33:]


def of_dicom(data: bytes, **elements: Any) -> bytes:
    """A DICOM file with other elements."""
    dataset = dcmread(BytesIO(data))
    syntax = elements.pop("syntax", None)
    for name, value in elements.items():
        setattr(dataset, name, value)
    if syntax is not None:
        dataset.file_meta.TransferSyntaxUID = UID(syntax)
    return saved(dataset)


def saved(dataset: FileDataset) -> bytes:
    buffer = BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def deflated_bomb(dicom: bytes) -> bytes:
    """A deflated data set that unpacks to 1.5 GB."""
    head = of_dicom(dicom, syntax=DeflatedExplicitVRLittleEndian)
    last = head.index(b"\x02\x00\x13\x00SH")
    start = last + 8 + head[last + 6]
    return head[:start] + zeros(2**24, 96)


def jpeg_of_other_size(jpeg: bytes, dicom: bytes) -> dict[str, bytes]:
    """JPEGs whose frame header lies, alone and within DICOM."""
    from pydicom.encaps import encapsulate

    place = jpeg.index(b"\xff\xc0") + 5
    lying = jpeg[:place] + struct.pack(">HH", 65_500, 65_500) + jpeg[place + 4 :]
    dataset = dcmread(BytesIO(dicom))
    dataset.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    dataset.PixelData = encapsulate([lying])
    dataset["PixelData"].VR = "OB"
    return {"a JPEG that lies": lying, "a DICOM with a JPEG that lies": saved(dataset)}


def mutants(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Copies with bytes changed, cut out or put in, mostly in the first kilobyte."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        mutant = bytearray(data)
        for _ in range(generator.integers(1, 6)):
            span = min(len(mutant), 1024 if generator.random() < 0.8 else len(mutant))
            place = int(generator.integers(132, max(133, span)))
            match generator.integers(4):
                case 0:
                    mutant[place : place + 1] = generator.bytes(1)
                case 1:
                    del mutant[place : place + int(generator.integers(1, 16))]
                case 2:
                    mutant[place:place] = generator.bytes(int(generator.integers(1, 16)))
                case _:
                    mutant[place : place + 4] = b"\xff\xff\xff\xff"
        yield bytes(mutant)


@pytest.fixture(scope="module")
def corpus(uploads: dict[str, bytes]) -> dict[str, bytes]:
    """Files none of which is a picture that can be shown."""
    png, jpeg, dicom = uploads["png"], uploads["jpeg"], uploads["dicom"]
    files = {
        "a bomb of 30,000 x 30,000": png_bomb(30_000, 30_000),
        "a bomb of 2,000,000,000 x 1": png_bomb(2_000_000_000, 0),
        "a deflated bomb": deflated_bomb(dicom),
        "a DICOM of 60,000 x 60,000": of_dicom(dicom, Rows=60_000, Columns=60_000),
        "a DICOM of many frames": of_dicom(dicom, NumberOfFrames="2000000000"),
        "a DICOM without pixels": of_dicom(dicom, PixelData=b""),
        "an unknown transfer syntax": dicom.replace(
            b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.9\0"
        ),
        "nothing": b"",
        "a script": b"<script>alert(1)</script>",
        "a page": b"<!DOCTYPE html><svg onload=alert(1)>",
        "a vector image": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="/etc/passwd"/>',
        "a PDF": b"%PDF-1.7\n1 0 obj",
        "a ZIP": b"PK\x03\x04" + bytes(100),
        "a pickle": b"\x80\x04cposix\nsystem\n(S'touch /tmp/owned'\ntR.",
        "an address": b"http://169.254.169.254/latest/meta-data",
        "a path": b"/etc/passwd",
        "a GIF": b"GIF89a\xff\xff\xff\xff" + bytes(50),
        "a TIFF": b"II*\x00\x08\x00\x00\x00" + b"\xff" * 40,
        "zeros": bytes(2**20),
        "half a PNG": png[: len(png) // 2],
        "half a JPEG": jpeg[: len(jpeg) // 2],
        "half a DICOM": dicom[: len(dicom) // 2],
        "the beginning of a DICOM": dicom[:140],
    }
    return files | jpeg_of_other_size(jpeg, dicom)


def ask(client: TestClient, path: str, data: bytes) -> Any:
    """Send a file and check that what comes back gives nothing away."""
    files = {"image": (f"{CANARY}.png", data)}
    response = client.post(path, files=files, data=ROUTES[path])
    assert CANARY not in response.text
    assert "Traceback" not in response.text
    assert "/site-packages/" not in response.text
    return response


def test_hostile_files_are_refused(client: TestClient, corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        response = ask(client, "/v1/render", data)
        assert response.status_code in REFUSED, name
        assert response.headers["content-type"] == "application/problem+json", name
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("path", [path for path in ROUTES if path != "/v1/render"])
def test_hostile_files_at_all_doors(
    client: TestClient, corpus: dict[str, bytes], path: str
) -> None:
    for name in ("a bomb of 30,000 x 30,000", "half a DICOM", "a script", "a JPEG that lies"):
        assert ask(client, path, corpus[name]).status_code in REFUSED, name
    assert client.get("/readyz").status_code == 200


def test_large_pictures_are_read_or_refused(client: TestClient) -> None:
    large = png_bomb(10_000, 10_000)
    assert len(large) < 2**20
    assert ask(client, "/v1/classify", large).status_code in {200, *REFUSED}
    assert ask(client, "/v1/render", png_bomb(12_000, 12_000)).status_code in REFUSED
    assert ask(client, "/v1/render", text_bomb()).status_code in {200, *REFUSED}


def test_mutants_of_a_dicom_file(client: TestClient, uploads: dict[str, bytes]) -> None:
    named = of_dicom(
        uploads["dicom"], PatientName=f"{CANARY}^A", PatientID=CANARY, StudyDescription=CANARY
    )
    statuses = [
        ask(client, "/v1/render", mutant).status_code for mutant in mutants(named, 100, seed=8)
    ]
    assert set(statuses) <= {200, 422}
    assert statuses.count(422) > 20
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_mutants_of_pictures(client: TestClient, uploads: dict[str, bytes], kind: str) -> None:
    for mutant in mutants(uploads[kind], 30, seed=9):
        assert ask(client, "/v1/render", mutant).status_code in {200, 422}


def test_a_reader_that_dies_is_the_files_fault(
    service: Service, monkeypatch: pytest.MonkeyPatch, png: bytes
) -> None:
    crash = (
        "import os, signal; import cxrtext.images.reader_pool as read; "
        "read.decode_image = lambda *_, **__: os.kill(os.getpid(), signal.SIGSEGV)"
    )
    before = sandbox._PROGRAM
    with serving(service) as client:
        monkeypatch.setattr(
            sandbox, "_PROGRAM", before.replace("from cxrtext", f"exec({crash!r}); from cxrtext", 1)
        )
        response = client.post("/v1/render", files={"image": (f"{CANARY}.png", png)})
        check_problem(response, 422, "SIGSEGV")
        monkeypatch.setattr(sandbox, "_PROGRAM", before)
        assert client.post("/v1/render", files={"image": png}).status_code == 200


IDS = [
    *("../../../etc/passwd", "/etc/passwd", "..%2f..%2fetc%2fpasswd"),
    *("images/../../images/s01.png", "images/s01.png\x00.txt", "file:///etc/passwd"),
    *("http://169.254.169.254/", "\\\\host\\share", "' OR 1=1 --", "a" * 4096),
    "\U0001f600" * 50,
]


ADDRESSES = [
    *("..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "/etc/passwd", "../../../../etc/passwd"),
    *("%00", "images/s01.png%00", "%ff%fe", "..%5c..%5c", "%2e%2e/%2e%2e"),
    *("images%2f..%2fimages%2fs01.png", "nowhere.png", ""),
    *("../app.py", "..%2fapp.py", "%2e%2e/app.py", "..%5capp.py", "app.py"),
]


def test_ids_that_point_elsewhere(client: TestClient) -> None:
    for name in IDS:
        response = client.post("/v1/render", data={"image_id": name})
        assert response.status_code in REFUSED, name
        assert "root:" not in response.text
    for name in ADDRESSES:
        for path in (f"/v1/images/{name}", f"/v1/images/{name}/rendered", f"/web/{name}"):
            response = client.get(path)
            check_problem(response, 404)
            assert "root:" not in response.text


WORDS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    '=HYPERLINK("http://evil.example")',
    "{{7*7}} ${7*7} %s %n %x",
    "\r\nSet-Cookie: stolen=1\r\n\r\n<html>",
    "\x00\x01\x02",
    "\u202egnp.exe \u200b",
    "'; DROP TABLE images; --",
    "1. " * 600,
    "..[111 111 111 111 111 111 111 111 111 111]",
    "((((((((((" * 150,
    "a" * 1990,
]


@pytest.mark.parametrize("words", WORDS)
def test_words_in_every_field(client: TestClient, words: str) -> None:
    known = {"image_id": "images/s01.png"}
    prompts = json.dumps({words: {"positive": [words], "negative": [words]}})
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/search", {"query": words}),
        ("/v1/search", {"query": "Edema.", "not": words}),
        ("/v1/search", {"query": "Edema.", "where": words}),
        ("/v1/search", {"query": "Edema.", "exclude_patient": words, "unique": words}),
        ("/v1/ground", {**known, "sentence": words}),
        ("/v1/ground", {**known, "sentence": "Edema.", "threshold": words}),
        ("/v1/verify", {**known, "report": words}),
        ("/v1/classify", {**known, "prompts": prompts}),
        ("/v1/classify", {**known, "prompts": words}),
        ("/v1/render", {"image_id": words}),
    ]
    for path, data in asked:
        response = client.post(path, data=data)
        assert response.status_code in {200, *REFUSED}, (path, response.text)
        kind = response.headers["content-type"]
        assert kind.startswith(("application/json", "application/problem+json", "image/png"))
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in response.headers
    for filters in ({"where": words}, {"limit": words}):
        assert client.get("/v1/images", params=filters).status_code in {200, *REFUSED}


def test_a_search_as_csv_cannot_forge_a_header_or_a_formula(client: TestClient) -> None:
    response = client.post(
        "/v1/search", data={"query": "=1+1\r\nX-Forged: 1"}, headers={"Accept": "text/csv"}
    )
    assert response.status_code == 200
    assert "x-forged" not in response.headers
    assert "\r" not in response.headers.get("content-disposition", "")
    for line in response.text.splitlines():
        assert not line.startswith(("=", "+", "@"))


@pytest.mark.parametrize(
    "name",
    ['a"; filename="b', "a\r\nX-Forged: 1", "../../../etc/passwd", "\x00", "a" * 5000, "<b>.png"],
)
def test_names_of_files_are_never_used(client: TestClient, png: bytes, name: str) -> None:
    response = client.post("/v1/render", files={"image": (name, png)})
    assert response.status_code in {200, 400}
    assert "x-forged" not in response.headers


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"Edema": ' + b"[" * 50_000,
        b'{"Edema": [1e999]}',
        b'{"Edema": {}, "Edema": {"positive": ["a"]}}',
        b'{"Edema": {"positive": ["\\ud800"], "negative": ["a"]}}',
        b"\xff\xfe\x00",
        b"NaN",
        b'{"__proto__": {}}',
    ],
)
def test_hostile_json(client: TestClient, body: bytes) -> None:
    prompts = client.post("/v1/classify", data={"image_id": "images/s01.png", "prompts": body})
    assert prompts.status_code in {400, 413, 422}


def test_canaries_reach_no_log_metric_error_or_stream(
    service: Service,
    uploads: dict[str, bytes],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    named = of_dicom(
        uploads["dicom"], PatientName=f"{CANARY}^A", PatientID=CANARY, StudyDescription=CANARY
    )
    broken = [
        of_dicom(named, Rows=9),
        of_dicom(named, WindowWidth="0"),
        *mutants(named, 10, seed=3),
    ]
    audit = tmp_path / "audit.log"
    caplog.set_level(logging.DEBUG)
    told = ""
    with serving(service, Settings(audit_log=audit)) as client:
        for data in (named, *broken):
            told += ask(client, "/v1/verify", data).text
            told += ask(client, "/v1/classify", data).text
        for text in (f"FINDINGS: {CANARY} has an effusion.", CANARY * 2000):
            known = {"image_id": "images/s01.png"}
            client.post("/v1/verify", data={**known, "report": text})  # it gives the report back
            told += client.post("/v1/ground", data={**known, "sentence": text}).text
            told += client.post("/v1/search", data={"query": text, "where": text}).text
        told += client.get("/metrics").text
    streams = capfd.readouterr()
    ours = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore", "asyncio"))]
    formatter = JsonFormatter()
    told += "\n".join(formatter.format(record) for record in ours)
    told += streams.out + streams.err + audit.read_text()
    assert CANARY.lower() not in told.lower()
    assert '"route": "/v1/verify"' in audit.read_text()
