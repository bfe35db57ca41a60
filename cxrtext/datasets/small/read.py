"""One way in for every file of small images, told apart by what is there."""

from pathlib import Path

from cxrtext.datasets.small.archive import read_npz
from cxrtext.datasets.small.cifar import is_cifar_folder, read_cifar_archive, read_cifar_folder
from cxrtext.datasets.small.folders import is_image_folder, read_image_folder
from cxrtext.datasets.small.idx import is_idx_folder, read_idx_folder
from cxrtext.datasets.small.images import Kind, SmallImages
from cxrtext.errors import DataError

ACCEPTED: dict[Kind, str] = {
    "cifar10": "cifar-10-python.tar.gz or cifar-10-binary.tar.gz, a folder with their files, an "
    ".npz of x_train, y_train, x_test, y_test, or a folder of train/<class>/*.png and test/…",
    "mnist": "a folder with the four idx files (plain or .gz), an .npz of x_train, y_train, "
    "x_test, y_test, or a folder of train/<class>/*.png and test/…",
}
"""What can be given, in words."""


def read_small_images(path: Path, kind: Kind) -> SmallImages:
    """Read CIFAR-10 or MNIST from whatever standard file there is.

    Args:
        path: A folder, a ``.tar.gz`` or an ``.npz``; of idx files also one of the four.
        kind: "cifar10" or "mnist".

    Returns:
        Both parts, [n, C, H, W] 8-bit.

    Raises:
        DataError: There is nothing that can be read; the line says what can.
    """
    if path.is_dir():
        return _read_folder(path, kind)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder; give {ACCEPTED[kind]}")
    name = path.name.lower()
    if name.endswith(".npz"):
        return read_npz(path, kind)
    if kind == "cifar10" and name.endswith((".tar.gz", ".tgz", ".tar")):
        return read_cifar_archive(path)
    if kind == "cifar10" and is_cifar_folder(path.parent):
        return read_cifar_folder(path.parent)
    if kind == "mnist" and is_idx_folder(path.parent):
        return read_idx_folder(path.parent)
    raise DataError(f"{path}: no file of {kind}; give {ACCEPTED[kind]}")


def _read_folder(folder: Path, kind: Kind) -> SmallImages:
    if kind == "cifar10" and is_cifar_folder(folder):
        return read_cifar_folder(folder)
    if kind == "mnist" and is_idx_folder(folder):
        return read_idx_folder(folder)
    if is_image_folder(folder):
        return read_image_folder(folder, kind)
    inside = {"cifar10": "cifar-10-batches-py", "mnist": "raw"}
    for name in (inside[kind], "cifar-10-batches-bin"):
        if (folder / name).is_dir():
            return _read_folder(folder / name, kind)
    raise DataError(f"{folder}: holds no {kind}; give {ACCEPTED[kind]}")
