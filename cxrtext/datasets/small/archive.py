"""Small images in an .npz file."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from cxrtext.datasets.small.images import Kind, SmallImages, assemble
from cxrtext.datasets.small.limits import MOST_BYTES
from cxrtext.errors import DataError
from cxrtext.files import DAMAGED_ARCHIVE

NEEDED = ("x_train", "y_train", "x_test", "y_test")


def _require_small(path: Path) -> None:
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MOST_BYTES:
        raise DataError(
            f"{path}: takes {size} bytes when it is decompressed, more than {MOST_BYTES}; this is "
            "no set of small images"
        )


def _load(path: Path) -> dict[str, Any]:
    _require_small(path)
    with np.load(path, allow_pickle=False) as held:
        missing = [name for name in NEEDED if name not in held.files]
        if missing:
            raise DataError(f"{path}: holds no array '{missing[0]}'; it wants {', '.join(NEEDED)}")
        return {name: held[name] for name in (*NEEDED, "label_names") if name in held.files}


def read_npz(path: Path, kind: Kind) -> SmallImages:
    """Read an .npz file of ``x_train``, ``y_train``, ``x_test``, ``y_test``, ``label_names``.

    The last may be missing. Images are [n, H, W], [n, H, W, C] or [n, C, H, W].

    Raises:
        DataError: The file is damaged, too large, or lacks an array.
    """
    try:
        held = _load(path)
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not a readable .npz file ({type(error).__name__}); it wants "
            f"{', '.join(NEEDED)}"
        ) from None
    names = tuple(str(name) for name in held["label_names"]) if "label_names" in held else None
    return assemble(
        path, kind, (held["x_train"], held["y_train"]), (held["x_test"], held["y_test"]), names
    )
