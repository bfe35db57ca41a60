"""What it takes to go on after a broken row of a CSV file: a way back, and a look at the ids."""

import csv
from collections import deque
from collections.abc import Iterator

ROW_LIMIT = 1_000_000
"""Longest row, in characters: a quote that is never closed makes one row of the rest of a file."""


class RowLines:
    """The lines of a file for ``csv.reader``, with a way back to the start of a broken row."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.number = 0
        """The line given last, the first of the file being 1."""
        self._lines = lines
        self._again: deque[str] = deque()
        self._row: list[str] = []
        self._size = 0

    def __iter__(self) -> "RowLines":
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self.number += 1
        self._row.append(line)
        self._size += len(line)
        if self._size > ROW_LIMIT:
            raise csv.Error("the row is too long")
        return line

    def begin_row(self) -> None:
        """Forget the lines of the row before."""
        self._row.clear()
        self._size = 0

    def go_back(self) -> None:
        """Give the lines of this row again, all but its first."""
        self._again.extendleft(reversed(self._row[1:]))
        self.number -= len(self._row) - 1


class StudyIds:
    """What the study_ids of a table look like, to tell one from the first words of report text."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._all_have_digits = True
        self._shortest, self._longest = 1_000, 0

    @staticmethod
    def _kinds_of(study_id: str) -> set[str]:
        return {"9" if c.isdigit() else "a" if c.isalpha() else c for c in study_id}

    def learn(self, study_id: str) -> None:
        """Take note of the study_id of a good row."""
        kinds = self._kinds_of(study_id)
        self._kinds |= kinds
        self._all_have_digits = self._all_have_digits and "9" in kinds
        self._shortest = min(self._shortest, len(study_id))
        self._longest = max(self._longest, len(study_id))

    def fits(self, study_id: str) -> bool:
        """Whether it has the kinds of character that others had, and about their length."""
        kinds = self._kinds_of(study_id)
        if not kinds <= (self._kinds or set("9a-_.")) or (self._all_have_digits > ("9" in kinds)):
            return False
        # Numbers that are counted up get longer by one digit.
        return not self._longest or self._shortest <= len(study_id) <= self._longest + 1
