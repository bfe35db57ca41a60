"""Zero-shot labels of a whole archive from its regions; no image is decoded again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import HeldError
from cxrtext.evaluation import Prompts, prompt_embeddings
from cxrtext.evaluation.classification.calibration import calibrations_of
from cxrtext.evaluation.classification.heads import BetterHeads
from cxrtext.index.changes import set_attributes
from cxrtext.index.features.scoring import exact_scores, images_a_piece
from cxrtext.index.search.archive import Archive
from cxrtext.index.search.index import Index
from cxrtext.index.store.catalogue import UNLIKE, IndexedImage, set_meta
from cxrtext.index.store.vectors import fetch, rows_of
from cxrtext.index.store.writer import write_summary, writing
from cxrtext.metrics.calibration import Calibration
from cxrtext.models import ImageTextModel
from cxrtext.models.familiar import Familiar
from cxrtext.models.regions import EmbeddedBatch, unpack
from cxrtext.records.manifest import LABEL


@dataclass(frozen=True, slots=True)
class LabeledImage:
    image: IndexedImage
    scores: dict[str, float]  # ``γ² (s_pos − s_neg)`` by finding; above 0 means present
    probabilities: dict[str, float]  # their logistic, calibrated if the checkpoint is


class Labeler:
    """Labels images by prompts; findings without a calibration get the plain logistic."""

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
        self.heads = BetterHeads(model.heads, prompts)

    @torch.inference_mode()
    def scores(self, regions: Tensor) -> NDArray[np.float32]:
        """``γ² (s_pos − s_neg)``, or a head's logit, [F, B] for regions [B, N, D]."""
        sides = exact_scores(self._model, regions, self._vectors).view(len(self.findings), 2, -1)
        differences = float(self._model.gamma_sq) * (sides[:, 0] - sides[:, 1])
        scores: NDArray[np.float32] = self.heads.put(regions, differences).numpy()
        return scores

    def probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities of scores, both [F, B]."""
        rows = zip(self._calibrations, scores, strict=True)
        return np.stack([known.probabilities(row) for known, row in rows]).astype(np.float32)

    def columns(self, regions: Tensor) -> dict[str, NDArray[np.float32]]:
        """Probabilities by their column names in filters, each [B]."""
        probabilities = self.probabilities(self.scores(regions))
        return {LABEL + f: p for f, p in zip(self.findings, probabilities, strict=True)}


def unlike_column(
    familiar: Familiar | None, model: ImageTextModel, part: EmbeddedBatch
) -> dict[str, NDArray[np.float32]]:
    """How unlike the training images these are, distance over limit [B]; {} if unknown."""
    if familiar is None or familiar.images is None:
        return {}
    distances = familiar.images.of(part.looks(model.spec.preprocessing))
    return {UNLIKE: np.array([one.share for one in distances], dtype=np.float32)}


def label_archive(archive: Archive, prompts: Mapping[str, Prompts]) -> Iterator[LabeledImage]:
    labeler = Labeler(archive.model, prompts, calibrations_of(archive.model, prompts))
    for numbers, scores in _batches(archive, labeler):
        probabilities = labeler.probabilities(scores)
        for i, image in enumerate(archive.catalogue.images(numbers.tolist())):
            if image is not None:
                yield LabeledImage(
                    image,
                    dict(zip(labeler.findings, scores[:, i].tolist(), strict=True)),
                    dict(zip(labeler.findings, probabilities[:, i].tolist(), strict=True)),
                )


def _batches(
    index: Index, labeler: Labeler
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Numbers [b] and scores [F, b] of every image."""
    snapshot = index.snapshot
    places, rows = snapshot.live, snapshot.arrays["regions"]
    step = images_a_piece(rows.shape[1], index.model.spec.dimension)
    for start in range(0, len(places), step):
        some = places[start : start + step]
        fetch(rows, places[start + step : start + 2 * step])
        yield snapshot.numbers[some], labeler.scores(unpack(rows_of(rows, some)))


def keep_labels(archive: Archive, prompts: Mapping[str, Prompts]) -> None:
    """Label every image and keep the probabilities, for filters and cohorts.

    Images added later get these labels, too, with the checkpoint's present calibration; labels of
    other prompts are dropped.
    """
    calibrations = calibrations_of(archive.model, prompts)
    labeler = Labeler(archive.model, prompts, calibrations)
    names = [LABEL + finding for finding in labeler.findings]
    with writing(archive.folder) as catalogue:
        if (now := archive.renewed()) is None:
            raise HeldError(f"{archive.folder}: was given another model meanwhile; try again")
        batches = [(n, labeler.probabilities(s).T) for n, s in _batches(now, labeler)]
        forgotten = dict.fromkeys(n for n in catalogue.columns() if n.startswith(LABEL))
        with catalogue.transaction(write=True) as database:
            for numbers, rows in batches:
                cells = [
                    {**forgotten, **dict(zip(names, row, strict=True))} for row in rows.tolist()
                ]
                set_attributes(database, zip(numbers.tolist(), cells, strict=True))
            set_meta(database, labels_as_meta(prompts, calibrations))
        write_summary(archive.folder, catalogue)


def labels_as_meta(
    prompts: Mapping[str, Prompts], calibrations: Mapping[str, Calibration]
) -> dict[str, str]:
    noted = {name: asdict(one) for name, one in prompts.items()}
    return {
        "prompts": json.dumps(noted, ensure_ascii=False),
        "calibration": json.dumps({n: [c.scale, c.shift] for n, c in calibrations.items()}),
    }


def labeler_of(model: ImageTextModel, noted: Mapping[str, str]) -> Labeler:
    calibrations = json.loads(noted.get("calibration", "{}"))
    return Labeler(
        model,
        prompts_of_json(noted["prompts"]),
        {name: Calibration(*values) for name, values in calibrations.items()},
    )


def phrases_of(prompts: Mapping[str, Prompts]) -> list[str]:
    return [phrase for one in prompts.values() for phrase in (*one.positive, *one.negative)]


def prompts_of_json(noted: str) -> dict[str, Prompts]:
    return {
        name: Prompts(tuple(sides["positive"]), tuple(sides["negative"]))
        for name, sides in json.loads(noted).items()
    }
