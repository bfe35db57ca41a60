"""The kinds of problem, from `problems.yaml`, and the problems found in a data set."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from cxrtext.files.yaml_text import read_own
from cxrtext.images.source import shown
from cxrtext.page import Gallery


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Kind:
    code: str  # short name, for programs
    severity: Severity
    title: str  # what is wrong, in a few words
    advice: str  # what to do about it


KINDS = {
    code: Kind(code, Severity(kind["severity"]), kind["title"], kind["advice"])
    for code, kind in read_own(Path(__file__).with_suffix(".yaml")).items()
}
EXAMPLES = 10  # examples kept of each problem
SHOWN = 200  # longest example, in characters


@dataclass(slots=True)
class Problem:
    kind: Kind
    count: int = 0
    # the first few: file names and row numbers, never report text or names of people.
    examples: list[str] = field(default_factory=list)
    unnamed: int = 0  # how many of the count have no example

    def as_dict(self) -> dict[str, Any]:
        named = {"title": self.kind.title, "advice": self.kind.advice, "examples": self.examples}
        code, severity = self.kind.code, str(self.kind.severity)
        return {"code": code, "severity": severity, "count": self.count} | named


def printable(text: str) -> str:
    """Return text on one line, without control characters, cut to `SHOWN` characters."""
    plain = shown(text)
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 1]}…"


class Problems:
    def __init__(self) -> None:
        self._found: dict[str, Problem] = {}

    def add(self, code: str, example: str = "", count: int = 1) -> None:
        """Count a problem by the code of its kind; a count of 0 does nothing."""
        if count < 1:
            return
        problem = self._found.setdefault(code, Problem(KINDS[code]))
        problem.count += count
        if example and len(problem.examples) < EXAMPLES:
            problem.examples.append(printable(example))
        else:
            problem.unnamed += count

    def is_joined(self, what: str, rows: Collection[str], studies: Collection[str]) -> bool:
        """Whether any row of a table belongs to a study; notes a problem if none does."""
        if rows and studies and set(studies).isdisjoint(rows):
            self.add("none-joined", f"{what}: {len(rows)} rows, {len(studies)} studies")
            return False
        return True

    def found(self) -> list[Problem]:
        """The problems, errors first, and within a severity the most frequent first."""
        order = list(Severity)
        return sorted(
            self._found.values(), key=lambda one: (order.index(one.kind.severity), -one.count)
        )


@dataclass(slots=True)
class CheckReport:
    data: str
    summary: dict[str, int] = field(default_factory=dict)  # counts by name, in order
    problems: list[Problem] = field(default_factory=list)  # what is wrong, the worst first
    galleries: list[Gallery] | None = None  # pictures; None if they were left out on request

    def count(self, severity: Severity) -> int:
        return sum(problem.kind.severity is severity for problem in self.problems)

    def has_failed(self, *, strict: bool = False) -> bool:
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON, without pictures."""
        return {
            "data": self.data,
            **{f"{severity}s": self.count(severity) for severity in Severity},
            "summary": self.summary,
            "problems": [problem.as_dict() for problem in self.problems],
        }


def verdict(report: CheckReport) -> str:
    counts = {severity: report.count(severity) for severity in Severity}
    found = ", ".join(f"{n:,} {severity}{'' if n == 1 else 's'}" for severity, n in counts.items())
    if counts[Severity.ERROR]:
        return f"Fix the errors before training or evaluation ({found})."
    if counts[Severity.WARNING]:
        return f"Usable; look at the warnings ({found})."
    return f"No error and no warning was found ({found})."
