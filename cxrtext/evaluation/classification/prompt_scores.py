"""Scores of prompts in images: the part of zero-shot classification that needs a model."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.metrics.ranking import Floats
from cxrtext.models import ImageTextModel


def prompt_embeddings(model: ImageTextModel, prompts: Mapping[str, Prompts]) -> Tensor:
    """Unit vectors of prompts, [F, 2, D], positive first; several for one side are averaged."""
    sides = [side for entry in prompts.values() for side in (entry.positive, entry.negative)]
    vectors = model.embed_sentences([phrase for side in sides for phrase in side])
    means = [part.mean(dim=0) for part in vectors.split([len(side) for side in sides])]
    return F.normalize(torch.stack(means), dim=-1).view(len(prompts), 2, -1)


def score_differences(model: ImageTextModel, regions: Tensor, prompts: Tensor) -> Tensor:
    """Scaled scores of the positive prompt minus the negative one.

    Regions [B, N, D] and the prompts [F, 2, D] of :func:`prompt_embeddings` give
    ``γ² (s_pos − s_neg)``, [F, B].
    """
    F_, _, D = prompts.shape
    scores = model.scores(regions, prompts.reshape(2 * F_, D)).view(F_, 2, -1)
    return model.gamma_sq * (scores[:, 0] - scores[:, 1])


def scorer(model: ImageTextModel, prompts: Mapping[str, Prompts]) -> Callable[[Tensor], Floats]:
    """A function from regions [B, N, D] to scores [2, F, B]; the prompts are embedded once.

    It scores the positive and the negative prompts, times γ²; several phrasings for one side have
    their vectors averaged.
    """
    vectors = prompt_embeddings(model, prompts).flatten(0, 1)

    @torch.inference_mode()
    def score(regions: Tensor) -> Floats:
        scores = model.scores(regions, vectors).double()  # [2F, B]
        scaled = model.gamma_sq * scores.view(len(prompts), 2, -1).transpose(0, 1)
        numbers: Floats = scaled.cpu().numpy()
        return numbers

    return score
