"""The list of what an import leaves out, written as it goes."""

import re
from collections import Counter
from pathlib import Path

from cxrtext.datasets.importing.found import Aside
from cxrtext.datasets.importing.identity import Ids
from cxrtext.datasets.importing.walk import WRITTEN
from cxrtext.errors import DataError
from cxrtext.records import BadItem, RowWriter

DAMAGED = "damaged or wrong"
"""What files and rows are counted under that should have been read but could not be."""

_ROW = re.compile(r"(?:[\w.-]+ )?(?:row|line|annotation) \d+")


class SetAside:
    """Counts what is left out and lists it with the reason.

    Args:
        out: The folder of the import.
        ids: With hashed ids, files are listed under hashes too: their names may be patients'.
        limit: How many may be damaged; one more raises.
    """

    def __init__(self, out: Path, ids: Ids, limit: int) -> None:
        self.counts: Counter[str] = Counter()
        self.path = out / WRITTEN[-1]
        self._ids, self._limit = ids, limit
        self._writer = RowWriter(self.path, {"item": "text", "kind": "text", "reason": "text"})

    def __enter__(self) -> "SetAside":
        self._writer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        # Written whatever happens: after too many damaged files the list is what is wanted.
        self._writer.__exit__(None, None, None)
        if not self.counts:
            self.path.unlink(missing_ok=True)

    def _shown(self, item: str) -> str:
        if not self._ids.hashed or _ROW.fullmatch(item):
            return item
        return f"file {self._ids.of('file', item)}"

    def add(self, entry: Aside | BadItem) -> None:
        """List one item.

        Raises:
            DataError: More than the limit are damaged.
        """
        item = self._shown(entry.item)
        if isinstance(entry, Aside):
            self.counts[entry.kind] += 1
            self._writer.write({"item": item, "kind": "left out", "reason": entry.kind})
            return
        self.counts[DAMAGED] += 1
        self._writer.write({"item": item, "kind": "damaged", "reason": entry.reason})
        if self.counts[DAMAGED] > self._limit:
            raise DataError(
                f"{self.counts[DAMAGED]} bad items, more than --max-rejected {self._limit}; the "
                f"last: {item}: {entry.reason} (all of them: {self.path})"
            )
