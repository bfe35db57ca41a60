"""A served tiny model, and images of every kind to send to it."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image

from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import Engine
from cxrtext_api.runtime.scope import RequestScope
from cxrtext_api.settings import Settings
from tests.waiting import until


def wait_until_ready(client: TestClient) -> None:
    until(lambda: client.get("/readyz").status_code == 200)


@pytest.fixture
def skip_ahead(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Puts the clocks of event loops on by so many seconds."""
    ahead = 0.0

    def skip(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: time.monotonic() + ahead)
    return skip


@contextmanager
def serving(service: Service, settings: Settings | None = None) -> Iterator[Any]:
    """A client of a server that has a service; the type of its ``app`` does not say what it is."""
    app = create_app(settings or Settings(), lambda _: service)
    with TestClient(app, base_url="http://localhost") as client:
        wait_until_ready(client)
        yield client


@pytest.fixture
def service(model: ImageTextModel, index_folder: Path) -> Service:
    return Service(model, open_index(index_folder, model))


@pytest.fixture
def own_service(model: ImageTextModel, index_copy: Path) -> Service:
    return Service(model, open_index(index_copy, model))


@pytest.fixture(scope="module")
def client(model: ImageTextModel, index_folder: Path) -> Iterator[TestClient]:
    """A client of an untouched service; one to be changed comes from ``serving(service)``."""
    with serving(Service(model, open_index(index_folder, model))) as made:
        yield made


@pytest.fixture(scope="module")
def client_without_index(model: ImageTextModel) -> Iterator[TestClient]:
    with serving(Service(model)) as made:
        yield made


class Held:
    """Work that lasts until it is let go."""

    def __init__(self, work: Callable[..., Any] = lambda: "done") -> None:
        self.begun, self.go_on, self._work = threading.Event(), threading.Event(), work

    def __call__(self, *given: Any) -> Any:
        self.begun.set()
        assert self.go_on.wait(600)
        return self._work(*given)


class Clock:
    """Seconds that a test moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def engine_of(limit: int = 100, metrics: Metrics | None = None) -> Iterator[Engine]:
    engine = Engine(limit, metrics or Metrics())
    try:
        yield engine
    finally:
        engine.close()


async def busy(run: Callable[..., Awaitable[Any]], work: Held) -> "asyncio.Task[Any]":
    """A question whose work has begun, and lasts until it is let go."""
    question = asyncio.create_task(asked(run, work))
    await asyncio.to_thread(work.begun.wait, 600)
    return question


async def asked(
    run: Callable[..., Awaitable[Any]],
    *given: Any,
    seconds: float = 60,
    receive: Any = None,
    **options: Any,
) -> Any:
    """What a request of its own gets."""
    with RequestScope(seconds, receive) as scope:
        return await run(scope, *given, **options)


def grey_picture(height: int = 96, width: int = 80) -> NDArray[np.uint8]:
    """A bright lower left corner on grey noise; its whole range is used."""
    pixels = np.random.default_rng(3).integers(40, 90, (height, width)).astype(np.uint8)
    pixels[height // 2 :, : width // 2] += 130
    pixels[0, 0], pixels[0, 1] = 0, 255
    return pixels


def picture(content: bytes) -> NDArray[Any]:
    return np.asarray(Image.open(BytesIO(content)))


def drawn(seed: int, height: int = 90, width: int = 80) -> bytes:
    """A PNG of noise."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width)).astype(np.uint8)
    return as_file(pixels, "png")


def as_file(pixels: NDArray[Any], kind: str) -> bytes:
    """Pixels as the bytes of a PNG, JPEG or DICOM file."""
    if kind == "dicom":
        return as_dicom(pixels)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind)
    return buffer.getvalue()


def as_dicom(pixels: NDArray[Any], **elements: Any) -> bytes:
    """Pixels as a DICOM file with some elements; None leaves one out."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import UID, DigitalXRayImageStorageForPresentation, ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = DigitalXRayImageStorageForPresentation
    meta.MediaStorageSOPInstanceUID = UID("1.2.826.0.1.3680043.8.498.1")
    data = FileDataset("", {}, preamble=b"\0" * 128, file_meta=meta)
    data.SOPClassUID = meta.MediaStorageSOPClassUID
    data.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel = 1
    data.PhotometricInterpretation = "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit = 7
    data.PixelRepresentation = 0
    data.WindowCenter, data.WindowWidth = "128", "256"
    data.PixelData = pixels.tobytes()
    for keyword, value in elements.items():
        if value is not None:
            setattr(data, keyword, value)
    buffer = BytesIO()
    data.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def pixels() -> NDArray[np.uint8]:
    return grey_picture()


@pytest.fixture(scope="session")
def uploads(pixels: NDArray[np.uint8]) -> dict[str, bytes]:
    return {kind: as_file(pixels, kind) for kind in ("png", "jpeg", "dicom")}


@pytest.fixture(scope="session")
def png(uploads: dict[str, bytes]) -> bytes:
    return uploads["png"]


def check_problem(response: Any, status: int, detail: str = "") -> dict[str, Any]:
    """Check that an answer is a whole problem document; gives its body."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == "about:blank"
    assert body["status"] == status
    assert body["title"]
    assert detail in body["detail"]
    assert body["instance"] == f"urn:uuid:{response.headers['x-request-id']}"
    if status == 503:
        assert int(response.headers["retry-after"]) > 0
    assert set(body) <= {"type", "title", "status", "detail", "instance", "errors"}
    return body
