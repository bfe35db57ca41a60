"""Contrastive objectives: pure functions of a score matrix, one loss an anchor."""

from cxrtext.objectives import kernels
from cxrtext.objectives.cclk import (
    cclk_fair,
    cclk_floored,
    cclk_hard_negative,
    cclk_weakly_supervised,
)
from cxrtext.objectives.clustering import Clusters, kmeans
from cxrtext.objectives.conditional import conditional_alignment, conditional_uniformity, y_aware
from cxrtext.objectives.contrastive import debiased, debiased_floored, info_nce
from cxrtext.objectives.false_negatives import (
    remove_by_text,
    remove_negatives,
    resample_negatives,
    reweight_negatives,
    same_labels,
)
from cxrtext.objectives.hard import hard_negative, hard_negative_floored
from cxrtext.objectives.positive_debias import positive_debiased, positive_debiased_floored
from cxrtext.objectives.probability import class_probability
from cxrtext.objectives.rows import without_negatives
from cxrtext.objectives.supervision import fair, supervised, weakly_supervised
from cxrtext.objectives.symmetry import symmetric
from cxrtext.objectives.uniformity import alignment_uniformity

__all__ = [
    "Clusters",
    "alignment_uniformity",
    "cclk_fair",
    "cclk_floored",
    "cclk_hard_negative",
    "cclk_weakly_supervised",
    "class_probability",
    "conditional_alignment",
    "conditional_uniformity",
    "debiased",
    "debiased_floored",
    "fair",
    "hard_negative",
    "hard_negative_floored",
    "info_nce",
    "kernels",
    "kmeans",
    "positive_debiased",
    "positive_debiased_floored",
    "remove_by_text",
    "remove_negatives",
    "resample_negatives",
    "reweight_negatives",
    "same_labels",
    "supervised",
    "symmetric",
    "weakly_supervised",
    "without_negatives",
    "y_aware",
]
