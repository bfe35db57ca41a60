"""WeaklySup-CCLK.  Source: Tsai et al. 2022 (CCL-K), eq. 7."""

from cxrtext.config import Ridge
from cxrtext.training.objectives.shared.metadata import WithKernel, cclk
from cxrtext.training.objectives.shared.objective import Direction, Terms


class Objective(WithKernel):
    ridge: Ridge = 0.1

    def losses(self, d: Direction) -> Terms:
        return cclk(d, self.ridge, fair=False)
