"""Removes negatives that share a finding.  Source: Wang et al. 2023, table 1."""

from typing import ClassVar

from cxrtext.training.objectives.shared.labels import Labelled
from cxrtext.training.objectives.shared.objective import Direction, Terms, removed


class Objective(Labelled):
    more_negatives: ClassVar = "name fewer findings in objective.findings"

    def losses(self, d: Direction) -> Terms:
        return removed(d, d.known["same"])
