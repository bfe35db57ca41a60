"""InfoNCE, no correction.  Source: Wang et al. 2023, eq. 3."""

from cxrtext.training.objectives.shared.objective import Contrast, Direction, Terms, info_nce


class Objective(Contrast):
    def losses(self, d: Direction) -> Terms:
        return info_nce(d)
