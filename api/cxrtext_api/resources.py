"""What the routes work with: the service once it is loaded, and the threads it runs on."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from cxrtext.errors import CxrTextError
from cxrtext_api import metrics
from cxrtext_api.asking import CURRENT, Asking, Busy, Receive
from cxrtext_api.batch import Batch
from cxrtext_api.engine import Engine
from cxrtext_api.places import Budget
from cxrtext_api.problems import NotReady
from cxrtext_api.settings import Settings
from cxrtext_api.uploads import Uploads
from cxrtext_api.watch import Watch
from cxrtext_api.workers import Workers

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.answers import Image

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 2
"""For the archive, and for drawing; decoding has threads of its own, that none waits for another's
large upload."""

SENTENCES_AT_ONCE = 64
"""Requests whose sentences are embedded together."""

UPLOADS_HELD = 4
"""Bodies of the largest size that may be in memory at a time."""

_log = logging.getLogger("cxrtext_api")

LoadService = Callable[[Settings], "Service"]


def load_from_settings(settings: Settings) -> "Service":
    """Load the model and the index that the settings name."""
    from cxrtext.evaluation import read_prompts
    from cxrtext.service import load_service

    return load_service(
        settings.checkpoint,
        settings.index,
        prompts=None if settings.prompts is None else read_prompts(settings.prompts),
        language_model=settings.language_model,
        device=settings.device,
    )


class Resources:
    """The service and its threads: some that read or draw images, one that runs the model.

    Uploads are decoded in processes of their own, which a hostile file may end without harm.

    Args:
        settings: The server's settings.
        load: Loads the service; called once, on a thread of its own.
        warm: Whether the processes that decode are started before it is ready, and not each when
            it is first needed.
    """

    def __init__(
        self, settings: Settings, load: LoadService = load_from_settings, *, warm: bool = False
    ) -> None:
        self.settings = settings
        self._warm = warm
        self.settled = asyncio.Event()
        self.failure: Exception | None = None
        self._load = load
        self._service: Service | None = None
        self._loading: asyncio.Task[None] | None = None
        watch = Watch(metrics.observe_stage, metrics.observe_batch, metrics.set_queue)
        limit, seconds = settings.queue_limit, settings.request_seconds
        self._readers = Workers("read", READ_THREADS, limit, seconds, watch)
        self._model = Engine(limit, seconds, watch)
        decoders = Workers("decode", settings.readers, limit, seconds, watch)
        self._uploads = Uploads(self._model, self._readers, decoders, settings.readers)
        self._sentences = Batch("text", self._embed_sentences, SENTENCES_AT_ONCE)
        self._bytes = Budget(UPLOADS_HELD * settings.max_body_bytes)

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
        # Threads of OpenMP that wait must not take the cores from those that decode and answer;
        # it is read when torch is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        service: Service | None = None
        try:
            service = await asyncio.to_thread(self._load, self.settings)
            await self._model.call(service.warm_up)
            if self._warm:
                await self._uploads.start()
            self._service = service
        except Exception as error:  # noqa: BLE001 - whatever it is, readiness has to tell
            self.failure = error
            known = isinstance(error, CxrTextError)
            _log.error("cannot load: %s", error if known else type(error).__name__)
            if service is not None:
                service.close()
        finally:
            self.settled.set()

    async def close(self) -> None:
        """Finish what was accepted, then close the service."""
        if self._loading is not None:
            await self._loading
        await asyncio.to_thread(self._model.close)
        await asyncio.to_thread(self._readers.close)
        await asyncio.to_thread(self._uploads.close)
        if self._service is not None:
            self._service.close()

    def ask(self, receive: Receive) -> Asking:
        """Begin to answer a request.

        Args:
            receive: Gives the messages of its connection, its body being read.
        """
        request = Asking(self.settings.request_seconds, receive)
        request.current = True
        return request

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or draws, on a reader's thread.

        Raises:
            Busy: Too many wait, or the answer is not wanted any more before it is there.
        """
        return await self._readers.run(function, *args, **kwargs)

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the model, on the model's thread.

        Raises:
            Busy: As of :meth:`read`.
        """
        return await self._model.call(function, *args, **kwargs)

    async def know(self, sentences: Sequence[str]) -> None:
        """Embed sentences together with those of other requests.

        The questions that follow find them in the service's memory.

        Raises:
            InputError: A sentence is empty or too long.
            Busy: As of :meth:`read`.
        """
        if not self.service.knows(sentences):
            await self._model.do(self._sentences, tuple(sentences))

    def _embed_sentences(self, several: Sequence[Sequence[str]]) -> list[None]:
        self.service.embed_sentences([sentence for some in several for sentence in some])
        return [None] * len(several)

    def hold_bytes(self, size: int) -> None:
        """Count the bytes of an upload until its request is answered.

        Raises:
            Busy: There are too many in memory already.
        """
        request = CURRENT.get()
        if request is None:
            return
        if not self._bytes.take(size):
            raise Busy
        request.hold(object(), lambda: self._bytes.give(size))

    async def embed_upload(self, data: bytes) -> "EmbeddedImage":
        """Decode and embed an uploaded image, or remember it from its last question."""
        return await self._uploads.embed(self.service, data)

    async def decode_upload(self, data: bytes) -> "Image":
        """Decode an uploaded image."""
        return await self._uploads.decode(data)
