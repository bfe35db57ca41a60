"""What is wrong with a data set: each kind of fault with its severity, count and examples."""

from dataclasses import dataclass, field
from enum import StrEnum

EXAMPLES = 5
"""Examples kept of each problem."""

SHOWN = 200
"""Longest example, in characters."""


class Severity(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    """Training or evaluation would fail, or their figures would lie."""
    WARNING = "warning"
    """Something is lost, or probably not what was meant."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem.

    Args:
        code: Its short name, for programs.
        severity: How bad it is.
        title: What is wrong, in a few words.
        advice: What to do about it.
    """

    code: str
    severity: Severity
    title: str
    advice: str


@dataclass(slots=True)
class Problem:
    """A problem that was found.

    Args:
        kind: What is wrong.
        count: How often.
        examples: The first few: file names and row numbers, never report text or names of people.
        unnamed: How many of the count no example tells of.
    """

    kind: Kind
    count: int = 0
    examples: list[str] = field(default_factory=list)
    unnamed: int = 0


def printable(text: str) -> str:
    """Return text on one line, without control characters, cut where it is long."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 1]}…"


class Problems:
    """Collects problems by kind; holds a few examples of each, however many there are."""

    def __init__(self) -> None:
        self._found: dict[str, Problem] = {}

    def add(self, kind: Kind, example: str = "", count: int = 1) -> None:
        """Count a problem; nothing is noted where the count is 0."""
        if count < 1:
            return
        problem = self._found.setdefault(kind.code, Problem(kind))
        problem.count += count
        if example and len(problem.examples) < EXAMPLES:
            problem.examples.append(printable(example))
        else:
            problem.unnamed += count

    def found(self) -> list[Problem]:
        """Return what was found, errors first, and of these the most frequent."""
        order = list(Severity)
        return sorted(
            self._found.values(), key=lambda found: (order.index(found.kind.severity), -found.count)
        )
