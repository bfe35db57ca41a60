"""What a reader process does: an image named or sent, to pixels as they are wanted."""

from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.images.isolated_prepare import Preparation, ReadImage, prepare_image
from cxrtext.images.read import Window, decode_image, stored_bytes

_KINDS = ("float32", "uint8")


def request_for(
    name: str,
    frame: int | None,
    window: Window | None,
    preparation: Preparation,
    *,
    stored: bool,
) -> dict[str, Any]:
    """Say what is wanted, as `read_request` takes it.

    Args:
        name: A path where the image is stored, else what to call it.
        frame: As in `cxrtext.images.read_image`.
        window: As in `cxrtext.images.read_image`.
        preparation: What to make of the image.
        stored: Whether the file is to be opened, or comes with the request.

    Raises:
        ValueError: When ``window`` is a tuple of another length than 2.
    """
    if isinstance(window, tuple) and len(window) != 2:
        raise ValueError("window is an index, a name or (centre, width)")
    return {
        "name": name,
        "stored": stored,
        "frame": frame,
        "window": window,
        "preparation": preparation.to_dict(),
    }


def read_request(request: Any, data: bytes) -> tuple[Any, memoryview]:
    """Read an image.

    Args:
        request: From `request_for`.
        data: The file, where it is not stored.

    Returns:
        Kind and sizes, and the bytes of the pixels; `image_of` puts them together.

    Raises:
        ImageError: As in `cxrtext.images.read_image`.
    """
    window, name = request["window"], request["name"]
    grey = decode_image(
        stored_bytes(Path(name)) if request["stored"] else data,
        name,
        frame=request["frame"],
        window=tuple(window) if isinstance(window, list) else window,
    )
    read = prepare_image(grey, Preparation.from_dict(request["preparation"]))
    pixels = np.ascontiguousarray(read.pixels)
    told = {
        "kind": pixels.dtype.name,
        "shape": pixels.shape,
        "size": [read.height, read.width],
    }
    return told, pixels.data.cast("B")


def image_of(answer: Any, payload: bytes | memoryview) -> ReadImage:
    """Put together what `read_request` gave.

    Raises:
        ValueError: When the bytes do not fit what was told of them.
    """
    height, width = answer["size"]
    if answer["kind"] not in _KINDS:
        raise ValueError("pixels are float32 or uint8")
    pixels = np.frombuffer(payload, dtype=np.dtype(answer["kind"])).reshape(answer["shape"])
    return ReadImage(pixels, height, width)
