"""What the routes work with: the service once it is loaded, and the threads it runs on."""

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
from cxrtext_api.runtime.disk import Disk
from cxrtext_api.runtime.engine import Batch, Engine
from cxrtext_api.runtime.scope import Budget, Busy, NotReady, Receive, RequestScope
from cxrtext_api.runtime.uploads import Uploads
from cxrtext_api.runtime.work import Workers
from cxrtext_api.settings import Settings

if TYPE_CHECKING:
    from cxrtext.service import Service

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 2
"""For the archive; pictures have threads of their own, and so have uploads, that no search waits
for another's large image."""

DRAW_THREADS = 2

TURNS_AT_ONCE = 8
"""Sentences of several requests are embedded together, of as many tokens as so many turns take."""

HELD_SECONDS = 2.0  # how long an answer waits where another process commits a change of the index
SEEN_SECONDS = 0.05  # how long ago the index may have been looked at by another question
FOLLOW_SECONDS = 5.0  # how long after an attempt to follow an index comes the next
TRIAL_SECONDS = 1.0  # how long a disk may take to show whether it can be written

EXPORTS_AT_ONCE = 2
"""Exports that may be under way; each keeps some numbers of every image in memory."""

EXPORT_WAIT = 10  # seconds after which a caller may ask again for an export
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
    """Remove the files of a server that was killed, where images are added."""
    if settings.uploads is not None and settings.index is not None:
        with suppress(DataError), writing(settings.index):  # else whoever writes now does it
            pass


class Resources:
    """The service and its threads: some that read or draw images, one that runs the model.

    Uploads are decoded in processes of their own, which a hostile file may end without harm.
    ``load`` is called once, on a thread of its own.  With ``warm`` the processes that decode are
    started before it is ready, and not each when it is first needed.
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
        written = [one for one in (settings.index, settings.uploads) if one is not None]
        self._disk = None if settings.uploads is None else Disk(written)
        self._trial: asyncio.Future[str | None] | None = None
        self._wrong: str | None = None
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
        except Exception as error:  # noqa: BLE001 - whatever it is, readiness has to say so
            self.failure = error
            _log.error("cannot load: %s", _reason(error))
            if service is not None:
                service.close()
        finally:
            self.settled.set()

    def _take(self, service: "Service") -> None:
        self._service, self._sentences = service, None

    async def _turn(self, service: "Service") -> None:
        """Load what the index was turned to, and answer by it.

        Requests that have begun are answered by the old one, which goes when the last of them does.
        """
        try:
            new = await asyncio.to_thread(successor, service)
            if new is None:
                return
            with RequestScope(self.settings.request_seconds) as scope:
                await self.engine.call(scope, new.warm_up)
        except Exception as error:  # noqa: BLE001 - the old model answers on
            _log.error(
                "the index has turned to what cannot be loaded, and is answered by as it was: %s",
                _reason(error),
            )
            return
        self.uploads.forget()
        self._take(new)
        weakref.finalize(service, service.archive.close)
        _log.warning("answers by the model %s from now on", new.model.fingerprint[:12])

    def _begin_turn(self) -> None:
        """Follow an index that has turned to something else, one attempt at a time."""
        service, now = self._service, asyncio.get_running_loop().time()
        if service is None or now - self._followed_at < FOLLOW_SECONDS:
            return
        if self._follow is None or self._follow.done():
            self._followed_at = now
            self._follow = asyncio.create_task(self._turn(service))

    def batch_of(self, service: "Service") -> "Batch[Sequence[str], None]":
        """Embeds sentences of several requests together, by one service; it remembers them."""
        if self._sentences is None or self._sentences[0] is not service:

            def embed(several: Sequence[Sequence[str]]) -> list[None]:
                service.embed_sentences([sentence for some in several for sentence in some])
                return [None] * len(several)

            weight = TURNS_AT_ONCE * service.texts.turn
            self._sentences = service, Batch("text", embed, weight, service.texts.tokens)
        return self._sentences[1]

    async def close(self) -> None:
        """Finish what was accepted, then close the service."""
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

    async def see_index(self, *, now: bool = False) -> None:
        """Look at what other processes changed in the index, before a question wants it.

        However many ask, one of them looks, so that an index that a writer holds takes one thread
        for a while, and neither the model's nor every reader's.  With ``now`` a look of a moment
        ago will not do.
        """
        service, loop = self.service, asyncio.get_running_loop()
        if not service.has_index or (not now and loop.time() - self._seen_at < SEEN_SECONDS):
            return
        if self._look is None or self._look.done():
            self._look = loop.run_in_executor(self._looker, service.renew)
            self._look.add_done_callback(self._note_look)
        is_current = await asyncio.shield(self._look)
        # Where images were deleted, what was asked lately may be of the same people.
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

    async def writes(self) -> bool | None:
        """Whether what is added can be kept, tried every few seconds; None where nothing is."""
        if self._disk is None:
            return None
        if self._trial is None or self._trial.done():
            self._trial = asyncio.get_running_loop().run_in_executor(self._looker, self._disk.wrong)
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                wrong = await asyncio.shield(self._trial)
        except TimeoutError:
            wrong = "the disk does not answer"
        if wrong != self._wrong:
            if wrong is None:
                _log.warning("what is added can be kept again")
            else:
                _log.error("nothing can be added or deleted: %s; make room on the disk", wrong)
        self._wrong = wrong
        return wrong is None


def _reason(error: Exception) -> str:
    """An error as it is logged: what is not ours may quote a report or a file."""
    return str(error) if isinstance(error, CxrTextError) else type(error).__name__


class Session(RequestScope):
    """What one request works with; all that it took is given back when its answer begins.

    Every call of the work raises :class:`.Busy` where too much waits already, or where the answer
    is not wanted any more before it is there.
    """

    def __init__(self, resources: Resources, receive: Receive | None = None) -> None:
        super().__init__(resources.settings.request_seconds, receive)
        self._resources = resources
        self._service: Service | None = None
        self.settings = resources.settings
        self.ids, self.uploads = resources.ids, resources.uploads

    @property
    def service(self) -> "Service":
        """The loaded service, one for the whole request; :class:`.NotReady` where it is not."""
        if self._service is None:
            self._service = self._resources.service
        return self._service

    def end(self) -> None:
        """Give back all that it holds, and let go of the service.

        An idle connection keeps its last request, which is not to keep a model and an index that
        the server has turned from.
        """
        super().end()
        self._service = None

    async def see_index(self) -> None:
        await self._resources.see_index()

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads the archive, on a reader's thread."""
        return await self._resources.readers.run(self, function, *args, **kwargs)

    async def read_in_turns(self, work: Pausing[T]) -> T:
        """Do work that pauses, on a reader's thread, and no more of it than is wanted."""
        return await self._resources.readers.work(self, work)

    async def draw(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or draws pictures, which can be large."""
        return await self._resources.drawers.run(self, function, *args, **kwargs)

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the model, on the model's thread."""
        return await self._resources.engine.call(self, function, *args, **kwargs)

    async def work(self, work: Pausing[T]) -> T:
        """Do work that pauses, on the model's thread; others' questions go in between."""
        return await self._resources.engine.work(self, work)

    async def ensure_embedded(self, sentences: Sequence[str]) -> None:
        """Embed sentences with those of other requests; the questions that follow find them."""
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
        exports = self._resources.exports
        if not exports.take(1):
            raise Busy(EXPORT_WAIT)
        self.hold(exports, lambda: exports.give(1), lasting=True)
