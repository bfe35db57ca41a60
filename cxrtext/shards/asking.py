"""One question to the shards, and how much of the archive its answer rests on."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cxrtext.pausing import Pausing
from cxrtext.shards import protocol as p
from cxrtext.shards.calls import Missing, Request, ShardCalls
from cxrtext.shards.coverage import Coverage

T = TypeVar("T", bound=p.Message)


class Asking:
    """Asks shards for one question; each that gives nothing is noted.

    Every method may raise UnavailableError where no shard answers, or, where all are required, one
    does not; and InputError where a shard says that the question is wrong.

    Args:
        model: The fingerprint of the model that embeds questions.
        require_all: Whether an answer without one of the shards is refused.
    """

    def __init__(self, calls: ShardCalls, model: str, *, require_all: bool = False) -> None:
        self.calls = calls
        self.model = model
        self._require_all = require_all
        self.coverage = Coverage(calls.names, require_all=require_all)

    def for_question(self) -> "Asking":
        """The same for another question."""
        return Asking(self.calls, self.model, require_all=self._require_all)

    def ask_all(
        self,
        path: str,
        kind: type[T],
        body: Callable[[int], p.Message],
        seconds: float | None = None,
    ) -> Pausing[dict[int, T]]:
        """Ask every shard; gives the answers by the places of those that gave one, and notes it."""
        places = range(len(self.calls.shards))
        wanted = {place: Request(f"{p.PATH}/{path}", kind, body(place)) for place in places}
        answers = yield from self.calls.ask(wanted, seconds)
        return self.noted(answers)

    def ask_some(
        self,
        path: str,
        kind: type[T],
        bodies: Mapping[int, p.Message],
        seconds: float | None = None,
    ) -> Pausing[dict[int, T]]:
        """Ask some shards; the same."""
        wanted = {place: Request(f"{p.PATH}/{path}", kind, body) for place, body in bodies.items()}
        answers = yield from self.calls.ask(wanted, seconds)
        return self.noted(answers)

    def noted(self, answers: dict[int, Any]) -> dict[int, Any]:
        """The answers that are there; the other shards are noted as missing."""
        names = self.calls.names
        self.coverage.note([names[at] for at, one in answers.items() if isinstance(one, Missing)])
        return {at: one for at, one in answers.items() if not isinstance(one, Missing)}

    def get_all(self, path: str, kind: type[Any], **params: Any) -> Pausing[dict[int, Any]]:
        """Ask every shard as any caller does."""
        places = range(len(self.calls.shards))
        wanted = {place: Request(path, kind, params=params) for place in places}
        return self.noted((yield from self.calls.ask(wanted)))
