"""What the routes work with: the service once it is loaded, and the threads it runs on."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from cxrtext.errors import CxrTextError, ImageError
from cxrtext.images.isolated import ReaderPool
from cxrtext_api.problems import NotReady
from cxrtext_api.settings import Settings
from cxrtext_api.workers import Workers

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.service import Image

P = ParamSpec("P")
T = TypeVar("T")

DECODE_THREADS = 2
DECODE_SECONDS = 10.0
"""Computing time that an upload may take; on the clock it may take three times as long."""

REMEMBERED_IMAGES = 64
"""How many uploads are remembered as embeddings, so that a second question is quick."""

UPLOAD = "The image"
"""What an uploaded image is called in errors; the caller's own file name can name a patient."""

_log = logging.getLogger("cxrtext_api")

LoadService = Callable[[Settings], "Service"]


def load_from_settings(settings: Settings) -> "Service":
    """Load the model and the index that the settings name."""
    from cxrtext.service import load_service

    return load_service(settings.checkpoint, settings.index, device=settings.device)


class Resources:
    """The service and its threads: two that read or draw images, one that runs the model.

    Uploads are decoded in processes of their own, which a hostile file may end without harm.

    Args:
        settings: The server's settings.
        load: Loads the service; called once, on a thread of its own.
    """

    def __init__(self, settings: Settings, load: LoadService = load_from_settings) -> None:
        self.settings = settings
        self.settled = asyncio.Event()
        self.failure: Exception | None = None
        self._load = load
        self._service: Service | None = None
        self._loading: asyncio.Task[None] | None = None
        self._readers = Workers("read", DECODE_THREADS, settings.queue_limit)
        self._decoders = ReaderPool(DECODE_THREADS, seconds=DECODE_SECONDS)
        self._model = Workers("model", 1, settings.queue_limit)
        self._embedded: OrderedDict[bytes, EmbeddedImage] = OrderedDict()

    @property
    def service(self) -> "Service":
        """The loaded service.

        Raises:
            NotReady: It is not loaded.
        """
        if self._service is None:
            raise NotReady(
                "The model could not be loaded; see the server's log."
                if self.failure
                else "The model is being loaded; try again in a moment."
            )
        return self._service

    def open(self) -> None:
        """Begin to load the service."""
        self._loading = asyncio.create_task(self._open())

    async def _open(self) -> None:
        try:
            self._service = await asyncio.to_thread(self._load, self.settings)
        except Exception as error:  # noqa: BLE001 - whatever it is, readiness has to tell
            self.failure = error
            known = isinstance(error, CxrTextError)
            _log.error("cannot load: %s", error if known else type(error).__name__)
        finally:
            self.settled.set()

    async def close(self) -> None:
        """Wait for what is running, then close the service."""
        if self._loading is not None:
            await self._loading
        self._decoders.close()
        self._readers.close()
        self._model.close()
        if self._service is not None:
            self._service.close()

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or draws, on a reader's thread."""
        return await self._readers.run(function, *args, **kwargs)

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the model, on the model's thread."""
        return await self._model.run(function, *args, **kwargs)

    async def embed_upload(self, data: bytes) -> "EmbeddedImage":
        """Decode and embed an uploaded image, or remember it from its last question."""
        digest = await self.read(lambda: hashlib.sha256(data).digest())
        if digest in self._embedded:
            self._embedded.move_to_end(digest)
            return self._embedded[digest]
        pixels = await self.decode_upload(data)
        embedded = await self.compute(self.service.embed, pixels)
        self._embedded[digest] = embedded
        if len(self._embedded) > REMEMBERED_IMAGES:
            self._embedded.popitem(last=False)
        return embedded

    async def decode_upload(self, data: bytes) -> "Image":
        """Decode an uploaded image."""
        try:
            return await self.read(self._decoders.read_bytes, data, UPLOAD)
        except ImageError as error:
            raise ImageError(str(error).replace(f"{UPLOAD}:", UPLOAD, 1)) from None
