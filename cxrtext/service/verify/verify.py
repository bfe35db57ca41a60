"""How well an image supports each sentence of a report."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from torch import Tensor

from cxrtext.images import Geometry
from cxrtext.index.features.scoring import exact_scores
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing
from cxrtext.service.answers import EmbeddedImage, Grounding, ground_grid
from cxrtext.service.verify.reference import Compared, ReferenceScores, percentile
from cxrtext.service.verify.sentences import ReportSentence
from cxrtext.text.wording import Wording, wording
from cxrtext.verdicts.judge import Judge, Judgment, Verdict

Source = Literal["validation", "index", "none"]


@dataclass(frozen=True, slots=True)
class ReferenceUsed:
    """The images that scores were compared with; "validation" are kept with the checkpoint."""

    source: Source
    images: int


@dataclass(frozen=True, slots=True)
class SupportedSentence(ReportSentence):
    """A sentence of a report, and how well an image supports it."""

    wording: Wording  # whether it affirms, denies or hedges
    support: float | None  # per cent of the reference images that fit it less; None without any
    judgment: Judgment  # the verdict and its basis
    grounding: Grounding  # its score and where it fits best in the image

    @property
    def score(self) -> float:
        """Score of the whole image, in [−1, 1]."""
        return self.grounding.score

    @property
    def verdict(self) -> Verdict:
        """Whether the image supports it, by thresholds calibrated on validation images."""
        return self.judgment.verdict


@dataclass(frozen=True, slots=True)
class Verification:
    sentences: tuple[SupportedSentence, ...]  # in the order of the report
    reference: ReferenceUsed


@torch.inference_mode()
def verify_sentences(
    model: ImageTextModel,
    texts: Tensor,
    image: EmbeddedImage,
    reference: ReferenceScores | None,
    sentences: Sequence[ReportSentence],
    judge: Judge,
    threshold: float | None = None,
) -> Pausing[Verification]:
    """How well an image supports each of S ≥ 1 sentences of a report; with pauses.

    Args:
        texts: [S, D], embeddings of the sentences.
        reference: Other images, the basis of support and of heatmap colors.
        threshold: The lowest score of a region that counts for the boxes; see `ground_grid`.
    """
    regions = image.regions[None].float().to(model.device)
    grids = model.maps(regions, texts)[:, 0].cpu().numpy()
    scores = exact_scores(model, regions, texts)[:, 0].tolist()
    side = math.isqrt(regions.shape[1])
    others: Sequence[Compared | None] = [None] * len(sentences)
    used = ReferenceUsed("none", 0)
    if reference is not None:
        images = reference.reference
        source: Source = "validation" if images.source == "validation" else "index"
        used = ReferenceUsed(source, len(images))
        others = yield from reference.of([one.sentence for one in sentences], texts)
    evidence = None if image.is_unlike else judge.evidence(model, regions)
    yield
    geometry = Geometry(image.height, image.width, model.spec.preprocessing)
    supported = []
    for one, grid, score, other in zip(sentences, grids, scores, others, strict=True):
        scale = None if other is None else other.scale
        supported.append(
            SupportedSentence(
                **asdict(one),
                wording=wording(one.sentence),
                support=None if other is None else percentile(score, other.scores),
                judgment=judge.judge(one.sentence, evidence),
                grounding=ground_grid(grid.reshape(side, side), score, geometry, threshold, scale),
            )
        )
        yield
    return Verification(tuple(supported), used)
