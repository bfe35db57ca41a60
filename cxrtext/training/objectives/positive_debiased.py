"""Corrects for false positives.  Source: Troeshestova and Isachenko, eq. 12-16."""

from cxrtext.config import Probability
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Terms


class Objective(Contrast):
    tau_plus: Probability = 0.1

    def losses(self, d: Direction) -> Terms:
        import torch

        from cxrtext.objectives.debiasing import positive_debiased_terms

        column = d.positive[:, None]
        positive = d.scores.gather(1, column)
        negative = d.scores.scatter(1, column, -torch.inf)
        # An anchor scores γ² against itself: embeddings are unit vectors before the scaling.
        given = (positive, negative, d.gamma_sq, self.tau_plus, d.gamma_sq)
        return Terms(*positive_debiased_terms(*given))
