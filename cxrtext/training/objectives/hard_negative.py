"""Gives near negatives more weight, then DCL.  Source: Robinson et al. 2021."""

from cxrtext.config import Beta, Probability
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Terms


class Objective(Contrast):
    tau_plus: Probability = 0.1
    beta: Beta = 1.0

    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.debiasing import hard_negative_terms

        return Terms(*hard_negative_terms(d.rows, self.tau_plus, self.beta, d.gamma_sq))
