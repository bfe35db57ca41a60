"""Requests to shards: all at once, each with a deadline, replicas in turn.

They run on an event loop of a thread of its own.  A service that gives no answer is not asked
again before it says by ``/readyz`` that it is there; what was asked of it meanwhile goes to the
shard's other replicas, or does without the shard.
"""

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from cxrtext.client.transport import ApiError, error_of, headers_of
from cxrtext.errors import ConfigError, InputError
from cxrtext.pausing import Pausing
from cxrtext.shards.config import ShardAddress, ShardList

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T", bound=BaseModel)
Result = TypeVar("Result")

MOST_BYTES = 512 * 2**20
"""Largest answer of a shard: the ranking of some ten million images."""

PAUSE_S = 0.05
"""How long a question waits for shards until it can be given up."""

BUSY_S = 0.1, 1.0
"""How long a shard whose replicas have no room is left alone before it is asked again: at first,
twice as long each time, and at most."""

MIN_HEDGE_S = 0.05
HEDGE = 4.0
"""A second replica is asked after so many times what an answer takes lately."""

PROBE_TIMEOUT_S = 2.0
BUSY = (429, 503)

_log = logging.getLogger("cxrtext.shards")

Observe = Callable[[str, str, float], None]
"""Takes a shard's name, what became of a request to it, and its seconds."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """What a shard is asked, and the form of its answer; bytes where it has none."""

    path: str
    kind: type[T] | None
    body: BaseModel | None = None  # asked by POST; else by GET
    params: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A shard that gave no answer, and why, in a few words without anything of the question."""

    reason: str


class NoAnswer(Exception):  # noqa: N818 - the other replicas are asked then
    """A service gave nothing that can be used."""

    def __init__(self, reason: str, *, gone: bool = False, busy: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.gone, self.busy = reason, gone, busy


class Refused(Exception):  # noqa: N818 - not the shard's fault
    """What the user asked is wrong, as the shard says."""


class Replica:
    """A service that has a shard."""

    def __init__(self, url: str, address: ShardAddress, connections: int) -> None:
        import httpx2

        self.url = url
        self.is_up = True  # until it is known not to be
        self.seen_at = 0.0
        verify: ssl.SSLContext | bool = True
        if address.ca is not None:
            verify = ssl.create_default_context(cafile=str(address.ca))
        self._http = httpx2.AsyncClient(
            headers=headers_of(address.key),
            verify=verify,
            timeout=None,
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=10.0),
            follow_redirects=False,  # so that the key goes nowhere else
            trust_env=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def probe(self) -> bool:
        """Whether it says that it can be asked."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                return bool((await self._http.get(f"{self.url}/readyz")).status_code == 200)
        except Exception:  # noqa: BLE001 - whatever it is, it is not there
            return False

    async def ask(self, request: Request[T], check: Callable[[BaseModel], str | None]) -> T | bytes:
        """Ask it once.

        Raises:
            NoAnswer: It gave none that can be used.
            Refused: The question is wrong.
        """
        import httpx2

        broken = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
        try:
            try:
                answer = await self._send(request)
            except broken:  # a connection that lay idle may have been closed at its other end
                answer = await self._send(request)
        except (httpx2.HTTPError, OSError, ValueError) as error:
            raise NoAnswer(f"cannot be reached ({type(error).__name__})", gone=True) from None
        except ApiError as error:
            raise _why(error) from None
        if request.kind is None:
            return answer
        try:
            found = request.kind.model_validate_json(answer)
        except ValidationError:
            raise NoAnswer("gave an answer of another form") from None
        if (wrong := check(found)) is not None:
            raise NoAnswer(wrong)
        return found

    async def _send(self, request: Request[T]) -> bytes:
        sent: dict[str, Any] = {"params": dict(request.params or {})}
        if request.body is not None:
            sent["content"] = request.body.model_dump_json()
            sent["headers"] = {"Content-Type": "application/json"}
        method = "GET" if request.body is None else "POST"
        async with self._http.stream(method, self.url + request.path, **sent) as response:
            parts, size = [], 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > MOST_BYTES:
                    raise NoAnswer("gave an answer that is too large")
                parts.append(part)
            body = b"".join(parts)
            if response.status_code != 200:
                raise error_of(_whole(response, body))
            return body


def _whole(response: "httpx2.Response", body: bytes) -> "httpx2.Response":
    """A streamed answer as one that was read."""
    import httpx2

    kept = ("content-type", "retry-after", "x-request-id")
    headers = {name: response.headers[name] for name in kept if name in response.headers}
    return httpx2.Response(response.status_code, content=body, headers=headers)


def _why(error: ApiError) -> Exception:
    if error.status == 422 and error.title == "Unprocessable Content" and not error.faults:
        return Refused(error.detail)
    if error.status in BUSY:
        return NoAnswer(f"has no room ({error.status})", busy=True)
    if error.status in (401, 403):
        return NoAnswer(f"does not take the key ({error.status})")
    return NoAnswer(f"answered {error.status}")


class Shard:
    """A part of the archive: its replicas, and how quick they are."""

    def __init__(self, address: ShardAddress, given: ShardList) -> None:
        self.name = address.name
        self.replicas = [Replica(url, address, given.connections) for url in address.urls]
        self.why = ""  # it gave no answer last time
        self._hedge_s = given.hedge_s
        self._seconds: float | None = None
        self._turn = 0

    @property
    def is_up(self) -> bool:
        """Whether one of its replicas is thought to be there."""
        return any(replica.is_up for replica in self.replicas)

    async def ask(
        self, request: Request[T], deadline: float, check: Callable[[BaseModel], str | None]
    ) -> T | bytes:
        """Ask it until a time on the loop's clock (NoAnswer, Refused)."""
        loop = asyncio.get_running_loop()
        last, pause = NoAnswer(self.why or "does not answer"), BUSY_S[0]
        while loop.time() < deadline:
            order = self._order()
            if not order:
                raise last
            begun, asked = loop.time(), list[Replica]()
            try:
                async with asyncio.timeout_at(deadline):
                    found = await self._race(order, request, check, deadline, asked)
            except TimeoutError:
                for replica in asked:
                    self._lost(replica, "did not answer in time")
                raise NoAnswer("did not answer in time") from None
            except NoAnswer as error:
                if not error.busy:
                    raise
                last = error
                await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
                pause = min(2 * pause, BUSY_S[1])
                continue
            took = loop.time() - begun
            before = took if self._seconds is None else self._seconds
            self._seconds = before + 0.1 * (took - before)
            return found
        raise last

    def _order(self) -> list[Replica]:
        """The replicas that are there, the next one first."""
        there = [replica for replica in self.replicas if replica.is_up]
        self._turn += 1
        start = self._turn % len(there) if there else 0
        return there[start:] + there[:start]

    async def _race(
        self,
        order: Sequence[Replica],
        request: Request[T],
        check: Callable[[BaseModel], str | None],
        deadline: float,
        asked: list[Replica],
    ) -> T | bytes:
        """Ask a replica, and the next one where it fails or is late; the first answer counts.

        Those that were asked are added to ``asked``.
        """
        waiting = list(order)
        tasks: dict[asyncio.Task[T | bytes], Replica] = {}
        errors: list[NoAnswer] = []
        try:
            while True:
                if waiting:
                    replica = waiting.pop(0)
                    asked.append(replica)
                    tasks[asyncio.create_task(replica.ask(request, check))] = replica
                if not tasks:
                    raise next((error for error in errors if error.busy), errors[-1])
                done, _ = await asyncio.wait(
                    tasks,
                    timeout=self._patience(deadline, len(waiting)) if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    replica = tasks.pop(task)
                    try:
                        found = task.result()
                    except NoAnswer as error:
                        errors.append(error)
                        if error.gone:
                            self._lost(replica, error.reason)
                        continue
                    replica.seen_at = asyncio.get_running_loop().time()
                    return found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _patience(self, deadline: float, waiting: int) -> float:
        """How long the replicas that were asked have before the next of those that wait is."""
        usual = self._hedge_s
        if usual is None:
            usual = max(MIN_HEDGE_S, HEDGE * (self._seconds or 0.25))
        # After slow questions, such as exports, the deadline would come first.
        left = deadline - asyncio.get_running_loop().time()
        return max(0.0, min(usual, left / (waiting + 1)))

    def _lost(self, replica: Replica, reason: str) -> None:
        if replica.is_up:
            _log.warning("%s, replica %d: %s", self.name, self.replicas.index(replica) + 1, reason)
        replica.is_up = False

    def found(self, replica: Replica) -> None:
        """Note that a replica is there again."""
        if not replica.is_up:
            _log.warning("%s, replica %d: is there", self.name, self.replicas.index(replica) + 1)
        replica.is_up = True
        replica.seen_at = asyncio.get_running_loop().time()

    async def probe(self, idle_s: float) -> None:
        """Look at each replica that has not answered lately."""
        now = asyncio.get_running_loop().time()
        for replica in self.replicas:
            if replica.is_up and now - replica.seen_at < idle_s:
                continue
            if await replica.probe():
                self.found(replica)
            else:
                self._lost(replica, "is not ready")


class ShardCalls:
    """The shards of an archive, asked together; threads may share one.

    Args:
        given: Where they are.
        model: The fingerprint of the model that they must have.

    Raises:
        ConfigError: A file of certificates is wrong, or httpx2 is missing.
    """

    def __init__(self, given: ShardList, model: str) -> None:
        try:
            import httpx2  # noqa: F401 - asked for here, so that its absence is told at once
        except ImportError:
            raise ConfigError(
                "--shards wants the package httpx2; run: pip install 'cxrtext[client]'"
            ) from None
        self.given = given
        self.model = model
        self.observe: Observe = lambda *_: None
        try:
            self.shards = [Shard(address, given) for address in given.shards]
        except (ssl.SSLError, OSError):
            raise ConfigError("a file of certificates (ca) cannot be read; it is PEM") from None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="shards", daemon=True)
        self._thread.start()
        self._probing = asyncio.run_coroutine_threadsafe(self._probe(), self._loop)

    @property
    def names(self) -> list[str]:
        """Names of the shards, in their order."""
        return [shard.name for shard in self.shards]

    @property
    def down(self) -> list[str]:
        """Names of the shards of which no replica is there, as far as is known."""
        return [shard.name for shard in self.shards if not shard.is_up]

    def close(self) -> None:
        """End what is under way and close the connections."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        current = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for shard in self.shards:
            for replica in shard.replicas:
                await replica.close()

    async def _probe(self) -> None:
        while True:
            await asyncio.gather(*(shard.probe(self.given.probe_s) for shard in self.shards))
            await asyncio.sleep(self.given.probe_s)

    def ask(
        self, requests: Mapping[int, Request[T]], deadline_s: float | None = None
    ) -> Pausing[dict[int, T | Missing]]:
        """Ask shards by their places, each something; work that pauses while they think.

        Raises:
            InputError: What was asked is wrong, as the first of the shards says that says so.
        """
        seconds = self.given.deadline_s if deadline_s is None else deadline_s
        future = asyncio.run_coroutine_threadsafe(self._ask(requests, seconds), self._loop)
        answers = yield from _waited(future)
        found: dict[int, T | Missing] = {}
        refused = [at for at in sorted(answers) if isinstance(answers[at], Refused)]
        if refused:
            said = str(answers[refused[0]])
            taken = [at for at, one in answers.items() if not isinstance(one, Refused | Missing)]
            if taken:  # such as a column that one lacks
                names = ", ".join(self.names[at] for at in refused)
                said = f"{said} ({names}; the other shards take it)"
            raise InputError(said)
        for place in sorted(answers):
            answer = answers[place]
            assert not isinstance(answer, Refused)  # noqa: S101 - raised above
            assert not isinstance(answer, bytes)  # noqa: S101 - those are of `fetch`
            found[place] = answer
        return found

    def fetch(self, place: int, request: Request[Any]) -> Pausing[bytes | Missing]:
        """Ask one shard for bytes."""
        future = asyncio.run_coroutine_threadsafe(
            self._ask({place: request}, self.given.deadline_s), self._loop
        )
        answers = yield from _waited(future)
        answer = answers[place]
        if isinstance(answer, Refused):
            raise InputError(str(answer))
        assert isinstance(answer, bytes | Missing)  # noqa: S101
        return answer

    async def _ask(
        self, requests: Mapping[int, Request[T]], seconds: float
    ) -> dict[int, T | bytes | Missing | Refused]:
        deadline = asyncio.get_running_loop().time() + seconds
        answers = await asyncio.gather(
            *(self._one(self.shards[place], one, deadline) for place, one in requests.items())
        )
        return dict(zip(requests, answers, strict=True))

    async def _one(
        self, shard: Shard, request: Request[T], deadline: float
    ) -> T | bytes | Missing | Refused:
        begun = time.perf_counter()
        outcome = "answered"
        try:
            return await shard.ask(request, deadline, self._check)
        except NoAnswer as error:
            outcome = "missing"
            if error.reason != shard.why:
                _log.warning("%s: %s", shard.name, error.reason)
            shard.why = error.reason
            return Missing(error.reason)
        except Refused as error:
            outcome = "refused"
            return error
        finally:
            self.observe(shard.name, outcome, time.perf_counter() - begun)

    def _check(self, answer: BaseModel) -> str | None:
        other = getattr(answer, "model", self.model)
        return None if other == self.model else f"has another model ({str(other)[:12]}…)"


def _waited(future: "Future[Result]") -> Pausing[Result]:
    """What a future gives; it is canceled where it is no longer wanted."""
    try:
        while not future.done():
            with suppress(TimeoutError):
                future.exception(timeout=PAUSE_S)
            yield
        return future.result()
    finally:
        future.cancel()
