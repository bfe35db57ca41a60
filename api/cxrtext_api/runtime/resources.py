"""What the routes work with: the service, once it is loaded, and its threads."""

import asyncio
import logging
import math
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.errors import CxrTextError, DataError
from cxrtext.evaluation import read_prompts
from cxrtext.index.store.writer import writing
from cxrtext.pausing import Pausing
from cxrtext.service import load_service, successor
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.engine import Batch, Engine
from cxrtext_api.runtime.scope import Budget, NotReady, Receive, RequestScope
from cxrtext_api.runtime.uploads import Uploads
from cxrtext_api.runtime.work import Workers
from cxrtext_api.settings import Settings

if TYPE_CHECKING:
    from cxrtext.service import Service

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 2
"""For the archive; pictures and uploads have their own threads, so that no search waits for another
request's large image."""

DRAW_THREADS = 2

TURNS_AT_ONCE = 8
"""How many turns' worth of tokens to embed together, from several requests."""

HELD_SECONDS = 2.0  # how long an answer waits while another process commits a change of the index
SEEN_SECONDS = 0.05  # how long another question's look at the index is good for
FOLLOW_SECONDS = 5.0  # between attempts to follow an index

EXPORTS_AT_ONCE = 2
"""How many exports may run at once; each keeps some numbers of every image in memory."""
_log = logging.getLogger("cxrtext_api")
LoadService = Callable[[Settings], "Service"]


def load_from_settings(settings: Settings) -> "Service":
    from cxrtext.device import choose_device

    open_uploads(settings)
    return load_service(
        settings.checkpoint,
        settings.index,
        prompts=None if settings.prompts is None else read_prompts(settings.prompts),
        device=str(choose_device(settings.device)),
        wait_s=HELD_SECONDS,
    )


def open_uploads(settings: Settings) -> None:
    """If images may be added, remove what a killed server left."""
    if settings.uploads is not None and settings.index is not None:
        with suppress(DataError), writing(settings.index):  # if another process writes, it does so
            pass


class Resources:
    """The service and its threads: some read or draw images, one runs the model.

    Uploads are decoded in separate processes, so a hostile file does no harm if it ends one.
    ``load`` is called once, on its own thread.  With ``warm``, the decoding processes start before
    the server is ready, instead of when they are first needed.
    """

    def __init__(
        self, settings: Settings, metrics: Metrics, load: LoadService, *, warm: bool = False
    ) -> None:
        self.settings = settings
        self.ids = Ids(None if settings.hash_ids is None else read_key(settings.hash_ids))
        self.settled = asyncio.Event()
        self.failure: Exception | None = None
        limit = settings.queue_limit
        self.readers = Workers("read", READ_THREADS, limit, metrics)
        self.drawers = Workers("draw", DRAW_THREADS, limit, metrics)
        self.engine = Engine(limit, metrics)
        self.uploads = Uploads(self.engine, self.readers, settings.readers, limit, metrics)
        self._sentences: tuple[Service, Batch[Sequence[str], None]] | None = None
        self.exports = Budget(EXPORTS_AT_ONCE)
        self._load, self._warm = load, warm
        self._service: Service | None = None
        self._loading: asyncio.Task[None] | None = None
        self._looker = ThreadPoolExecutor(2, thread_name_prefix="look")
        self._look: asyncio.Future[Any] | None = None
        self._seen_at = -math.inf
        self._follow: asyncio.Task[None] | None = None
        self._followed_at = -math.inf
        self._deletions: str | None = None

    @property
    def is_ready(self) -> bool:
        return self._service is not None

    @property
    def service(self) -> "Service":
        if self._service is None:
            raise NotReady(
                "The model could not be loaded; see the server's log."
                if self.failure
                else "The model is being loaded; try again in a moment."
            )
        return self._service

    def open(self) -> None:
        self._loading = asyncio.create_task(self._open())

    async def _open(self) -> None:
        service: Service | None = None
        try:
            service = await asyncio.to_thread(self._load, self.settings)
            with RequestScope(self.settings.request_seconds) as scope:
                await self.engine.call(scope, service.warm_up)
                if self._warm:
                    await self.uploads.start(scope)
            self._take(service)
        except Exception as error:  # noqa: BLE001 - readiness must report any failure
            self.failure = error
            _log.error("cannot load: %s", _reason(error))
            if service is not None:
                service.close()
        finally:
            self.settled.set()

    def _take(self, service: "Service") -> None:
        self._service, self._sentences = service, None

    async def _turn(self, service: "Service") -> None:
        """Load the model that the index has switched to, and use it for new requests.

        Running requests keep the old service, which is closed when the last of them ends.
        """
        try:
            new = await asyncio.to_thread(successor, service)
            if new is None:
                return
            with RequestScope(self.settings.request_seconds) as scope:
                await self.engine.call(scope, new.warm_up)
        except Exception as error:  # noqa: BLE001 - the old model continues
            _log.error(
                "the index has a new model that cannot be loaded; the old one stays in use: %s",
                _reason(error),
            )
            return
        self.uploads.forget()
        self._take(new)
        weakref.finalize(service, service.archive.close)
        _log.warning("answers with the model %s from now on", new.model.fingerprint[:12])

    def _begin_turn(self) -> None:
        """Follow an index that has a new model, one attempt at a time."""
        service, now = self._service, asyncio.get_running_loop().time()
        if service is None or now - self._followed_at < FOLLOW_SECONDS:
            return
        if self._follow is None or self._follow.done():
            self._followed_at = now
            self._follow = asyncio.create_task(self._turn(service))

    def batch_of(self, service: "Service") -> "Batch[Sequence[str], None]":
        """A batch that embeds sentences of several requests with a service, which keeps them."""
        if self._sentences is None or self._sentences[0] is not service:

            def embed(several: Sequence[Sequence[str]]) -> list[None]:
                service.embed_sentences([sentence for some in several for sentence in some])
                return [None] * len(several)

            weight = TURNS_AT_ONCE * service.texts.turn
            self._sentences = service, Batch("text", embed, weight, service.texts.tokens)
        return self._sentences[1]

    async def close(self) -> None:
        """Finish accepted work, then close the service."""
        if self._loading is not None:
            await self._loading
        if self._follow is not None:
            await self._follow
        for close in (
            self.engine.close,
            self.readers.close,
            self.drawers.close,
            self.uploads.close,
            self._looker.shutdown,
        ):
            await asyncio.to_thread(close)
        if self._service is not None:
            self._service.close()

    async def see_index(self) -> None:
        """See what other processes changed in the index before a question uses it.

        Only one request at a time looks, so that waiting for a writer takes a single thread, not
        the model's or every reader's.
        """
        service, loop = self.service, asyncio.get_running_loop()
        if not service.has_index or loop.time() - self._seen_at < SEEN_SECONDS:
            return
        if self._look is None or self._look.done():
            self._look = loop.run_in_executor(self._looker, service.renew)
            self._look.add_done_callback(self._note_look)
        is_current = await asyncio.shield(self._look)
        # After deletions, forget recent questions: they may be about the same people.
        deletions = service.archive.snapshot.meta.get("deletions")
        if self._deletions not in (None, deletions):
            self.uploads.forget()
            service.texts.clear()
        self._deletions = deletions
        if not is_current:
            self._begin_turn()

    def _note_look(self, look: "asyncio.Future[Any]") -> None:
        if not look.cancelled() and look.exception() is None:
            self._seen_at = look.get_loop().time()


def _reason(error: Exception) -> str:
    """An error for the log; the messages of others' errors may quote a report or a file."""
    return str(error) if isinstance(error, CxrTextError) else type(error).__name__


class Session(RequestScope):
    """What one request works with; it gives everything back when its answer begins.

    Calls that do work raise :class:`.Busy` if too much waits already, or if nobody waits for the
    answer any more.
    """

    def __init__(self, resources: Resources, receive: Receive | None = None) -> None:
        super().__init__(resources.settings.request_seconds, receive)
        self._resources = resources
        self._service: Service | None = None
        self.settings = resources.settings
        self.ids, self.uploads = resources.ids, resources.uploads

    @property
    def service(self) -> "Service":
        """The loaded service, the same for the whole request (:class:`.NotReady`)."""
        if self._service is None:
            self._service = self._resources.service
        return self._service

    def end(self) -> None:
        """Give back everything, and let go of the service.

        An idle connection keeps its last request, which must not keep an old model and index.
        """
        super().end()
        self._service = None

    async def see_index(self) -> None:
        await self._resources.see_index()

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads the archive, on a reader's thread."""
        return await self._resources.readers.run(self, function, *args, **kwargs)

    async def draw(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or draws pictures, which can be large."""
        return await self._resources.drawers.run(self, function, *args, **kwargs)

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the model, on the model's thread."""
        return await self._resources.engine.call(self, function, *args, **kwargs)

    async def work(self, work: Pausing[T]) -> T:
        """Do pausing work on the model's thread, with other questions in between."""
        return await self._resources.engine.work(self, work)

    async def ensure_embedded(self, sentences: Sequence[str]) -> None:
        """Embed sentences together with those of other requests, for later questions to use."""
        service, resources = self.service, self._resources
        if service.texts.has(sentences):
            return
        batch, engine = resources.batch_of(service), resources.engine
        if service.texts.tokens(sentences) <= service.texts.turn:
            await engine.do(self, batch, tuple(sentences))
            return
        for turn in await engine.call(self, service.texts.turns, sentences):
            await engine.do(self, batch, tuple(turn))

    def hold_export(self) -> None:
        """Count an export until its table has been sent."""
        self.take(self._resources.exports, 1)
