"""Zero-shot labels of a whole archive, from the kept regions: no image is decoded again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation import Prompts, prompt_embeddings
from cxrtext.evaluation.calibration import Calibration, calibrations_of
from cxrtext.index.catalogue import IndexedImage
from cxrtext.index.changes import set_attributes
from cxrtext.index.quantised import unpack
from cxrtext.index.scoring import exact_scores, images_a_piece
from cxrtext.index.search import Index
from cxrtext.index.summary import write_summary
from cxrtext.index.vectors import fetch, rows_of
from cxrtext.index.where import LABEL
from cxrtext.index.writer import set_meta, writing
from cxrtext.models import ImageTextModel


@dataclass(frozen=True, slots=True)
class LabelledImage:
    """An image with its zero-shot labels.

    Args:
        image: The image.
        scores: ``γ² (s_pos − s_neg)`` by finding; above 0 says present.
        probabilities: Their logistic, calibrated where the checkpoint calibrated the prompts.
    """

    image: IndexedImage
    scores: dict[str, float]
    probabilities: dict[str, float]


class Labeller:
    """Labels images by prompts.

    Args:
        model: The model.
        prompts: By finding.
        calibrations: By finding; the others' probabilities are plain logistics.
    """

    def __init__(
        self,
        model: ImageTextModel,
        prompts: Mapping[str, Prompts],
        calibrations: Mapping[str, Calibration],
    ) -> None:
        self._model = model
        self.findings = list(prompts)
        self._calibrations = [calibrations.get(name, Calibration()) for name in prompts]
        self._vectors = prompt_embeddings(model, prompts).flatten(0, 1)

    @torch.inference_mode()
    def scores(self, regions: Tensor) -> NDArray[np.float32]:
        """``γ² (s_pos − s_neg)`` of images with regions [B, N, D], [F, B]."""
        found = exact_scores(self._model, regions, self._vectors)
        found = found.view(len(self.findings), 2, -1)
        gamma_sq = float(self._model.gamma_sq)
        scores: NDArray[np.float32] = (gamma_sq * (found[:, 0] - found[:, 1])).numpy()
        return scores

    def probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities of scores, both [F, B]."""
        rows = zip(self._calibrations, scores, strict=True)
        return np.stack([known.probabilities(row) for known, row in rows]).astype(np.float32)

    def columns(self, regions: Tensor) -> dict[str, NDArray[np.float32]]:
        """Probabilities by the name that filters know them by, each [B]."""
        probabilities = self.probabilities(self.scores(regions))
        return {LABEL + f: p for f, p in zip(self.findings, probabilities, strict=True)}


def label_archive(index: Index, prompts: Mapping[str, Prompts]) -> Iterator[LabelledImage]:
    """Label every image of an index, in the order in which they were indexed.

    Args:
        index: An open index.
        prompts: By finding.

    Raises:
        CheckpointError: The calibration beside the checkpoint is damaged.
    """
    labeller = Labeller(index.model, prompts, calibrations_of(index.model, prompts))
    for numbers, scores in _batches(index, labeller):
        probabilities = labeller.probabilities(scores)
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
        fetch(rows, places[start + step : start + 2 * step])
        yield state.numbers[part], labeller.scores(unpack(rows_of(rows, part)))


def keep_labels(index: Index, prompts: Mapping[str, Prompts], *, wait_s: float = 0.0) -> None:
    """Label every image and keep the probabilities, for filters and cohorts.

    Images added later get these labels, too, by the calibration that the checkpoint has now;
    labels of other prompts are forgotten.

    Args:
        index: An open index.
        prompts: By finding.
        wait_s: How long to queue while another process writes.

    Raises:
        CheckpointError: The calibration beside the checkpoint is damaged.
        DataError: Another process writes.
        WorkError: The index cannot be written.
    """
    calibrations = calibrations_of(index.model, prompts)
    labeller = Labeller(index.model, prompts, calibrations)
    with writing(index.folder, wait_s=wait_s) as catalogue:
        batches = [(n, labeller.probabilities(s).T) for n, s in _batches(index, labeller)]
        forgotten = dict.fromkeys(n for n in catalogue.columns() if n.startswith(LABEL))
        names = [LABEL + finding for finding in labeller.findings]
        with catalogue.transaction(write=True) as database:
            for numbers, rows in batches:
                cells = [
                    {**forgotten, **dict(zip(names, row, strict=True))} for row in rows.tolist()
                ]
                set_attributes(database, zip(numbers.tolist(), cells, strict=True))
            set_meta(database, labels_as_meta(prompts, calibrations))
        write_summary(index.folder, catalogue)


def labels_as_meta(
    prompts: Mapping[str, Prompts], calibrations: Mapping[str, Calibration]
) -> dict[str, str]:
    """How an index labels all of its images, as the catalogue notes it."""
    return {
        "prompts": prompts_as_json(prompts),
        "calibration": json.dumps({n: [c.scale, c.shift] for n, c in calibrations.items()}),
    }


def labeller_of(model: ImageTextModel, noted: Mapping[str, str]) -> Labeller:
    """The labeller that an index's catalogue notes."""
    calibrations = json.loads(noted.get("calibration", "{}"))
    return Labeller(
        model,
        prompts_of_json(noted["prompts"]),
        {name: Calibration(*values) for name, values in calibrations.items()},
    )


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
