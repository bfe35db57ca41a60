"""FAISS structures over the profiles of the images, which name candidates quickly.

The product of an image's profile with a sentence's weights is nearly its score (see
:mod:`cxrtext.index.language`).
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.files import replacing, sha256
from cxrtext.index.turned import Turn, chosen_rows

KINDS = ("flat", "hnsw", "ivfpq")
FLAT_VECTORS = 4_000_000
LEAST_TRAINED = 10_000
"""Vectors below which there is nothing to train a quantiser on: they are kept flat."""

LINKS = 32
BUILD_EFFORT = 80
SAMPLE = 64
"""Vectors a cell that the cells are trained on."""

CHUNK = 16_384
MAX_BYTES = 2**38

DEEP, DEEP_SHARE = 5_000, 0.05
"""Images, and share of all images, past which a list of candidates is no short cut any more."""

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a structure is searched.

    Args:
        kind: One of :data:`KINDS`.
        depth: Images asked for.
        effort: ``efSearch`` or ``nprobe``; 0 where there is none.
        recall_at_10: As measured at that depth and effort.
        reranked: Mean share of the images that the exact search scores.
        novelty: Highest novelty of a sentence that was measured with.
        queries: How many were.
    """

    kind: str
    depth: int
    effort: int
    recall_at_10: float | None = None
    reranked: float | None = None
    novelty: float = 1.0
    queries: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As the catalogue notes it."""
        return asdict(self)


def choose_kind(vectors: int, kind: str = "auto") -> str:
    """The kind of structure for a number of vectors, unless one is asked for."""
    if kind not in (*KINDS, "auto"):
        raise ValueError(f"no structure '{kind}'; there are auto, {', '.join(KINDS)}")
    if vectors < LEAST_TRAINED and kind == "ivfpq":
        return "flat"
    if kind != "auto":
        return kind
    return "flat" if vectors <= FLAT_VECTORS else "ivfpq"


def build_structure(profiles: NDArray[Any], path: Path, kind: str) -> tuple[str, Turn]:
    """Write the FAISS structure of profiles [places, n]; gives its digest.

    The id of a vector is its image's place.
    """
    faiss = _faiss()
    turn = Turn.of(profiles, fill=kind != "flat")
    index = _empty(kind, len(profiles), turn.dimension)
    if not index.is_trained:
        index.train(turn.vectors(chosen_rows(profiles, SAMPLE * index.nlist)))
    for start in range(0, len(profiles), CHUNK):
        index.add(turn.vectors(profiles[start : start + CHUNK]))
    with replacing(path) as temporary:
        faiss.write_index(index, str(temporary))
        return sha256(temporary), turn


def _faiss() -> Any:
    """FAISS, whose type hints leave out what Python sees of it."""
    import faiss

    return faiss


def _empty(kind: str, count: int, D: int) -> Any:
    faiss = _faiss()
    if kind == "flat":
        return faiss.IndexFlatIP(D)
    if kind == "hnsw":
        index = faiss.IndexHNSWSQ(D, faiss.ScalarQuantizer.QT_fp16, LINKS)
        index.hnsw.efConstruction = BUILD_EFFORT
        return index
    cells = max(16, min(round(4 * math.sqrt(count)), count // SAMPLE))
    parts = next(parts for parts in range(max(1, D // 2), 0, -1) if D % parts == 0)
    return faiss.IndexIVFPQ(faiss.IndexFlatL2(D), D, cells, parts, 8)


def read_structure(path: Path, digest: str, places: int, D: int) -> Any:
    """Read a FAISS file, if it is the one that the catalogue names.

    Raises:
        CheckpointError: It is missing, or has changed.
    """
    import faiss

    if not path.is_file() or sha256(path) != digest:
        raise CheckpointError(
            f"{path}: missing or damaged (its checksum is not the noted one); run 'cxrtext index "
            f"{path.parent} --rebuild' to derive it anew"
        )
    faiss.set_deserialization_vector_byte_limit(MAX_BYTES)
    index = faiss.read_index(str(path))
    if (index.ntotal, index.d) != (places, D):
        raise CheckpointError(
            f"{path}: holds {index.ntotal} vectors of {index.d} numbers, expected "
            f"{places} of {D}; run 'cxrtext index {path.parent} --rebuild'"
        )
    return index


def is_deep(depth: int, images: int) -> bool:
    """Whether so deep a list of candidates of so many images saves nothing."""
    return depth >= min(images, max(DEEP, round(DEEP_SHARE * images)))


def nearest_places(
    index: Any, vector: NDArray[np.float32], tuning: Tuning, allowed: NDArray[np.bool_] | None
) -> Places:
    """Places of the images that score highest by their profiles, in rising order.

    Args:
        index: The structure.
        vector: What is looked for, from :meth:`cxrtext.index.turned.Turn.query`.
        tuning: How it is searched.
        allowed: [places], the images that may be named; None for all.
    """
    if not index.ntotal:
        return np.empty(0, dtype=np.int64)
    faiss = _faiss()
    selector = None
    if allowed is not None:
        bits = np.packbits(allowed, bitorder="little")
        selector = faiss.IDSelectorBitmap(index.ntotal, faiss.swig_ptr(bits))
    depth = min(tuning.depth, index.ntotal)
    if tuning.kind == "hnsw":
        parameters = faiss.SearchParametersHNSW(sel=selector, efSearch=max(tuning.effort, depth))
    elif tuning.kind == "ivfpq":
        parameters = faiss.SearchParametersIVF(sel=selector, nprobe=max(1, tuning.effort))
    else:
        parameters = faiss.SearchParameters(sel=selector)
    _, ids = index.search(vector[None], depth, params=parameters)
    found: Places = np.sort(ids[0][ids[0] >= 0]).astype(np.int64)
    return found
