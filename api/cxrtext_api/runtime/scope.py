"""A request being answered: its deadline, whether its caller still waits, and what it holds."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Self, TypeVar

T = TypeVar("T")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class NotReady(Exception):  # noqa: N818 - a state to wait out rather than an error
    """The model is not loaded (yet)."""


class Busy(Exception):  # noqa: N818 - a state to wait out rather than an error
    """Too many requests wait; come back in a moment."""


class Timeout(Busy):
    """The answer was not ready in time."""


class ClientGone(Busy):
    """The caller went away, so nobody will read the answer."""


class Budget:
    """An amount whose parts are taken and given back, on the event loop."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.taken = 0

    def take(self, part: int) -> bool:
        if self.taken + part > self.amount:
            return False
        self.taken += part
        return True

    def give(self, part: int) -> None:
        self.taken -= part


class RequestScope:
    """How long one request may take, whether its caller is there, and what it must give back.

    Args:
        seconds: How long its answer may take, from now.
        receive: Gives the messages of its connection after its body; None for no connection.
    """

    def __init__(self, seconds: float, receive: Receive | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._deadline = self._loop.time() + seconds
        self._receive = receive
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._watch: asyncio.Task[None] | None = None
        self._held: dict[object, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def extend(self) -> None:
        """Give an answer in parts more time, for its next part."""
        self._deadline = self._loop.time() + self._seconds

    async def outcome(self, future: "asyncio.Future[T]") -> T:
        """The result of a piece of work; it is canceled if it is late or the caller goes away."""
        if self._receive is not None and self._watch is None:
            # The body was read before any work, so this misses no message.
            self._watch = self._loop.create_task(self._look(self._receive))
        try:
            await asyncio.wait(
                (future, self._gone),
                timeout=self._deadline - self._loop.time(),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not future.done():
                raise ClientGone if self._gone.done() else Timeout
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def _look(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        except Exception:  # noqa: BLE001 - then we do not know, and cancel nothing
            return
        if not self._gone.done():
            self._gone.set_result(None)

    def holds(self, what: object) -> bool:
        return what in self._held

    def hold(self, what: object, give_back: Callable[[], None]) -> None:
        """Keep something until the end."""
        self._held[what] = give_back

    def take(self, budget: Budget, part: int) -> None:
        """Take a part of a budget until the end (:class:`Busy`: too little is left)."""
        if not budget.take(part):
            raise Busy
        self.hold(object(), lambda: budget.give(part))

    def end(self) -> None:
        """Give back everything that work took."""
        if self._watch is not None:
            self._watch.cancel()
        # A canceled task refers back to this object; without this, everything that the request used
        # would stay until Python next collects cycles.
        self._watch = None
        while self._held:
            self._held.popitem()[1]()
