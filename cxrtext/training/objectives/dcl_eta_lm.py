"""DCL with the class probability of each sentence.  Source: Wang et al. 2023, eq. 6-8."""

from cxrtext.training.objectives.shared.objective import Contrast, Direction, Terms, debiased


class Objective(Contrast):
    def losses(self, d: Direction) -> Terms:
        return debiased(d, d.eta)
