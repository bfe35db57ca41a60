"""Small images as PNG files in a folder for each class."""

from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from cxrtext.datasets.small.images import NAMES, SIDES, Kind, Pixels, SmallImages, assemble
from cxrtext.datasets.small.limits import MOST_BYTES
from cxrtext.errors import DataError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
ALIASES = {"plane": "airplane", "car": "automobile"}
"""Names that some copies of CIFAR-10 use."""


def is_image_folder(folder: Path) -> bool:
    """Whether a folder has the folders ``train`` and ``test``."""
    return all((folder / part).is_dir() for part in ("train", "test"))


def _read_image(path: Path, kind: Kind) -> Pixels:
    channels, side = SIDES[kind]
    try:
        with Image.open(path) as image:
            if image.size != (side, side):  # known before anything is decoded
                raise DataError(
                    f"{path}: is {image.size[0]} × {image.size[1]}; {kind} images are "
                    f"{side} × {side}"
                )
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError) as error:
        raise DataError(f"{path}: not a readable image ({type(error).__name__})") from None
    return pixels.reshape(side, side, channels)


def _files(folder: Path, names: tuple[str, ...]) -> list[tuple[Path, int]]:
    files = []
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        name = ALIASES.get(place.name.lower(), place.name.lower())
        if name not in names:
            raise DataError(f"{place}: is no class; there are {', '.join(names)}")
        listed = sorted(path for path in place.iterdir() if path.suffix.lower() in ENDINGS)
        files += [(path, names.index(name)) for path in listed]
    return files


def read_image_folder(folder: Path, kind: Kind) -> SmallImages:
    """Read ``train/<class>/*.png`` and ``test/<class>/*.png``.

    Raises:
        DataError: A folder is no class, or an image is not readable or of another size.
    """
    channels, side = SIDES[kind]
    parts = []
    for part in ("train", "test"):
        files = _files(folder / part, NAMES[kind])
        if len(files) * channels * side * side > MOST_BYTES:
            raise DataError(f"{folder / part}: holds {len(files)} images, too many to keep at once")
        images = [_read_image(path, kind) for path, _ in files]
        pixels = np.stack(images) if images else np.zeros((0, side, side, channels), np.uint8)
        parts.append((pixels, np.asarray([label for _, label in files], dtype=np.int64)))
    return assemble(folder, kind, parts[0], parts[1])
