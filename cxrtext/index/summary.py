"""``index.json``: what an index holds, for people and scripts; derived from the catalogue."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cxrtext.files import write_json
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.layout import SUMMARY, vector_files


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What an index holds after it was changed.

    Args:
        images: Images in it.
        added: Images added by this run.
        sentences: Distinct sentences in it.
        recall_at_10: Share of the exact ten best images that the fast search finds, over a
            sample of sentences.
        rejected: Where the images set aside are listed, or None.
        replaced: Images that took the place of one of their name.
        reranked: Mean share of the images that the exact search has to score.
        candidates: Kind of the FAISS structure, and how many candidates are scored.
    """

    images: int
    added: int
    sentences: int
    recall_at_10: float | None
    rejected: Path | None = None
    replaced: int = 0
    reranked: float | None = None
    candidates: str = ""


def summary_dict(summary: IndexSummary) -> dict[str, Any]:
    """A summary as JSON takes it."""
    return {**asdict(summary), "rejected": str(summary.rejected) if summary.rejected else None}


def write_summary(folder: Path, catalogue: Catalogue) -> dict[str, Any]:
    """Write ``index.json`` anew; gives what it holds."""
    meta = catalogue.meta()
    images, sentences = catalogue.counts()
    structures = {
        name: {
            "file": file,
            "digest": digest,
            "places": places,
            **{key: value for key, value in json.loads(detail).items() if key != "turn"},
        }
        for name, file, digest, places, detail in catalogue.database.execute(
            "SELECT * FROM structures"
        )
    }
    found = structures.get("profiles", {})
    value = {
        "format": "cxrtext index",
        "schema": int(meta["schema_version"]),
        "model": meta["model"],
        "checkpoint": meta["checkpoint"],
        "images": images,
        "sentences": sentences,
        "holes": int(meta["places"]) - images,
        "storage": meta["storage"],
        "generation": int(meta["generation"]),
        "bytes": {
            name: file.path.stat().st_size if file.path.is_file() else 0
            for name, file in vector_files(folder, meta).items()
        },
        "structures": structures,
        "recall_at_10": found.get("recall_at_10"),
        "reranked": found.get("reranked"),
    }
    write_json(folder / SUMMARY, value)
    return value
