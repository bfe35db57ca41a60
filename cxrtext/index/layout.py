"""What lies in an index folder."""

from collections.abc import Mapping
from pathlib import Path

from cxrtext.index.vectors import VectorFile
from cxrtext.models.quantised import SCALE_BYTES

SUMMARY = "index.json"
LOCK = "writer.lock"

SENTENCES = "sentences"
OF_IMAGES = ("regions", "sketch", "profiles", "means")
"""Vector files with one row an image."""

SCATTERED = ("regions", "sketch")
"""Those with large rows, of which a search reads some here and there."""


def vector_files(folder: Path, meta: Mapping[str, str]) -> dict[str, VectorFile]:
    """The vector files of the generation that the catalogue names.

    ``regions`` holds what is scored, ``sketch`` what bounds are computed from (see
    :mod:`cxrtext.index.sketch`), ``profiles`` the scores at the landmarks, which name candidates
    (see :mod:`cxrtext.index.language`), ``means`` the mean region, ``sentences`` the vectors of
    the sentences.

    Args:
        folder: The index's folder.
        meta: What the catalogue notes: ``regions`` is N, ``dimension`` is D, ``sketch`` is m,
            ``landmarks`` is n.
    """
    N, D, m, n = (int(meta[name]) for name in ("regions", "dimension", "sketch", "landmarks"))
    bits = ((N, D + SCALE_BYTES), "|i1") if meta["storage"] == "int8" else ((N, D), "<f2")
    shapes = {
        "regions": bits,
        "sketch": ((2, m + 1, N), "<f2"),
        "profiles": ((n,), "<f2"),
        "means": ((D,), "<f4"),
        SENTENCES: ((D,), "<f4"),
    }
    generation = int(meta["generation"])
    return {
        name: VectorFile(folder / f"{name}.{generation:06d}.vectors", *shape)
        for name, shape in shapes.items()
    }


def named(folder: Path, meta: Mapping[str, str], structures: set[str]) -> set[Path]:
    """Every vector and FAISS file that belongs to the index."""
    return {file.path for file in vector_files(folder, meta).values()} | {
        folder / name for name in structures
    }


def strays(folder: Path, belonging: set[Path]) -> list[Path]:
    """Files that a killed writer left behind."""
    found = [*folder.glob("*.vectors"), *folder.glob("*.faiss"), *folder.glob(".*.tmp.faiss")]
    return [path for path in found if path not in belonging]
