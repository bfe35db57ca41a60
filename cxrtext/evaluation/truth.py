"""How well scores tell where a sentence is true: measured where that is known, on drawn images.

``truthAUC`` is, for each distinct sentence of the reports, the area under the curve of its scores
against the truth of its claim over all images of the cohort; the mean over sentences.  An image is
right for every sentence that is true of it, whether its own report says so or not.
"""

from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.intervals.bootstrap import Resampled, draw
from cxrtext.evaluation.metrics import Floats, Truth, quotient
from cxrtext.evaluation.retrieval.sentences import score_matrix
from cxrtext.evaluation.settings import TRUTH, TRUTH_BINS, Settings
from cxrtext.models import ImageTextModel
from cxrtext.phantom.claims import Claim, rho
from cxrtext.phantom.truth import KnownTruth


def areas(
    scores: NDArray[np.float32], truth: Truth, counts: NDArray[np.uint16]
) -> tuple[Floats, Floats]:
    """AUC of each sentence of one claim, [s], and their mean on each resample, [R].

    ``scores`` [s, B] of sentences in images; ``truth`` [B] where the claim is true; ``counts``
    [R, B] are resamples of the images.  NaN for a resample without both truths.

    Source: Mann and Whitney 1947; a tie counts one half.
    """
    positive, negative = scores[:, truth], scores[:, ~truth]
    ahead = np.zeros((positive.shape[1], negative.shape[1]), dtype=np.float32)
    each = np.empty(len(scores))
    for row, (own, other) in enumerate(zip(positive, negative, strict=True)):
        wins = (own[:, None] > other) + 0.5 * (own[:, None] == other).astype(np.float32)
        each[row] = wins.mean(dtype=np.float64)
        ahead += wins
    ahead /= len(scores)
    with_it, without = (counts[:, part].astype(np.float32) for part in (truth, ~truth))
    pairs = with_it.sum(axis=1, dtype=np.float64) * without.sum(axis=1, dtype=np.float64)
    won = ((with_it @ ahead) * without).sum(axis=1, dtype=np.float64)
    return each, quotient(won, pairs)


@torch.inference_mode()
def measure_truth(
    model: ImageTextModel, cohort: Cohort, known: KnownTruth, settings: Settings
) -> dict[str, Resampled]:
    """``truthAUC`` of a model, whole and by :data:`TRUTH_BINS`, with resamples of patients.

    By name.  The sentences are those of the cohort's own reports; a part without a sentence that is
    true of some images and not of others is left out.
    """
    by_claim: dict[Claim, list[str]] = defaultdict(list)
    for text in known.sentences_of(cohort.studies):
        if text in known.claims:
            by_claim[known.claims[text]].append(text)
    telling = {
        claim: true
        for claim, true in zip(by_claim, known.holds(list(by_claim), cohort.studies), strict=True)
        if true.any() and not true.all()
    }
    counts = draw(cohort.patients, settings.resamples, (settings.seed, 5))
    estimates, resampled = {}, {}
    for claim, true in telling.items():
        scores = score_matrix(model, cohort, by_claim[claim])
        each, resampled[claim] = areas(scores, true, counts)
        estimates[claim] = float(each.mean())
    found = {}
    for name, (low, high) in {TRUTH: (0.0, 1.0), **TRUTH_BINS}.items():
        part = [claim for claim in telling if low <= rho(claim) <= high]
        if part:
            weights = np.asarray([len(by_claim[claim]) for claim in part], dtype=np.float64)
            values = _mean(np.stack([resampled[claim] for claim in part]), weights)
            estimate = float(np.average([estimates[claim] for claim in part], weights=weights))
            rows = (*cohort.studies, *(claim.name for claim in part))
            found[name] = Resampled(estimate, values, rows, patients=len(set(cohort.patients)))
    return found


def _mean(values: Floats, weights: Floats) -> Floats:
    """Weighted mean over rows [k, R] of the figures that there are, [R]."""
    there = ~np.isnan(values)
    total = (there * weights[:, None]).sum(axis=0)
    summed = (np.where(there, values, 0.0) * weights[:, None]).sum(axis=0)
    return quotient(summed, total)
