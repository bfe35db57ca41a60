"""The experiments on small images by name; needs no torch."""

from collections.abc import Mapping

from cxrtext.experiments.small.cifar10_r import CIFAR10_R
from cxrtext.experiments.small.conditional_uniformity import CONDITIONAL_UNIFORMITY
from cxrtext.experiments.small.definition import Experiment
from cxrtext.experiments.small.fair_cclk import FAIR_CCLK
from cxrtext.experiments.small.hardneg_cclk import HARDNEG_CCLK
from cxrtext.experiments.small.positive_debiased import POSITIVE_DEBIASED
from cxrtext.experiments.small.weaksup_cclk import WEAKSUP_CCLK

SMALL_EXPERIMENTS: Mapping[str, Experiment] = {
    one.name: one
    for one in (
        CIFAR10_R,
        POSITIVE_DEBIASED,
        CONDITIONAL_UNIFORMITY,
        FAIR_CCLK,
        HARDNEG_CCLK,
        WEAKSUP_CCLK,
    )
}
"""In the order of the papers."""
