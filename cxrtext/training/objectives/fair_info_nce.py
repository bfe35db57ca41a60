"""Fair-InfoNCE: negatives from the anchor's own cluster.  Source: Tsai et al. 2022, eq. 4."""

from typing import ClassVar

from cxrtext.training.objectives.shared.metadata import Clustered
from cxrtext.training.objectives.shared.objective import Direction, Terms, removed


class Objective(Clustered):
    more_negatives: ClassVar = "give fewer objective.clusters"

    def losses(self, d: Direction) -> Terms:
        return removed(d, ~self.same(d))
