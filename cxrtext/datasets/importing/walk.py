"""The files of a folder in a fixed order, never leaving the folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from cxrtext.files import SUMS
from cxrtext.records import BadItem

NOTE = "import.json"
"""The file by which an import knows a folder that it made."""
WRITTEN = ("manifest.csv", "reports.csv", "labels.csv", "boxes.json", "import.rejected.csv")
"""What an import writes into its folder beside the images."""
_OWN = {NOTE, "manifest.csv.lock", SUMS, *WRITTEN}

PICTURES = (".png", ".jpg", ".jpeg")
"""Endings of image files that are not DICOM."""


def printable(name: str) -> str:
    """A file's name as it may stand in a message: one line, and text."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _names(root: Path, below: str, out: Path) -> list[str] | BadItem:
    """What a folder holds: relative paths in order, folders with a slash at the end."""
    names = []
    try:
        with os.scandir(root / below) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if Path(entry.path) != out:
                        names.append(f"{below}{entry.name}/")
                elif entry.name not in _OWN or root / below != out:
                    names.append(f"{below}{entry.name}")
    except OSError as error:
        reason = f"the folder cannot be read ({error.strerror}); see its permissions"
        return BadItem(printable(below) or ".", reason)
    return sorted(names)


def walk(root: Path, out: Path) -> Iterator[str | BadItem]:
    """Give the relative path of every file that is not hidden, in order.

    Links to folders are not followed; only the names of one folder a level are held.

    Args:
        root: The folder, all links followed.
        out: The data folder to be written, all links followed: where it lies below, it is passed
            over, and where it is the folder itself, the files that an import writes are.
    """
    stack: list[Iterator[str]] = []
    name: str | None = ""
    while True:
        if name is None:
            stack.pop()
        elif name == "" or name.endswith("/"):
            names = _names(root, name, out)
            if isinstance(names, BadItem):
                yield names
            stack.append(iter(() if isinstance(names, BadItem) else names))
        else:
            yield name
        if not stack:
            return
        name = next(stack[-1], None)


def inside(root: Path, name: str) -> Path | None:
    """The file of a relative path, all links followed; None where that leads out of the folder.

    Args:
        root: The folder, all links followed.
        name: The path, which a table of the set may have given.
    """
    if not name or "\0" in name:
        return None
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    return path if path.is_relative_to(root) and path != root else None


def pictures_by_name(root: Path, out: Path) -> dict[str, str]:
    """The relative path of every PNG and JPEG file by its name alone; the first of equal names."""
    found: dict[str, str] = {}
    for name in walk(root, out):
        if isinstance(name, str) and name.lower().endswith(PICTURES):
            found.setdefault(name.rpartition("/")[2], name)
    return found
