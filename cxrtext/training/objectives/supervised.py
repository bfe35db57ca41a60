"""SupCon: candidates that share a finding are positives.  Source: Khosla et al. 2020, eq. 2."""

from cxrtext.training.objectives.shared.labels import Labelled
from cxrtext.training.objectives.shared.objective import Direction, Terms


class Objective(Labelled):
    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.contrastive import supervised_terms

        return Terms(supervised_terms(d.scores, d.known["same"], d.positive))
