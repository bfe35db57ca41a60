"""The papers' experiments by name; needs no torch."""

from collections.abc import Mapping

from cxrtext.experiments.experiment import Experiment
from cxrtext.experiments.papers.cclk import FAIR_CCLK, HARDNEG_CCLK, WEAKSUP_CCLK
from cxrtext.experiments.papers.cifar10_r import CIFAR10_R
from cxrtext.experiments.papers.conditional_uniformity import CONDITIONAL_UNIFORMITY
from cxrtext.experiments.papers.positive_debiased import POSITIVE_DEBIASED

_ALL = (CIFAR10_R, POSITIVE_DEBIASED, CONDITIONAL_UNIFORMITY, FAIR_CCLK, HARDNEG_CCLK, WEAKSUP_CCLK)
SMALL_EXPERIMENTS: Mapping[str, Experiment] = {one.name: one for one in _ALL}
"""In the order of the papers."""

EXPERIMENTS: Mapping[str, str] = {
    "table1": "every correction for false negatives, trained with an equal budget",
    "sweep": "how much each of them corrects: η, a, k, threshold, R, β",
    **{name: one.summary for name, one in SMALL_EXPERIMENTS.items()},
}
"""Name, and what it shows."""
