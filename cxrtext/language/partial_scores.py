"""Scores kept while a long run goes on, so that a killed one continues where it was."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from cxrtext.files import write_text
from cxrtext.language.score import Pieces

FORMAT = 1
"""Version of the file."""


def _key(sentence: Pieces) -> str:
    """A digest, because no report text is kept in a file of work."""
    text = ",".join(map(str, sentence))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class PartialScores:
    """An append-only file of scores beside the output: JSON lines of digest and value.

    A file written for another model, precision or version is thrown away; a line that was cut off
    when the process was killed is ignored.

    Args:
        path: The file.
        identity: What the scores depend on beside the sentence: model fingerprint, precision,
            token budget.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = {"format": FORMAT, "identity": identity}
        self._values = self._read()
        self._handle: TextIO | None = None

    def _read(self) -> dict[str, float]:
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            if json.loads(lines[0]) != self._identity:
                return {}
        except (OSError, ValueError):
            return {}
        values: dict[str, float] = {}
        for line in lines[1:]:
            try:
                found = json.loads(line)
                values.update({str(key): float(value) for key, value in found.items()})
            except (ValueError, TypeError, AttributeError):
                break
        return values

    def known(self, sentences: Iterable[Pieces]) -> dict[Pieces, float]:
        """Return the scores that are already there."""
        found = {}
        for sentence in sentences:
            value = self._values.get(_key(sentence))
            if value is not None:
                found[sentence] = value
        return found

    def __enter__(self) -> "PartialScores":
        # Written anew first: a line that was cut off must not swallow the next one.
        write_text(self.path, f"{json.dumps(self._identity)}\n{json.dumps(self._values)}\n")
        self._handle = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.close()

    def add(self, scores: dict[Pieces, float]) -> None:
        """Keep some scores; they are in the file when this returns."""
        if self._handle is None:
            raise ValueError("the file of partial scores is not open")
        line = {_key(sentence): value for sentence, value in scores.items()}
        self._handle.write(json.dumps(line) + "\n")
        self._handle.flush()

    def remove(self) -> None:
        """Remove the file: the output it served is written."""
        self.path.unlink(missing_ok=True)
