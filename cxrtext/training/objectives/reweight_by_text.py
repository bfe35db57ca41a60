"""Gives negatives with similar text less weight.  Source: Wang et al. 2023, table 1."""

from cxrtext.config import Beta
from cxrtext.training.objectives.shared.objective import Direction, Terms
from cxrtext.training.objectives.shared.texts import ComparingTexts


class Objective(ComparingTexts):
    beta: Beta = 1.0

    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.contrastive import reweighted_terms

        return Terms(reweighted_terms(d.rows, d.known["similarity"], self.beta))
