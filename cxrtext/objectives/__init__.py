"""Contrastive objectives: pure functions of a score matrix, with one loss per anchor.

``scores`` is [A, C], anchors in rows and candidates in columns, already multiplied by γ²; an entry
of −inf is not a candidate and is not counted in N.  ``positive`` is [A], int64, the column of each
row's positive; by default the diagonal.  ``kernel`` is [C, C], a Gram matrix of the candidates'
metadata or embeddings from :mod:`~cxrtext.objectives.kernels`.  A loss is [A], in nats, unless its
docstring says otherwise.  Wrong shapes, values out of range, and a positive that is not a candidate
raise ``ValueError``.
"""

from cxrtext.objectives import kernels
from cxrtext.objectives.conditional import (
    alignment_uniformity,
    cclk_fair,
    cclk_hard_negative,
    cclk_weakly_supervised,
    conditional_alignment,
    conditional_uniformity,
    y_aware,
)
from cxrtext.objectives.contrastive import (
    fair,
    info_nce,
    remove_by_text,
    remove_negatives,
    resample_negatives,
    reweight_negatives,
    same_labels,
    supervised,
    weakly_supervised,
)
from cxrtext.objectives.debiasing import (
    class_probability,
    debiased,
    hard_negative,
    positive_debiased,
)
from cxrtext.objectives.scores import without_negatives

__all__ = [
    "alignment_uniformity",
    "cclk_fair",
    "cclk_hard_negative",
    "cclk_weakly_supervised",
    "class_probability",
    "conditional_alignment",
    "conditional_uniformity",
    "debiased",
    "fair",
    "hard_negative",
    "info_nce",
    "kernels",
    "positive_debiased",
    "remove_by_text",
    "remove_negatives",
    "resample_negatives",
    "reweight_negatives",
    "same_labels",
    "supervised",
    "weakly_supervised",
    "without_negatives",
    "y_aware",
]
