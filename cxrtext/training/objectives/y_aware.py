"""y-Aware InfoNCE.  Source: Dufumier et al. 2021, eq. 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cxrtext.training.objectives.shared.metadata import WithKernel
from cxrtext.training.objectives.shared.objective import Direction, Terms

if TYPE_CHECKING:
    from torch import Tensor


class Objective(WithKernel):
    def check(self, kernel: Tensor, positive: Tensor) -> dict[str, Any]:
        from cxrtext.objectives.conditional import check_shares, weights_of

        with self.defined():
            check_shares(weights_of(kernel, positive))
        return {}

    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.conditional import weights_of, y_aware_terms

        return Terms(y_aware_terms(d.scores, weights_of(d.known["kernel"], d.positive)))
