"""Uploaded images: decoded in processes of their own, embedded together, remembered."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext_api.batch import Batch
from cxrtext_api.engine import Engine
from cxrtext_api.workers import Workers

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.answers import Image as Pixels

T = TypeVar("T")

DECODE_SECONDS = 10.0
"""Computing time that an upload may take; on the clock it may take three times as long."""

REMEMBERED_IMAGES = 64
"""How many uploads are remembered as embeddings, so that a second question is quick."""

IMAGES_AT_ONCE = 8
"""More would hardly be quicker on a CPU, and take memory."""

QUICK_BYTES = 2**18
"""An upload of this size is digested in less time than it takes to ask a thread to."""

UPLOAD = "The image"
"""What an uploaded image is called in errors; the caller's own file name can name a patient."""


def smallest_image() -> bytes:
    """A PNG of one grey pixel."""
    file = BytesIO()
    Image.new("L", (1, 1)).save(file, "PNG")
    return file.getvalue()


class Uploads:
    """What is made of uploaded images.

    Args:
        model: Embeds them.
        readers: Threads that digest large ones.
        waiters: Threads that wait for the processes which decode.
        processes: How many of these there are.
    """

    def __init__(self, model: Engine, readers: Workers, waiters: Workers, processes: int) -> None:
        self._model = model
        self._readers = readers
        self._waiters = waiters
        self._decoders = ReaderPool(processes, seconds=DECODE_SECONDS)
        self._known: OrderedDict[bytes, EmbeddedImage] = OrderedDict()
        self._at_work: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._batch: Batch[Any, Any] | None = None

    def close(self) -> None:
        """End the processes, and what is still being decoded: nobody waits for it any more."""
        self._decoders.close()
        self._waiters.close()

    async def start(self) -> None:
        """Start every process, so that no upload waits for its own.

        Raises:
            WorkError: None can be started.
        """
        image = smallest_image()
        await asyncio.gather(*(self.decode(image) for _ in range(self._decoders.workers)))

    async def decode(self, data: bytes) -> "Pixels":
        """Decode an image.

        Returns:
            [1, H, W], in [0, 1].

        Raises:
            ImageError: It cannot be read; the message does not hold its name.
        """
        return await self._decoded(lambda: self._decoders.read_bytes(data, UPLOAD))

    async def embed(self, service: "Service", data: bytes) -> "EmbeddedImage":
        """Decode and embed an image; one that is known is remembered.

        Raises:
            ImageError: As of :meth:`decode`.
        """
        digest = await self._digest(data)
        # Questions to one image that come together, as the page asks them, decode it once.
        lock = self._at_work.setdefault(digest, asyncio.Lock())
        async with lock:
            if digest not in self._known:
                self._known[digest] = await self._embed(service, data)
                if len(self._known) > REMEMBERED_IMAGES:
                    self._known.popitem(last=False)
            self._known.move_to_end(digest)
            return self._known[digest]

    async def _digest(self, data: bytes) -> bytes:
        if len(data) <= QUICK_BYTES:
            return hashlib.sha256(data).digest()
        return await self._readers.run(lambda: hashlib.sha256(data).digest())

    async def _embed(self, service: "Service", data: bytes) -> "EmbeddedImage":
        from cxrtext.service import EmbeddedImage

        leave = self._model.enter()  # before it is decoded for nothing
        try:
            square = service.model.spec.preprocessing
            read: ReadImage = await self._decoded(
                lambda: self._decoders.prepare_bytes(data, UPLOAD, square)
            )
            if self._batch is None:
                self._batch = Batch("image", service.embed_squares, IMAGES_AT_ONCE)
            regions = await self._model.do(self._batch, read.pixels)
            return EmbeddedImage(regions, read.height, read.width)
        finally:
            leave()

    async def _decoded(self, decode: Callable[[], T]) -> T:
        try:
            return await self._waiters.run(decode)
        except ImageError as error:
            raise ImageError(str(error).replace(f"{UPLOAD}:", UPLOAD, 1)) from None
