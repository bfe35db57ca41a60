"""Decoded images, kept in a folder that training, indexing and evaluation share."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.cache_catalogue import NAME, Catalogue, Kept, UnusableError
from cxrtext.images.cache_files import told
from cxrtext.images.cache_pixels import PixelFile, Pixels, checksum, map_squares
from cxrtext.images.cache_visit import Visit
from cxrtext.images.isolated_prepare import ReadImage
from cxrtext.images.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True)
class Squares:
    """Decoded images in memory-mapped storage.

    Args:
        pixels: [slots, R, R], 8-bit grey, to be read only; other images may lie between.
        slots: [n], the place in ``pixels`` of each image asked for; -1 where it cannot be read.
    """

    pixels: Pixels
    slots: np.ndarray[tuple[int], np.dtype[np.int64]]


def _is_whole(file: PixelFile | None, digest: bytes, kept: Kept | str | None) -> bool:
    if kept is None or isinstance(kept, str):
        return kept is not None
    pixels = None if file is None else file.read(kept.slot)
    return pixels is not None and (
        checksum(digest, kept.height, kept.width, pixels) == kept.checksum
    )


class DecodedCache:
    """A folder of decoded images, by their content: equal files are decoded once.

    What is kept depends on a file's bytes, the size of the square and the version of the reader,
    not on its name, the crop or the normalisation.  Several sizes share a folder.  One process at
    a time adds to it; any number read.  The folder holds patients' pixels and is made for its
    owner alone; it can be deleted at any time when no process uses it.

    Args:
        folder: The folder; made when missing.
        say: Takes a line when what was kept is lost and has to be decoded again.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.folder = Path(folder)
        self._say = say

    def read(
        self,
        paths: Sequence[Path],
        preprocessing: Preprocessing,
        *,
        processes: int | None = None,
        ahead: int | None = None,
    ) -> Iterator[ReadImage | ImageError]:
        """Give the squares of image files; decode, and keep, what is not there.

        Args:
            paths: The images.
            preprocessing: Gives the size of the square.
            processes: Processes that decode; None for one a core, 0 to decode in this one.
            ahead: Images hashed, and images decoded, before they are asked for.

        Yields:
            For each path, in order, its square [1, R, R] uint8, or why there is none.

        Raises:
            DataError: The folder cannot be written.
            WorkError: The disk is full, or another process adds to the cache.
        """
        with Visit(self.folder, preprocessing, processes, ahead, self._say) as visit:
            for image in visit.images(paths):
                yield image if isinstance(image, ImageError) else image[0]

    def damaged(self) -> list[str]:
        """What is not as it was kept, a line each; it is decoded again when it is wanted.

        Raises:
            DataError: The folder cannot be read.
        """
        with ExitStack() as stack:
            stack.enter_context(told(self.folder))
            try:
                catalogue = stack.enter_context(Catalogue(self.folder))
            except UnusableError:
                return [f"{self.folder / NAME}: is damaged or of another version"]
            files: dict[int, PixelFile | None] = {}
            wrong = 0
            for store, digest, kept in catalogue.entries():
                if store.id not in files:
                    path = self.folder / store.file
                    files[store.id] = None
                    if path.is_file():
                        files[store.id] = pixels = PixelFile(path, store.size, write=False)
                        stack.callback(pixels.close)
                wrong += not _is_whole(files[store.id], digest, kept)
        return [f"{self.folder}: {wrong} kept image(s) are damaged"] if wrong else []

    def fill(
        self,
        paths: Sequence[Path],
        preprocessing: Preprocessing,
        *,
        processes: int | None = None,
        reject: Callable[[int, str], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Squares:
        """Decode what is not there yet, and map the squares into memory.

        Every square is compared with its checksum on the way, which reads it once.

        Args:
            paths: The images.
            preprocessing: Gives the size of the square.
            processes: As in :meth:`read`.
            reject: Takes the place in ``paths`` and the reason of each image that cannot be
                read, as it is met; what it raises ends the work.
            progress: Called with (done, total).

        Returns:
            The squares.

        Raises:
            DataError: As :meth:`read`.
            WorkError: As :meth:`read`.
        """
        slots = np.full(len(paths), -1, dtype=np.int64)
        with Visit(self.folder, preprocessing, processes, None, self._say) as visit:
            for row, image in enumerate(visit.images(paths)):
                if isinstance(image, ImageError):
                    if reject:
                        reject(row, str(image))
                else:
                    slots[row] = image[1]
                if progress:
                    progress(row + 1, len(paths))
            count = int(slots.max(initial=-1)) + 1
            with told(self.folder):
                pixels = map_squares(visit.store.path, count, preprocessing.resize)
        return Squares(pixels, slots)
