"""Scores of single pairs of an image and a sentence, without the matrix of all of them."""

from collections.abc import Sequence

import numpy as np
import torch

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.metrics import Floats
from cxrtext.models import ImageTextModel

PAIRS_AT_ONCE = 256
"""Pairs whose images and sentences are scored at the same time; bounds memory."""


@torch.inference_mode()
def score_pairs(
    model: ImageTextModel, cohort: Cohort, rows: Sequence[int], texts: Sequence[str]
) -> Floats:
    """Image-sentence scores times γ², float64 [n], of the images at some rows and n sentences."""
    distinct = list(dict.fromkeys(texts))
    vectors = model.embed_sentences(distinct)
    number = {text: place for place, text in enumerate(distinct)}
    found = np.empty(len(rows))
    order = np.argsort(np.asarray(rows, dtype=np.int64), kind="stable").tolist()
    for start in range(0, len(order), PAIRS_AT_ONCE):
        some = order[start : start + PAIRS_AT_ONCE]
        images = list(dict.fromkeys(rows[pair] for pair in some))
        said = list(dict.fromkeys(number[texts[pair]] for pair in some))
        regions = cohort.regions[images].to(model.device).float()
        scores = (model.gamma_sq * model.scores(regions, vectors[said])).double().cpu().numpy()
        column = {row: place for place, row in enumerate(images)}
        line = {row: place for place, row in enumerate(said)}
        for pair in some:
            found[pair] = scores[line[number[texts[pair]]], column[rows[pair]]]
    return found
