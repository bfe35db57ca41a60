"""What lies in an index folder."""

from collections.abc import Mapping
from pathlib import Path

from cxrtext.index.prototypes import PROTOTYPES
from cxrtext.index.vectors import VectorFile

CATALOGUE = "catalogue.sqlite"
SUMMARY = "index.json"
LOCK = "writer.lock"
PROTOTYPE_INDEX = "prototypes.faiss"
MEANS = "means.faiss"


def vector_files(folder: Path, meta: Mapping[str, str]) -> dict[str, VectorFile]:
    """The vector files: regions and bags [N, D], prototypes [P, D], sentences [D].

    Args:
        folder: The index's folder.
        meta: What the catalogue notes: ``regions`` is N, ``dimension`` is D.
    """
    N, D = int(meta["regions"]), int(meta["dimension"])
    return {
        "regions": VectorFile(folder / "regions.f16", (N, D)),
        "bags": VectorFile(folder / "bags.f16", (N, D)),
        "prototypes": VectorFile(folder / "prototypes.f32", (PROTOTYPES, D), "<f4"),
        "sentences": VectorFile(folder / "sentences.f32", (D,), "<f4"),
    }
