"""What the routes work with: the service once it is loaded, and the threads it runs on."""

import asyncio
import logging
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from cxrtext.errors import CxrTextError
from cxrtext.pausing import Pausing, once
from cxrtext_api import metrics
from cxrtext_api.asking import CURRENT, Asking, Busy, Receive
from cxrtext_api.batch import Batch
from cxrtext_api.disk import Disk
from cxrtext_api.engine import Engine
from cxrtext_api.places import Budget
from cxrtext_api.problems import NotReady
from cxrtext_api.settings import Settings
from cxrtext_api.uploads import Uploads
from cxrtext_api.watch import Watch
from cxrtext_api.workers import Workers

if TYPE_CHECKING:
    from cxrtext.language import SentenceScores
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.answers import Image

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 2
"""For the archive; pictures have threads of their own, and so have uploads, that no search waits
for another's large image."""

DRAW_THREADS = 2

TURNS_AT_ONCE = 8
"""Sentences of several requests are embedded together, of as many tokens as this many turns take;
one request's that take longer stand back where questions come."""

QUESTIONS_SCORED = 2
"""Questions of the largest size whose sentences may be scored at a time; the rest are turned away
before they cost anything."""

SHARES = 1024
"""Parts that the largest of them is counted in; a small one counts as 32 at least."""

HELD_SECONDS = 2.0
"""How long an answer waits where another process commits a change of the index."""

SEEN_SECONDS = 0.05
"""How long ago the index may have been looked at by another question."""

TRIAL_SECONDS = 1.0
"""How long a disk may take to tell whether it can be written."""

UPLOADS_HELD = 4
"""Bodies of the largest size that may be in memory at a time."""

EXPORTS_AT_ONCE = 2
"""Exports that may be under way; each keeps some numbers of every image in memory."""

EXPORT_WAIT = 10
"""Seconds after which a caller may ask again for an export."""

_log = logging.getLogger("cxrtext_api")

LoadService = Callable[[Settings], "Service"]


def load_from_settings(settings: Settings) -> "Service":
    """Load the model and the index that the settings name."""
    from cxrtext.evaluation import read_prompts
    from cxrtext.service import load_service
    from cxrtext_api.adding import open_uploads

    open_uploads(settings)
    return load_service(
        settings.checkpoint,
        settings.index,
        prompts=None if settings.prompts is None else read_prompts(settings.prompts),
        language_model=settings.language_model,
        device=settings.device,
        wait_s=HELD_SECONDS,
    )


def _kept_in(settings: Settings) -> list[Path]:
    """Folders that are written when an image is added or deleted."""
    index = settings.index
    folders = [index] if isinstance(index, Path) else list(index or ())
    return [*folders, *([settings.uploads] if settings.uploads is not None else [])]


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
        self._looker = ThreadPoolExecutor(2, thread_name_prefix="look")
        self._disk = None if settings.uploads is None else Disk(_kept_in(settings))
        self._trial: asyncio.Future[str | None] | None = None
        self._wrong: str | None = None
        self._drawers = Workers("draw", DRAW_THREADS, limit, seconds, watch)
        self._model = Engine(limit, seconds, watch)
        decoders = Workers("decode", settings.readers, limit, seconds, watch)
        self._uploads = Uploads(self._model, self._readers, decoders, settings.readers)
        self._sentences: Batch[Sequence[str], None] | None = None
        self._look: asyncio.Future[Any] | None = None
        self._seen_at = -math.inf
        self._scored = Budget(QUESTIONS_SCORED * SHARES)
        self._exports = Budget(EXPORTS_AT_ONCE)
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
        await asyncio.to_thread(self._drawers.close)
        await asyncio.to_thread(self._uploads.close)
        await asyncio.to_thread(self._looker.shutdown)
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
        """Call a function that reads the archive, on a reader's thread.

        Raises:
            Busy: Too many wait, or the answer is not wanted any more before it is there.
        """
        return await self._readers.run(function, *args, **kwargs)

    async def draw(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or draws pictures, which can be large.

        Raises:
            Busy: As of :meth:`read`.
        """
        return await self._drawers.run(function, *args, **kwargs)

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the model, on the model's thread.

        Raises:
            Busy: As of :meth:`read`.
        """
        return await self._model.call(function, *args, **kwargs)

    async def work(self, work: Pausing[T]) -> T:
        """Do work that pauses, on the model's thread; others' questions go in between.

        Raises:
            Busy: As of :meth:`read`; the work has then ended, or ends at its next pause.
        """
        return await self._model.work(work)

    async def see_index(self, *, now: bool = False) -> None:
        """Look at what other processes changed in the index, before a question wants it.

        However many ask, one of them looks, so that an index that a writer holds takes one thread
        for a while, and neither the model's nor every reader's.

        Args:
            now: Whether a look of a moment ago will not do.

        Raises:
            HeldError: A writer holds it.
            Busy: As of :meth:`read`.
        """
        service, loop = self.service, asyncio.get_running_loop()
        if not service.has_index or (not now and loop.time() - self._seen_at < SEEN_SECONDS):
            return
        if self._look is None or self._look.done():
            self._look = loop.run_in_executor(self._looker, service.archive.snapshots)
            self._look.add_done_callback(self._note_look)
        await asyncio.shield(self._look)

    def _note_look(self, look: "asyncio.Future[Any]") -> None:
        if not look.cancelled() and look.exception() is None:
            self._seen_at = look.get_loop().time()

    async def writes(self) -> bool | None:
        """Whether what is added can be kept; None where nothing is.

        It is tried at most every few seconds, and one line of the log says where it changed.
        """
        if self._disk is None:
            return None
        if self._trial is None or self._trial.done():
            trial = asyncio.get_running_loop().run_in_executor(self._looker, self._disk.wrong)
            self._trial = trial
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

    async def read_in_turns(self, work: Pausing[T]) -> T:
        """Do work that pauses, on a reader's thread, and no more of it than is wanted.

        Raises:
            Busy: As of :meth:`read`.
        """
        return await self._readers.work(work)

    async def score(self, sentences: Sequence[str]) -> "SentenceScores":
        """Score sentences while nobody else has a question, or in a fifth of the time.

        Raises:
            UnavailableError: There is no language model.
            InputError: They would take too long.
            Busy: Too many are being scored already; or as of :meth:`read`.
        """
        from cxrtext.service.limits import MAX_MULTIPLICATIONS

        service = self.service
        cost = await self._model.work(once(service.cost_of_scoring, sentences), has_time=True)
        self._hold(self._scored, max(SHARES // 32, math.ceil(SHARES * cost / MAX_MULTIPLICATIONS)))
        return await self._model.work(service.score_text_pausing(sentences), has_time=True)

    async def know(self, sentences: Sequence[str]) -> None:
        """Embed sentences together with those of other requests.

        The questions that follow find them in the service's memory.

        Raises:
            InputError: A sentence is empty or too long.
            Busy: As of :meth:`read`.
        """
        service = self.service
        if service.knows(sentences):
            return
        if self._sentences is None:
            most = TURNS_AT_ONCE * service.text_turn
            self._sentences = Batch("text", self._embed_sentences, most, service.text_tokens)
        if service.text_tokens(sentences) <= service.text_turn:
            await self._model.do(self._sentences, tuple(sentences))
            return
        turns = await self._model.call(service.text_turns, sentences)
        for turn in turns:
            has_time = len(turns) > TURNS_AT_ONCE
            await self._model.do(self._sentences, tuple(turn), has_time=has_time)

    def _embed_sentences(self, several: Sequence[Sequence[str]]) -> list[None]:
        self.service.embed_sentences([sentence for some in several for sentence in some])
        return [None] * len(several)

    def hold_bytes(self, size: int) -> None:
        """Count the bytes of an upload until its request is answered.

        Raises:
            Busy: There are too many in memory already.
        """
        self._hold(self._bytes, size)

    def _hold(self, budget: Budget, part: int) -> None:
        """Take a part of a budget until the request is answered."""
        request = CURRENT.get()
        if request is None:
            return
        if not budget.take(part):
            raise Busy
        request.hold(object(), lambda: budget.give(part))

    def hold_export(self) -> None:
        """Count an export until its table has been sent.

        Raises:
            Busy: As many as may be are under way.
        """
        request = CURRENT.get()
        if request is None:
            return
        if not self._exports.take(1):
            raise Busy(EXPORT_WAIT)
        request.hold(self._exports, lambda: self._exports.give(1), lasting=True)

    async def embed_upload(self, data: bytes) -> "EmbeddedImage":
        """Decode and embed an uploaded image, or remember it from its last question."""
        return await self._uploads.embed(self.service, data)

    async def decode_upload(self, data: bytes) -> "Image":
        """Decode an uploaded image."""
        return await self._uploads.decode(data)
