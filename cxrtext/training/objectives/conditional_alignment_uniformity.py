"""Conditional alignment and uniformity.  Source: Dufumier et al. 2021, eq. 2 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from cxrtext.config import Weight
from cxrtext.errors import WorkError
from cxrtext.training.objectives.shared.metadata import WithKernel
from cxrtext.training.objectives.shared.objective import Direction, Terms

if TYPE_CHECKING:
    from torch import Tensor


class Objective(WithKernel):
    weight: Weight = 1.0

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for kernel in self.kernel:
            if kernel.name in ("linear", "polynomial"):
                raise ValueError(
                    f"kernel: {kernel.name} has no largest value, which uniformity needs; "
                    "take rbf, laplacian, cosine or delta"
                )
        return self

    def check(self, kernel: Tensor, positive: Tensor) -> dict[str, Any]:
        """A batch in which nothing can be repelled may be measured but not trained on."""
        from cxrtext.objectives.conditional import check_repulsion, check_shares, weights_of

        weights = weights_of(kernel, positive)
        with self.defined():
            check_shares(weights)
        try:
            with self.defined():
                check_repulsion(weights, weights.shape[1])
        except WorkError as error:
            return {"undefined": str(error)}
        return {}

    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.conditional import (
            conditional_alignment_terms,
            conditional_uniformity_terms,
            weights_of,
        )

        weights = weights_of(d.known["kernel"], d.positive)
        alignment = conditional_alignment_terms(d.scores, weights)
        if undefined := d.known.get("undefined"):
            if d.scores.requires_grad:
                raise WorkError(undefined)
            return Terms(alignment)
        return Terms(alignment + self.weight * conditional_uniformity_terms(d.scores, weights))
