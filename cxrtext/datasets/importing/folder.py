"""The folder that an import writes: made by it, or nothing of it is touched."""

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.files import NOTE, WRITTEN
from cxrtext.datasets.importing.identity import Ids
from cxrtext.datasets.importing.reading import ImportOptions, Skipped
from cxrtext.errors import ConfigError, DataError
from cxrtext.files import read_sealed, write_sealed
from cxrtext.records import Rejected, RowWriter


def _parameters(options: ImportOptions, layout: str, ids: Ids) -> dict[str, Any]:
    """What decides the content of the folder; no paths, which may name people."""
    noted = asdict(options)
    for name in ("reports", "boxes", "hash_key", "max_rejected", "layout"):
        noted.pop(name)
    noted["keep"], noted["split"] = list(options.keep), list(options.split)
    return {"made_by": "cxrtext import", "version": 1, "layout": layout, **noted} | {
        "key": ids.fingerprint
    }


def claim_folder(out: Path, root: Path, options: ImportOptions, layout: str, ids: Ids) -> None:
    """Note in a folder what it is made with, or check that a run before noted the same.

    Args:
        out: The folder: new, empty, of an earlier run, or one that holds the set itself and nothing
            of the names that are written.
    """
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: is a file; name a folder")
    home, parameters = out.resolve(), _parameters(options, layout, ids)
    if ids.hashed and root.is_relative_to(home):
        raise ConfigError(
            f"{out}: holds the set itself, with its ids; name another folder as --out"
        )
    if options.hash_key is not None and options.hash_key.resolve().is_relative_to(home):
        raise ConfigError(f"{options.hash_key}: the key would lie with the data; keep it elsewhere")
    note = out / NOTE
    if note.is_file():
        _check_note(note, parameters)
        return
    if out.is_dir():
        there = [entry.name for entry in out.iterdir() if not entry.name.startswith(".")]
        taken = sorted(set(there) & set(WRITTEN))
        if taken and root.is_relative_to(home):
            raise DataError(f"{out / taken[0]}: would be overwritten; name another folder as --out")
        if there and not root.is_relative_to(home):
            raise DataError(
                f"{out}: the folder is not empty and was not made by an import; name another"
            )
    write_sealed(note, parameters)


def _read_note(note: Path) -> dict[str, Any]:
    try:
        return read_sealed(note)
    except (OSError, ValueError):
        return {}


def noted_layout(out: Path) -> str:
    """The layout that an earlier import into a folder read; "" where there was none."""
    return str(_read_note(out / NOTE).get("layout", ""))


def _check_note(note: Path, parameters: dict[str, Any]) -> None:
    noted = _read_note(note)
    if not noted:
        raise DataError(f"{note}: not readable; remove the folder or name another")
    other = [name for name in parameters if noted.get(name) != parameters[name]]
    if other:
        raise DataError(
            f"{note}: the folder was imported with another {', '.join(other)}; name another "
            "folder, or remove this one"
        )


DAMAGED = "damaged or wrong"
"""What files and rows are counted under that should have been read but could not be."""

_ROW = re.compile(r"(?:[\w.-]+ )?(?:row|line|annotation) \d+")


class LeftOut:
    """Counts what is left out and lists it with the reason.

    Args:
        ids: With hashed ids, files are listed under hashes too: their names may be patients'.
        limit: How many may be damaged; one more raises.
    """

    def __init__(self, out: Path, ids: Ids, limit: int) -> None:
        self.counts: Counter[str] = Counter()
        self.path = out / WRITTEN[-1]
        self._ids, self._limit = ids, limit
        self._writer = RowWriter(self.path, {"item": "text", "kind": "text", "reason": "text"})

    def __enter__(self) -> "LeftOut":
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

    def add(self, entry: Skipped | Rejected) -> None:
        """List one item."""
        item = self._shown(entry.item)
        if isinstance(entry, Skipped):
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
