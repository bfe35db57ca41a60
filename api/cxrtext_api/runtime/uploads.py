"""Uploaded images: decoded in separate processes, embedded together, remembered."""

import asyncio
import hashlib
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxrtext.datasets.admission import NEEDED
from cxrtext.datasets.admission.ids import IDS
from cxrtext.datasets.importing.formats.dicom import GROUP_ELEMENTS, groups_of
from cxrtext.images.dicom.described import Described
from cxrtext.images.dicom.file import is_dicom
from cxrtext.images.limits import MAX_PIXELS
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.models.familiar import Unlike
from cxrtext.service.answers import EmbeddedImage
from cxrtext.service.cache import Remembered
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import Batch, Engine
from cxrtext_api.runtime.scope import Budget, RequestScope
from cxrtext_api.runtime.work import Workers

if TYPE_CHECKING:
    from cxrtext.service import Service

T = TypeVar("T")
Pixels = NDArray[np.uint8]  # [H, W], as an image is shown and kept

DECODE_SECONDS = 10.0
"""CPU time that an upload may take; on the clock it may take three times as long."""

DECODE_BYTES = 2**30
"""Memory of each decoding process: twice what a detector's largest picture takes in color."""

PIXELS_HELD = 2 * MAX_PIXELS
"""Decoded pixels that all requests together may hold: two pictures of the largest size."""

REMEMBERED_IMAGES = 64
"""How many uploads to remember as embeddings, so that a second question is quick."""

IMAGES_AT_ONCE = 8  # more would take memory, and hardly be faster on a CPU

QUICK_BYTES = 2**18
"""Hashing an upload of this size takes less time than asking a thread to do it."""

UPLOAD = "The image"
"""The name of an uploaded image in errors; the caller's own file name can name a patient."""


class Upload(NamedTuple):
    data: bytes
    frame: int | None = None  # which one, from 0, if the file has several


class Uploads:
    """Decodes and embeds uploaded images; at most ``limit`` of them wait to be decoded."""

    def __init__(
        self, engine: Engine, readers: Workers, processes: int, limit: int, metrics: Metrics
    ) -> None:
        self._engine = engine
        self._pixels = Budget(PIXELS_HELD)
        self._readers = readers  # hash large uploads
        self._waiters = Workers("decode", processes, limit, metrics)  # a thread for each process
        self._decoders = ReaderPool(processes, seconds=DECODE_SECONDS, memory_bytes=DECODE_BYTES)
        self._known: Remembered[bytes, EmbeddedImage] = Remembered(REMEMBERED_IMAGES)
        self._at_work: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._batch: Batch[Any, Any] | None = None
        self._batch_of: Service | None = None

    def close(self) -> None:
        """End the processes and any decoding: nobody waits for it any more."""
        self._decoders.close()
        self._waiters.close()

    def forget(self) -> None:
        """Forget the images of recent questions, and the service that embedded them."""
        self._known.clear()
        self._batch = self._batch_of = None

    async def start(self, scope: RequestScope) -> None:
        """Start every process, so that no upload waits for one to start."""
        file = BytesIO()
        Image.new("L", (1, 1)).save(file, "PNG")
        smallest = file.getvalue()
        await asyncio.gather(
            *(self.view(scope, Upload(smallest)) for _ in range(self._decoders.workers))
        )

    async def describe(self, scope: RequestScope, data: bytes) -> Described | None:
        """Read what a DICOM header says of its object; None for other files."""
        if not is_dicom(data):
            return None
        elements = (*NEEDED, *IDS)
        return await self._waiters.run(
            scope, lambda: self._decoders.describe_bytes(data, UPLOAD, elements)
        )

    async def view(self, scope: RequestScope, upload: Upload, side: int | None = None) -> Pixels:
        """Decode an image for a viewer; see :meth:`ReaderPool.view_bytes`."""
        pixels = await self._waiters.run(
            scope,
            lambda: self._decoders.view_bytes(upload.data, UPLOAD, side, frame=upload.frame),
        )
        scope.take(self._pixels, pixels.nbytes)
        return pixels

    async def embed(self, scope: RequestScope, service: "Service", upload: Upload) -> EmbeddedImage:
        """Decode and embed an image, unless it is remembered from an earlier question."""
        return (await self._embed_once(scope, service, upload, whole=False))[0]

    async def embed_shown(
        self, scope: RequestScope, service: "Service", upload: Upload, side: int | None = None
    ) -> tuple[EmbeddedImage, Pixels]:
        """As :meth:`embed`, with the picture of :meth:`view` from the same decoding."""
        embedded, pixels = await self._embed_once(scope, service, upload, whole=True, side=side)
        return embedded, await self.view(scope, upload, side) if pixels is None else pixels

    async def _embed_once(
        self, scope: RequestScope, service: "Service", upload: Upload, **shown: Any
    ) -> tuple[EmbeddedImage, Pixels | None]:
        """An embedded image, and its pixels if they are asked for and it was not remembered."""
        # The key includes the model, as a running server may switch to another one.
        digest = service.model.fingerprint.encode() + await self._digest(scope, upload.data)
        digest += b"%d" % (upload.frame or 0)
        # The page asks several questions about an image at once; decode it only once.
        lock = self._at_work.setdefault(digest, asyncio.Lock())
        async with lock:
            known = self._known.use([digest])
            if known:
                return known[digest], None
            embedded, pixels = await self._embed(scope, service, upload, shown)
            self._known.keep({digest: embedded})
            return embedded, pixels

    async def _digest(self, scope: RequestScope, data: bytes) -> bytes:
        if len(data) <= QUICK_BYTES:
            return hashlib.sha256(data).digest()
        return await self._readers.run(scope, lambda: hashlib.sha256(data).digest())

    async def _embed(
        self, scope: RequestScope, service: "Service", upload: Upload, shown: Mapping[str, Any]
    ) -> tuple[EmbeddedImage, Pixels | None]:
        self._engine.enter(scope)  # before decoding it in vain
        square = service.model.spec.preprocessing

        def decode() -> tuple[ReadImage, Unlike | None, dict[str, str]]:
            read = self._decoders.prepare_bytes(
                upload.data, UPLOAD, square, frame=upload.frame, **shown
            )
            groups = {}
            if service.calibration is not None and is_dicom(upload.data):
                read_of = self._decoders.describe_bytes(upload.data, UPLOAD, GROUP_ELEMENTS)
                groups = groups_of(read_of)
            return read, service.familiar.of_squares([read.pixels], square)[0], groups

        read, unlike, groups = await self._waiters.run(scope, decode)
        if self._batch is None or self._batch_of is not service:
            self._batch_of = service
            self._batch = Batch("image", service.embed_squares, IMAGES_AT_ONCE)
        regions = await self._engine.do(scope, self._batch, read.pixels)
        pixels = None if read.whole is None else read.whole[0]
        scope.take(self._pixels, 0 if pixels is None else pixels.nbytes)
        size = read.height, read.width
        embedded = EmbeddedImage(regions, *size, read.placement, unlike, groups)
        return embedded, pixels
