"""What every source of text offers to those who score it."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

from cxrtext.errors import DataError
from cxrtext.records.text_rows import Holds, Item


class TextSource(Protocol):
    """Reports or sentences that can be read any number of times, never all of them in memory."""

    @property
    def description(self) -> str:
        """What it is called in messages: the path, or "standard input"."""

    @property
    def holds(self) -> Holds:
        """Whether it gives reports (each a ``Study``) or sentences (each a ``Sentence``)."""

    @property
    def identity(self) -> str:
        """A digest of the content: of the bytes of a file, of names, sizes, times of a folder."""

    def __iter__(self) -> Iterator[Item]:
        """Give the studies or sentences, and what was set aside, in the same order every time."""


class StreamedSource:
    """A source of text made of functions that read it anew.

    Args:
        description: What it is called in messages.
        holds: What it gives.
        digest: Computes its identity; called once, when it is first asked for.
        items: Starts reading from the beginning.
    """

    def __init__(
        self,
        description: str,
        holds: Holds,
        digest: Callable[[], str],
        items: Callable[[], Iterator[Item]],
    ) -> None:
        self.description = description
        self.holds = holds
        self._digest = digest
        self._items = items

    @cached_property
    def identity(self) -> str:
        """A digest of the content."""
        try:
            return self._digest()
        except OSError as error:
            raise self._unreadable(error) from None

    def __iter__(self) -> Iterator[Item]:
        try:
            yield from self._items()
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> DataError:
        return DataError(f"{self.description}: cannot be read ({error.strerror}); try again")
