"""Searching an index: text → images, image → images, image → sentences."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import sha256
from cxrtext.index.catalogue import Catalogue, IndexedImage
from cxrtext.index.layout import CATALOGUE, MEANS, PROTOTYPE_INDEX, SUMMARY, vector_files
from cxrtext.index.prototypes import PROTOTYPES, mean_region
from cxrtext.models import ImageTextModel, load_model

Rows = NDArray[np.int64]

SCAN_BYTES = 64 * 2**20
"""An index whose regions take no more than this is scanned whole; a larger one by candidates."""

CANDIDATES = 200
"""Least number of candidates that are scored exactly."""

CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class ImageHit:
    """An image found, with its score in [−1, 1]."""

    image: IndexedImage
    score: float


@dataclass(frozen=True, slots=True)
class SentenceHit:
    """A sentence found, with its score in [−1, 1] and the number of studies that say it."""

    sentence: str
    score: float
    studies: int


def _best(scores: NDArray[np.float32], k: int) -> tuple[Rows, NDArray[np.float32]]:
    """The k largest scores, largest first; equal scores in the order of their rows."""
    order = np.argsort(-scores, kind="stable")[:k]
    return order, scores[order]


class Index:
    """An open index; a context manager.  Build one with :func:`open_index`.

    Args:
        folder: The index's folder.
        model: The model that made it; scores are its scores.
        catalogue: The open catalogue.
        summary: What ``index.json`` holds.
    """

    def __init__(
        self, folder: Path, model: ImageTextModel, catalogue: Catalogue, summary: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.model = model
        self.catalogue = catalogue
        self.summary = summary
        files = vector_files(folder, catalogue.meta())
        self.images, self.sentences = catalogue.counts()
        self._regions = files["regions"].open(self.images)
        self._bags = files["bags"].open(self.images)
        self._texts = np.array(files["sentences"].open(self.sentences), dtype=np.float32)
        self._scan = self.images * files["regions"].row_bytes <= SCAN_BYTES
        self._chunk = max(1, CHUNK_BYTES // files["regions"].row_bytes)
        self._prototypes = _read_faiss(folder, PROTOTYPE_INDEX, summary, self.images * PROTOTYPES)
        self._means = _read_faiss(folder, MEANS, summary, self.images)

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalogue."""
        self.catalogue.close()

    def regions(self, row: int) -> Tensor:
        """Regions of an indexed image, [N, D] in float32."""
        return torch.from_numpy(np.array(self._regions[row], dtype=np.float32))

    @torch.inference_mode()
    def _score(self, rows: slice | Rows, texts: Tensor) -> NDArray[np.float32]:
        """Exact scores of sentences [Q, D] with some images, [Q, rows]."""
        regions, bags = (
            torch.from_numpy(np.array(part[rows])).to(self.model.device).float()
            for part in (self._regions, self._bags)
        )
        scores: NDArray[np.float32] = (
            self.model.scores_of_bags(regions, bags, texts.to(self.model.device)).cpu().numpy()
        )
        return scores

    def exact(self, texts: Tensor, k: int) -> list[tuple[Rows, NDArray[np.float32]]]:
        """The k best images of each sentence [Q, D] by scanning every image."""
        parts = [
            self._score(slice(start, start + self._chunk), texts)
            for start in range(0, self.images, self._chunk)
        ]
        return [_best(row, k) for row in np.concatenate(parts, axis=1)]

    def by_candidates(
        self, text: Tensor, k: int, candidates: int = CANDIDATES
    ) -> tuple[Rows, NDArray[np.float32]]:
        """The k best images of a sentence [D] among candidates, scored exactly.

        Candidates are the images whose prototypes are nearest to the sentence: at least
        ``candidates`` of them, and ten times k.
        """
        wanted = min(self.images, max(candidates, 10 * k))
        query = text.detach().cpu().numpy().astype(np.float32)[None]
        found: Rows = np.empty(0, dtype=np.int64)
        depth = wanted
        while len(found) < wanted and depth < self._prototypes.ntotal:
            depth = min(2 * depth, self._prototypes.ntotal)
            _, ids = self._prototypes.search(query, depth)
            found = np.unique(ids[0] // PROTOTYPES)
        if not len(found):
            found = np.arange(self.images)
        scores = self._score(found, text[None])[0]
        order, best = _best(scores, k)
        return found[order], best

    def search_text(self, text: Tensor, k: int = 10) -> list[ImageHit]:
        """The k images that fit a sentence embedding [D] best, by the model's own score."""
        rows, scores = self.exact(text[None], k)[0] if self._scan else self.by_candidates(text, k)
        return self._hits(rows, scores)

    def search_image(self, regions: Tensor, k: int = 10) -> list[ImageHit]:
        """The k images most alike to one with regions [N, D]: cosine of the mean regions."""
        query = mean_region(regions[None].float()).cpu().numpy()
        scores, rows = self._means.search(query, min(k, self.images))
        return self._hits(rows[0], scores[0])

    @torch.inference_mode()
    def search_sentences(self, regions: Tensor, k: int = 10) -> list[SentenceHit]:
        """The k indexed sentences that fit an image with regions [N, D] best."""
        if not self.sentences:
            return []
        texts = torch.from_numpy(self._texts).to(self.model.device)
        image = regions[None].to(self.model.device).float()
        scores = self.model.scores(image, texts)[:, 0].cpu().numpy()
        rows, best = _best(scores, k)
        return [
            SentenceHit(sentence, float(score), studies)
            for (sentence, studies), score in zip(
                self.catalogue.sentences(rows.tolist()), best, strict=True
            )
        ]

    def _hits(self, rows: Rows, scores: NDArray[np.float32]) -> list[ImageHit]:
        images = self.catalogue.images(rows.tolist())
        return [ImageHit(image, float(score)) for image, score in zip(images, scores, strict=True)]


def _read_faiss(folder: Path, name: str, summary: dict[str, Any], count: int) -> Any:
    """Read a FAISS file whose digest is the noted one."""
    import faiss

    path = folder / name
    if not path.is_file() or sha256(path) != summary.get("digests", {}).get(name):
        raise CheckpointError(
            f"{path}: missing or damaged (its checksum is not the noted one); run 'cxrtext index' "
            "again to write it anew"
        )
    index = faiss.read_index(str(path))
    if index.ntotal != count:
        raise CheckpointError(f"{path}: holds {index.ntotal} vectors, expected {count}")
    return index


def open_index(folder: str | Path, model: ImageTextModel | str | Path | None = None) -> Index:
    """Open an index for searching.

    Args:
        folder: A folder that 'cxrtext index' wrote.
        model: The model that made it, or its checkpoint; by default the checkpoint that is noted
            in the index.

    Returns:
        The open index.

    Raises:
        CheckpointError: It is no index, is unfinished or damaged, or another model made it.
    """
    folder = Path(folder)
    catalogue = Catalogue(folder / CATALOGUE)
    try:
        summary = _read_summary(folder)
        if not isinstance(model, ImageTextModel):
            model = load_model(model or _noted_checkpoint(folder, summary))
        if summary.get("model") != model.fingerprint:
            raise CheckpointError(
                f"{folder}: made by another model ({str(summary.get('model'))[:12]}…, given "
                f"{model.fingerprint[:12]}…); give the model that made it, or index anew"
            )
        return Index(folder, model, catalogue, summary)
    except BaseException:
        catalogue.close()
        raise


def _read_summary(folder: Path) -> dict[str, Any]:
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = None
    if not isinstance(summary, dict):
        raise CheckpointError(
            f"{folder}: the index is not finished; run the same 'cxrtext index' command again"
        )
    return summary


def _noted_checkpoint(folder: Path, summary: dict[str, Any]) -> str:
    noted = str(summary.get("checkpoint", ""))
    if not (Path(noted) / "config.json").is_file():
        raise CheckpointError(
            f"{folder}: the checkpoint that made this index is no longer at '{noted}'; give its "
            "folder with --model"
        )
    return noted
