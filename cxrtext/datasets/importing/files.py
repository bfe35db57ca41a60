"""The files of a set, never outside of its folder, and how images come into the data folder."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cxrtext.datasets.importing.identity import Ids, digest
from cxrtext.datasets.importing.reading import FoundImage, NotKeptError, Skipped
from cxrtext.errors import WorkError
from cxrtext.files import SUMS, replacing
from cxrtext.records import Rejected

NOTE = "import.json"  # the file by which an import knows a folder that it made
WRITTEN = ("manifest.csv", "reports.csv", "labels.csv", "boxes.json", "import.rejected.csv")
"""What an import writes into its folder beside the images."""
_OWN = {NOTE, "manifest.csv.lock", SUMS, *WRITTEN}
PICTURES = (".png", ".jpg", ".jpeg")  # endings of image files that are not DICOM
ENDINGS = (*PICTURES, ".dcm")


def printable(name: str) -> str:
    """A file's name as it may stand in a message: one line, and text."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _names(root: Path, below: str, out: Path) -> list[str] | Rejected:
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
        return Rejected(printable(below) or ".", reason)
    return sorted(names)


def walk(root: Path, out: Path) -> Iterator[str | Rejected]:
    """Give the relative path of every file that is not hidden, in order.

    Links to folders are not followed; only the names of one folder a level are held.

    Args:
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
            if isinstance(names, Rejected):
                yield names
            stack.append(iter(() if isinstance(names, Rejected) else names))
        else:
            yield name
        if not stack:
            return
        name = next(stack[-1], None)


def inside(root: Path, name: str) -> Path | None:
    """The file of a relative path, all links followed; None where that leads out of the folder."""
    if not name or "\0" in name:
        return None
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    return path if path.is_relative_to(root) and path != root else None


def existing(root: Path, item: str, *names: str) -> tuple[str, Path]:
    """The first of some relative paths where a file of the folder lies, and that file."""
    for name in names:
        path = inside(root, name)
        if path is not None and path.is_file():
            return name, path
    raise NotKeptError(Skipped(item, "listed, but the image file is not there"))


def pictures_by_name(root: Path, out: Path) -> dict[str, str]:
    """The relative path of every PNG and JPEG file by its name alone; the first of equal names."""
    found: dict[str, str] = {}
    for name in walk(root, out):
        if isinstance(name, str) and name.lower().endswith(PICTURES):
            found.setdefault(name.rpartition("/")[2], name)
    return found


class Placer:
    """Gives every image its name in the manifest, and puts the file there.

    Images that lie in the data folder stay where they are.  Others are hard links, which cost no
    space and lie inside the folder, as a manifest demands; a symbolic link would lead out of it.
    Where the file system makes no hard link, the file is copied.

    Args:
        ids: With hashed ids, files are named by hashes: their names may be patients'.
    """

    def __init__(self, root: Path, out: Path, ids: Ids, *, copy: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._root, self._out, self._ids, self._copy = root, out, ids, copy
        home = out.resolve()
        self._in_place = root.is_relative_to(home)
        self._prefix = root.relative_to(home).as_posix() + "/" if self._in_place else "images/"
        if self._prefix == "./":
            self._prefix = ""
        self._seen: set[int] = set()

    def place(self, image: FoundImage) -> str | None:
        """Put an image in its place.

        Returns:
            Its ``image`` cell; None where another image was given the same name before.
        """
        source = -digest(image.name) - 1  # apart from the digests of names that are given
        if source in self._seen:
            return None
        self._seen.add(source)
        if self._in_place:
            name = self._prefix + image.name
        elif self._ids.hashed:
            ending = Path(image.name).suffix.lower()
            ending = ending if ending in ENDINGS else ".dcm"
            name = f"images/{self._ids.of('file', image.name)}{ending}"
        else:
            name = "images/" + image.name.removeprefix("images/")
            if digest(name) in self._seen:
                name = "images/" + image.name
        if digest(name) in self._seen:
            return None
        self._seen.add(digest(name))
        if self._in_place:
            self.counts["left in place"] += 1
        else:
            self.counts[self._bring(image.path, self._out / name)] += 1
        return name

    def _bring(self, source: Path, target: Path) -> str:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            if not self._copy and target.samefile(source):
                return "linked"
            if _same_times(source, target) and not target.samefile(source):
                return "copied"
            target.unlink()
        if not self._copy:
            try:
                os.link(source, target)
            except OSError:
                pass  # another file system, or one without hard links, or another's file
            else:
                return "linked"
        try:
            with replacing(target) as temporary:
                shutil.copyfile(source, temporary)
                times = source.stat()
                os.utime(temporary, ns=(times.st_atime_ns, times.st_mtime_ns))
        except OSError as error:
            raise WorkError(
                f"{target}: cannot be written ({error.strerror}); run the same command again to "
                "go on"
            ) from None
        return "copied"


def _same_times(first: Path, second: Path) -> bool:
    one, other = first.stat(), second.stat()
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)
