"""Reading images in processes of their own, which a hostile file may end without harm.

The results equal those of `cxrtext.images.read_image`, bit for bit.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Floats
from cxrtext.images.isolated_lost import ProcessLost
from cxrtext.images.isolated_pool import CPU_SECONDS, MEMORY_BYTES, IsolatedPool
from cxrtext.images.isolated_prepare import WHOLE, Preparation, ReadImage
from cxrtext.images.isolated_read import image_of, read_request, request_for
from cxrtext.images.read import Window, shown


class ReaderPool(IsolatedPool):
    """Reader processes, each started when it is first needed.

    Args:
        workers: How many; None for one a core; 0 reads in this process, without limits.
        memory_bytes: Address space of one process.
        seconds: Computing time that a file may take.
        wall_seconds: Time on the clock that a file may take; by default three times ``seconds``,
            which leaves room on a machine that is shared.

    Raises:
        ValueError: When a number is out of range.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        seconds: float = CPU_SECONDS,
        wall_seconds: float | None = None,
    ) -> None:
        super().__init__(
            read_request,
            workers,
            memory_bytes=memory_bytes,
            seconds=seconds,
            wall_seconds=wall_seconds,
        )

    def read(self, path: Path, *, frame: int | None = None, window: Window | None = None) -> Floats:
        """Read a stored image; see `cxrtext.images.read_image`.

        Raises:
            ImageError: As there; also when the file made its reader process die, hang or exceed
                its limits.
            WorkError: When no reader process can be started.
        """
        pixels: Floats = self._read(str(path), frame, window, WHOLE).pixels
        return pixels

    def read_bytes(
        self, data: bytes, name: str, *, frame: int | None = None, window: Window | None = None
    ) -> Floats:
        """Read an image that was sent; see `cxrtext.images.read_image_bytes` and `read`."""
        pixels: Floats = self._read(name, frame, window, WHOLE, data).pixels
        return pixels

    def prepare_bytes(self, data: bytes, name: str, preparation: Preparation) -> ReadImage:
        """Read an image that was sent, and make there what is wanted of it; see `read`."""
        return self._read(name, None, None, preparation, data)

    def map(
        self,
        paths: Iterable[Path],
        *,
        preparation: Preparation = WHOLE,
        frame: int | None = None,
        window: Window | None = None,
        ahead: int | None = None,
    ) -> Iterator[ReadImage | ImageError]:
        """Read stored images, several at a time.

        Args:
            paths: The images; drawn as they are needed.
            preparation: What to make of each.
            frame: As in `read`, for every image.
            window: As in `read`, for every image.
            ahead: Images read before they are asked for.

        Returns:
            For each path, in order, what was read, or why it was not.

        Raises:
            WorkError: When no reader process can be started.
        """

        def attempt(path: Path) -> ReadImage | ImageError:
            try:
                return self._read(str(path), frame, window, preparation)
            except ImageError as error:
                return error

        return self.each(attempt, paths, ahead)

    def _read(
        self,
        name: str,
        frame: int | None,
        window: Window | None,
        preparation: Preparation,
        data: bytes | None = None,
    ) -> ReadImage:
        request = request_for(name, frame, window, preparation, stored=data is None)
        try:
            return image_of(*self.ask(request, data or b""))
        except ProcessLost as loss:
            fault = loss.fault.format("decoded")
            raise ImageError(f"{shown(name)}: {fault}; {loss.mend}") from None
