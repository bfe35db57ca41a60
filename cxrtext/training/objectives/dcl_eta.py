"""DCL with one class probability for all sentences.  Source: Wang et al. 2023, eq. 6-8."""

from cxrtext.config import Probability
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Terms, debiased


class Objective(Contrast):
    eta: Probability = 0.05

    def losses(self, d: Direction) -> Terms:
        return debiased(d, self.eta)
