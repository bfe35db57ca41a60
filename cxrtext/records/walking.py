"""The files of a folder and of those below it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from cxrtext.records.study import Rejected


def printable(name: str) -> str:
    """A file's name as it may stand in a message: one line, and text."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def walk(root: Path, wanted: Callable[[os.DirEntry[str]], bool]) -> Iterator[str | Rejected]:
    """Give the relative path of every file that is not hidden, in order, and unreadable folders.

    Links to folders are given, not followed.  Only the names of one folder a level are held.
    ``wanted`` says whether a file is to be given, or a folder to be looked into.
    """
    stack = [""]
    while stack:
        name = stack.pop()
        if name and not name.endswith("/"):
            yield name
            continue
        try:
            with os.scandir(root / name) as entries:
                found = [
                    name + entry.name + "/" * entry.is_dir(follow_symlinks=False)
                    for entry in entries
                    if not entry.name.startswith(".") and wanted(entry)
                ]
        except OSError as error:
            reason = f"the folder cannot be read ({error.strerror}); see its permissions"
            yield Rejected(printable(name) or ".", reason)
        else:
            stack += sorted(found, reverse=True)
