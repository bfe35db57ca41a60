"""Zero-shot labels of a whole archive, from the kept regions: no image is decoded again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation import Prompts, prompt_embeddings
from cxrtext.index.catalogue import IndexedImage
from cxrtext.index.changes import set_attributes
from cxrtext.index.quantised import unpack
from cxrtext.index.scoring import exact_scores, images_a_piece
from cxrtext.index.search import Index
from cxrtext.index.summary import write_summary
from cxrtext.index.where import LABEL
from cxrtext.index.writer import set_meta, writing
from cxrtext.models import ImageTextModel


@dataclass(frozen=True, slots=True)
class LabelledImage:
    """An image with its zero-shot labels.

    Args:
        image: The image.
        scores: ``γ² (s_pos − s_neg)`` by finding; above 0 says present.
        probabilities: Their logistic, not calibrated.
    """

    image: IndexedImage
    scores: dict[str, float]
    probabilities: dict[str, float]


class Labeller:
    """Labels images by prompts.

    Args:
        model: The model.
        prompts: By finding.
    """

    def __init__(self, model: ImageTextModel, prompts: Mapping[str, Prompts]) -> None:
        self._model = model
        self.findings = list(prompts)
        self._vectors = prompt_embeddings(model, prompts).flatten(0, 1)

    @torch.inference_mode()
    def scores(self, regions: Tensor) -> NDArray[np.float32]:
        """``γ² (s_pos − s_neg)`` of images with regions [B, N, D], [F, B]."""
        found = exact_scores(self._model, regions, self._vectors)
        found = found.view(len(self.findings), 2, -1)
        gamma_sq = float(self._model.gamma_sq)
        scores: NDArray[np.float32] = (gamma_sq * (found[:, 0] - found[:, 1])).numpy()
        return scores

    def columns(self, regions: Tensor) -> dict[str, NDArray[np.float32]]:
        """Probabilities by the name that filters know them by, each [B]."""
        probabilities = logistic(self.scores(regions))
        return {LABEL + f: p for f, p in zip(self.findings, probabilities, strict=True)}


def logistic(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """``1 / (1 + e^{−s})``."""
    probabilities: NDArray[np.float32] = torch.from_numpy(scores).sigmoid().numpy()
    return probabilities


def label_archive(index: Index, prompts: Mapping[str, Prompts]) -> Iterator[LabelledImage]:
    """Label every image of an index, in the order in which they were indexed.

    Args:
        index: An open index.
        prompts: By finding.
    """
    labeller = Labeller(index.model, prompts)
    for numbers, scores in _batches(index, labeller):
        probabilities = logistic(scores)
        for i, image in enumerate(index.catalogue.images(numbers.tolist())):
            if image is not None:
                yield LabelledImage(
                    image,
                    dict(zip(labeller.findings, scores[:, i].tolist(), strict=True)),
                    dict(zip(labeller.findings, probabilities[:, i].tolist(), strict=True)),
                )


def _batches(
    index: Index, labeller: Labeller
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Numbers [b] and scores [F, b] of every image."""
    state = index.state
    places = np.flatnonzero(state.numbers >= 0)
    rows = state.arrays["regions"]
    step = images_a_piece(rows.shape[1], index.model.spec.dimension)
    for start in range(0, len(places), step):
        part = places[start : start + step]
        yield state.numbers[part], labeller.scores(unpack(rows[part]))


def keep_labels(index: Index, prompts: Mapping[str, Prompts], *, wait_s: float = 0.0) -> None:
    """Label every image and keep the probabilities, for filters and cohorts.

    Images added later get these labels, too; labels of other prompts are forgotten.

    Args:
        index: An open index.
        prompts: By finding.
        wait_s: How long to queue while another process writes.

    Raises:
        DataError: Another process writes.
        WorkError: The index cannot be written.
    """
    labeller = Labeller(index.model, prompts)
    with writing(index.folder, wait_s=wait_s) as catalogue:
        batches = [(n, logistic(scores).T) for n, scores in _batches(index, labeller)]
        forgotten = dict.fromkeys(n for n in catalogue.columns() if n.startswith(LABEL))
        names = [LABEL + finding for finding in labeller.findings]
        with catalogue.transaction(write=True) as database:
            for numbers, rows in batches:
                cells = [
                    {**forgotten, **dict(zip(names, row, strict=True))} for row in rows.tolist()
                ]
                set_attributes(database, zip(numbers.tolist(), cells, strict=True))
            set_meta(database, {"prompts": prompts_as_json(prompts)})
        write_summary(index.folder, catalogue)


def prompts_as_json(prompts: Mapping[str, Prompts]) -> str:
    """Prompts as the catalogue notes them."""
    return json.dumps(
        {name: {"positive": p.positive, "negative": p.negative} for name, p in prompts.items()},
        ensure_ascii=False,
    )


def prompts_of_json(noted: str) -> dict[str, Prompts]:
    """Prompts that the catalogue notes."""
    return {
        name: Prompts(tuple(sides["positive"]), tuple(sides["negative"]))
        for name, sides in json.loads(noted).items()
    }
