"""The squares of one size in a decoded cache: found by digest, checked, and added to."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cxrtext.errors import WorkError
from cxrtext.files import only_one
from cxrtext.images.cache_catalogue import NAME, Catalogue, Kept, Store, UnusableError
from cxrtext.images.cache_files import told
from cxrtext.images.cache_pixels import PixelFile, checksum
from cxrtext.images.isolated_prepare import ReadImage


@contextmanager
def only_filler(folder: Path) -> Iterator[None]:
    """Hold the right to add to a cache, across processes; a killed process gives it up.

    Raises:
        WorkError: Another process holds it.
    """
    with ExitStack() as stack:
        with told(folder):
            try:
                stack.enter_context(only_one(folder / NAME))
            except WorkError:
                raise WorkError(
                    f"{folder}: another process is adding decoded images to this cache; wait for "
                    "it to end, or name another folder"
                ) from None
        yield


def open_catalogue(folder: Path, say: Callable[[str], None]) -> Catalogue:
    """Open the catalogue of a cache; one that is damaged or of another version is made afresh."""
    with told(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return Catalogue(folder)
        except UnusableError:
            pass
    with only_filler(folder), told(folder):
        try:
            return Catalogue(folder)  # the process before may have made it afresh
        except UnusableError:
            pass
        say(f"{folder}: the cache is damaged or of another version; images are decoded again")
        for path in [*folder.glob(f"{NAME}*"), *folder.glob("decoded-*.u8")]:
            if path.suffix != ".lock":
                path.unlink()
        return Catalogue(folder)


class SquareStore:
    """The squares of one size; open from its making until it is closed.

    Args:
        folder: The cache's folder.
        size: Side of the squares, in pixels.
        say: Takes a line about what was lost.

    Raises:
        DataError: The folder cannot be written.
        WorkError: Another process is making a damaged catalogue afresh.
    """

    def __init__(self, folder: Path, size: int, say: Callable[[str], None]) -> None:
        self._folder, self._size, self._say = folder, size, say
        self._open = ExitStack()
        self._filling = False
        self._next = 0
        self._damaged: set[bytes] = set()
        self._pixels: PixelFile | None = None
        self.catalogue = self._open.enter_context(open_catalogue(folder, say))
        try:
            with told(folder):
                self._store: Store | None = self.catalogue.store(size)
                if self._store is not None and self.path.is_file():
                    self._take(PixelFile(self.path, size, write=False))
        except BaseException:
            self._open.close()
            raise

    @property
    def path(self) -> Path:
        """The file of the squares; the folder, as long as nothing is kept."""
        return self._folder / (self._store.file if self._store else "")

    def close(self) -> None:
        """Close the files, let others add, and say what was damaged."""
        self._open.close()
        if self._damaged:
            self._say(f"{self._folder}: {len(self._damaged)} kept image(s) were damaged")

    def find(self, digest: bytes) -> tuple[ReadImage, int] | str | None:
        """Give a square and its slot, or why there is none; None where it is not known."""
        if self._store is None:
            return None
        with told(self._folder):
            kept = self.catalogue.kept(self._store, digest)
            if kept is None or isinstance(kept, str):
                return kept
            pixels = None if self._pixels is None else self._pixels.read(kept.slot)
        if pixels is None or (checksum(digest, kept.height, kept.width, pixels) != kept.checksum):
            self._damaged.add(digest)
            return None
        return ReadImage(pixels, kept.height, kept.width), kept.slot

    def begin_filling(self) -> None:
        """Take the right to add, once; what is no longer of use is removed.

        Raises:
            WorkError: Another process has it.
        """
        if self._filling:
            return
        self._open.enter_context(only_filler(self._folder))
        self._filling = True
        with told(self._folder):
            self._remove_outdated()
            self._store = self.catalogue.store(self._size)
            if self._store is not None and not self.path.is_file():
                self._say(f"{self.path}: is gone; its images are decoded again")
                self.catalogue.remove_store(self._store)
                self._store = None
            if self._store is None:
                self._store = self.catalogue.add_store(self._size)
            pixels = self._take(PixelFile(self.path, self._size, write=True))
            lost = self.catalogue.cut(self._store, pixels.slots())
            if lost:
                self._say(f"{self.path}: was cut short; {lost} image(s) are decoded again")
            self._next = self.catalogue.slots(self._store)

    def _remove_outdated(self) -> None:
        for store in self.catalogue.outdated():
            self._say(
                f"{self._folder}: images of size {store.size} were read by another version; "
                "they are decoded again"
            )
            self.catalogue.remove_store(store)
            (self._folder / store.file).unlink(missing_ok=True)

    def _take(self, pixels: PixelFile) -> PixelFile:
        self._open.callback(pixels.close)
        self._pixels = pixels
        return pixels

    def add(self, digest: bytes, image: ReadImage | str) -> int:
        """Keep a square, or why there is none; it is kept when this returns.

        Returns:
            Its slot; -1 without a square.

        Raises:
            WorkError: The disk is full.
        """
        assert self._store is not None  # noqa: S101 - begin_filling made it
        assert self._pixels is not None  # noqa: S101
        with told(self._folder):
            if isinstance(image, str):
                self.catalogue.add(self._store, digest, image)
                return -1
            slot = self._next
            self._pixels.write(slot, image.pixels)
            told_of = checksum(digest, image.height, image.width, image.pixels)
            kept = Kept(slot, image.height, image.width, told_of)
            self.catalogue.add(self._store, digest, kept)  # only now can it be found
        self._next = slot + 1
        return slot
