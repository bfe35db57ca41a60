"""A request while it is being answered: until when, whether anybody waits, and what it holds."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Busy(Exception):  # noqa: N818 - a state to wait out rather than an error
    """More requests wait than the server takes; the caller should come back.

    Args:
        retry_after: When, in whole seconds.
    """

    def __init__(self, retry_after: int = 2) -> None:
        super().__init__()
        self.retry_after = retry_after


class Late(Busy):
    """The answer was not ready in the time that a request has."""


class Left(Busy):
    """The caller went away; whatever is answered, nobody reads it."""


class Asking:
    """One request.

    Args:
        seconds: How long its answer may take, from now on.
        receive: Gives the messages of its connection, its body being read; None for no connection.
    """

    def __init__(self, seconds: float, receive: Receive | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + seconds
        self._receive = receive
        self.current = False
        """Whether a request of the server ends it, and not the piece of work it was made for."""
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._watch: asyncio.Task[None] | None = None
        self._held: dict[object, Callable[[], None]] = {}
        self._lasting: set[object] = set()

    def go_on(self, seconds: float) -> None:
        """Give an answer that comes in parts the time of its next part."""
        self._deadline = self._loop.time() + seconds

    async def outcome(self, future: "asyncio.Future[T]") -> T:
        """What a piece of work gives, unless it is no longer wanted first.

        Args:
            future: Of the work; it is cancelled where the result is not waited for any more.

        Raises:
            Late: The time is up.
            Left: The caller went away.
        """
        if self._receive is not None and self._watch is None:
            # Its body was read before it could ask for work, so that no message is missed by this.
            self._watch = self._loop.create_task(self._look(self._receive))
        try:
            await asyncio.wait(
                (future, self._left),
                timeout=self._deadline - self._loop.time(),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not future.done():
                raise Left if self._left.done() else Late
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def _look(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        except Exception:  # noqa: BLE001 - then it is not known, and nothing is given up
            return
        if not self._left.done():
            self._left.set_result(None)

    def holds(self, what: object) -> bool:
        """Whether it holds something that is given back at its end."""
        return what in self._held

    def hold(self, what: object, give_back: Callable[[], None], *, lasting: bool = False) -> None:
        """Keep something until its answer begins, or, where it is lasting, has been sent."""
        self._held[what] = give_back
        if lasting:
            self._lasting.add(what)

    def begin_answer(self) -> None:
        """Give back what work took; the caller may read slowly."""
        if self._watch is not None and not self._lasting:
            self._watch.cancel()
        for what in self._held.keys() - self._lasting:
            self._held.pop(what)()

    def end(self) -> None:
        """Give back all that it holds."""
        self._lasting.clear()
        self.begin_answer()


ASKING = "cxrtext_api.asking"
"""Key of it in the ASGI scope."""

CURRENT: ContextVar[Asking | None] = ContextVar("asking", default=None)
"""The request that this task answers."""


def asking(seconds: float) -> Asking:
    """The request that this task answers, or one of nobody with its own time."""
    return CURRENT.get() or Asking(seconds)
