"""How well scores tell whether a sentence is true, measured on drawn images, where truth is known.

For each distinct sentence of the reports, take the area under the curve of its scores against the
truth of its claim over all images of the cohort; ``truthAUC`` is the mean over sentences.  An image
is right for every sentence that is true of it, whether its own report says so or not.
"""

from dataclasses import replace

import numpy as np
import torch

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.retrieval.sentences import score_matrix
from cxrtext.evaluation.settings import TRUTH, TRUTH_BINS
from cxrtext.metrics.intervals import Area, area, average
from cxrtext.metrics.ranking import patient_codes
from cxrtext.models import ImageTextModel
from cxrtext.phantom.truth import KnownTruth


@torch.inference_mode()
def measure_truth(model: ImageTextModel, cohort: Cohort, known: KnownTruth) -> dict[str, Area]:
    """``truthAUC`` of a model, overall and for each of :data:`TRUTH_BINS`, by name.

    The sentences are those of the cohort's own reports; sentences that are true of all images, or
    of none, are left out.
    """
    texts = [text for text in known.sentences_of(cohort.studies) if text in known.claims]
    claims = [known.claims[text] for text in texts]
    holds = known.holds(claims, cohort.studies)
    told = [at for at, true in enumerate(holds) if true.any() and not true.all()]
    if not told:
        return {}
    codes = patient_codes(cohort.patients, len(cohort.records))
    total = int(codes.max()) + 1
    scores = np.asarray(score_matrix(model, cohort, [texts[at] for at in told]))
    areas = [area(own, holds[at], codes, total) for own, at in zip(scores, told, strict=True)]
    rho = known.rho([claims[at] for at in told])
    means = {}
    for name, (low, high) in {TRUTH: (0.0, 1.0), **TRUTH_BINS}.items():
        part = [area for area, share in zip(areas, rho, strict=True) if low <= share <= high]
        if part:
            means[name] = replace(average(part), rows=(*cohort.studies, name))
    return means
