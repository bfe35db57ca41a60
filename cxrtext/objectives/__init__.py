"""Contrastive objectives: pure functions of a score matrix, one loss an anchor."""

from cxrtext.objectives.contrastive import debiased, debiased_floored, info_nce
from cxrtext.objectives.probability import class_probability

__all__ = ["class_probability", "debiased", "debiased_floored", "info_nce"]
