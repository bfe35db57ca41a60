"""WeaklySup-InfoNCE: positives within clusters of metadata.  Source: Tsai et al. 2022, eq. 3."""

from cxrtext.training.objectives.shared.metadata import Clustered
from cxrtext.training.objectives.shared.objective import Direction, Terms


class Objective(Clustered):
    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.contrastive import supervised_terms

        return Terms(supervised_terms(d.scores, self.same(d), d.positive))
