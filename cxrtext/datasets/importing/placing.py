"""Images brought into the data folder: left where they are, linked or copied."""

import os
import shutil
from collections import Counter
from pathlib import Path

from cxrtext.datasets.importing.found import FoundImage
from cxrtext.datasets.importing.identity import Ids, digest
from cxrtext.errors import WorkError
from cxrtext.files import replacing

ENDINGS = (".png", ".jpg", ".jpeg", ".dcm")


class Placer:
    """Gives every image its name in the manifest, and puts the file there.

    Images that lie in the data folder stay where they are.  Others are hard links, which cost no
    space and lie inside the folder, as a manifest demands; a symbolic link would lead out of it.
    Where the file system makes no hard link, the file is copied.

    Args:
        root: The folder of the set, all links followed.
        out: The data folder.
        ids: With hashed ids, files are named by hashes: their names may be patients'.
        copy: Whether to copy where a link would do.
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

        Raises:
            WorkError: The file cannot be copied.
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
