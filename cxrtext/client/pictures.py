"""The image of a question: a file to send, its bytes, or the id of an indexed one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import ImageError

FILE_NAME = "image"
"""What a file is called on its way: its own name can name a patient."""


@dataclass(frozen=True, slots=True)
class ImageId:
    """An indexed image, by its id."""

    value: str


Picture = Path | bytes | ImageId


def fields_of(picture: Picture | None) -> dict[str, Any]:
    """What a request sends of an image: ``data`` or ``files``, as httpx2 takes them.

    Raises:
        ImageError: The file cannot be read.
    """
    if picture is None:
        return {"data": {}}
    if isinstance(picture, ImageId):
        return {"data": {"image_id": picture.value}}
    return {"data": {}, "files": {"image": (FILE_NAME, bytes_of(picture))}}


def bytes_of(picture: Path | bytes) -> bytes:
    """The bytes of an image file.

    Raises:
        ImageError: The file cannot be read.
    """
    if isinstance(picture, bytes):
        return picture
    try:
        return picture.read_bytes()
    except OSError as error:
        raise ImageError(f"{picture}: {error.strerror}") from None
