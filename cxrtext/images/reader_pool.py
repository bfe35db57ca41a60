"""Read images in separate processes; results equal those of `read_image`, bit for bit."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import Described, described
from cxrtext.images.dicom.file import wanted_of
from cxrtext.images.gray import Bytes, Floats, Gray, Samples
from cxrtext.images.limits import MAX_HEADER_BYTES
from cxrtext.images.overlay import shrunk
from cxrtext.images.placement import Placement
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.read import decode_image
from cxrtext.images.sandbox import ProcessLost, SandboxPool
from cxrtext.images.source import named_errors, shown, stored_bytes

_KINDS = ("float32", "uint8")


@dataclass(frozen=True, slots=True)
class ReadImage:
    # [1, H, W] float32 in [0, 1]; or a square, [1, resize, resize] uint8 as `Preprocessing.square`
    # makes it, which `Preprocessing.normalize` turns into the model's input.
    pixels: npt.NDArray[Any]
    height: int  # rows of the picture shown
    width: int
    placement: Placement | None = None  # over the file's pixels; None if the picture is the same
    whole: Bytes | None = None  # [1, H, W], as it is shown, if requested


class ReaderPool(SandboxPool):
    """Reader processes, each started when it is first needed; see `SandboxPool`.

    Files are refused with an :class:`ImageError` as by `read_image`, and also if they make their
    reader process die, hang or exceed its limits.
    """

    def __init__(self, workers: int | None = None, **limits: Any) -> None:
        super().__init__(read_request, workers, **limits)

    def read(self, path: Path) -> Floats:
        """Read a stored image; see `cxrtext.images.read_image`."""
        return self._read(str(path)).pixels

    def prepare(self, path: Path, square: Preprocessing) -> ReadImage:
        return self._read(str(path), square=square)

    def view_bytes(
        self,
        data: bytes,
        name: str,
        side: int | None = None,
        *,
        frame: int | None = None,
    ) -> Bytes:
        """Read an image for a viewer, [H, W] in 8 bits, its longest side at most ``side``."""
        pixels: Bytes = self._read(name, data, viewed=True, side=side, frame=frame).pixels[0]
        return pixels

    def prepare_bytes(
        self,
        data: bytes,
        name: str,
        square: Preprocessing,
        *,
        whole: bool = False,
        side: int | None = None,
        frame: int | None = None,
    ) -> ReadImage:
        """Decode an image that was sent, into its square and, on request, as it is shown."""
        return self._read(name, data, square=square, whole=whole, side=side, frame=frame)

    def describe_bytes(self, data: bytes, name: str, keywords: Iterable[str]) -> Described:
        """Read what a DICOM header that was sent says about its object."""
        request = {"name": name, "describe": list(keywords)}
        try:
            return Described(**self.ask(request, data[:MAX_HEADER_BYTES])[0])
        except ProcessLost as loss:
            raise ImageError(f"{shown(name)}: {loss.line('read')}") from None

    def map(
        self,
        paths: Iterable[Path],
        *,
        square: Preprocessing | None = None,
        ahead: int | None = None,
    ) -> Iterator[ReadImage | ImageError]:
        """Read stored images in order, or make their squares, several at a time; or say why not."""

        def attempt(path: Path) -> ReadImage | ImageError:
            try:
                return self._read(str(path), square=square)
            except ImageError as error:
                return error

        return self.each(attempt, paths, ahead)

    def _read(
        self,
        name: str,
        data: bytes | None = None,
        *,
        square: Preprocessing | None = None,
        **options: Any,
    ) -> ReadImage:
        sizes = square and square.to_dict()
        request = {"name": name, "stored": data is None, "square": sizes, **options}
        try:
            return image_of(*self.ask(request, data or b""))
        except ProcessLost as loss:
            raise ImageError(f"{shown(name)}: {loss.line('decoded')}") from None


def read_request(request: Any, data: bytes) -> tuple[Any, bytes | memoryview]:
    """Read an image for a request of `ReaderPool`; `image_of` puts the answer together."""
    if "describe" in request:
        with named_errors(request["name"]):
            keywords = request["describe"]
            return asdict(described(wanted_of(data, keywords), keywords)), b""
    name = request["name"]
    sizes = request["square"] and Preprocessing.from_dict(request["square"])
    decode = partial(
        decode_image,
        stored_bytes(Path(name)) if request["stored"] else data,
        name,
        frame=request.get("frame"),
    )
    gray = decode(least=sizes.least if sizes else None)
    made: Samples
    if request.get("viewed"):
        made = _shown(gray, request["side"])
    elif sizes:
        made = sizes.square(gray.bytes(), gray.whole)
    else:
        made = gray.floats()
    pixels = np.ascontiguousarray(made)
    answer: dict[str, Any] = {
        "kind": pixels.dtype.name,
        "shape": pixels.shape,
        "size": gray.size,
        "placement": gray.placement and asdict(gray.placement),
    }
    if not request.get("whole"):
        return answer, pixels.data.cast("B")
    whole = _shown(decode() if gray.whole else gray, request["side"])
    return {**answer, "whole": whole.shape}, pixels.tobytes() + whole.tobytes()


def _shown(gray: Gray, side: int | None) -> Bytes:
    """A decoded image in 8 bits, [1, H, W], shrunk to ``side``."""
    pixels = gray.bytes()
    return pixels if side is None else shrunk(pixels[0], side)[np.newaxis]


def image_of(answer: Any, payload: bytes | memoryview) -> ReadImage:
    """Put the answer of `read_request` together; bytes that do not fit raise a ValueError."""
    height, width = answer["size"]
    if answer["kind"] not in _KINDS:
        raise ValueError("pixels are float32 or uint8")
    whole = None
    if answer.get("whole"):
        end = len(payload) - math.prod(answer["whole"])
        whole = np.frombuffer(payload, dtype=np.uint8)[end:].reshape(answer["whole"])
        payload = payload[:end]
    pixels = np.frombuffer(payload, dtype=np.dtype(answer["kind"])).reshape(answer["shape"])
    placement = Placement(**answer["placement"]) if answer.get("placement") else None
    return ReadImage(pixels, height, width, placement, whole)
