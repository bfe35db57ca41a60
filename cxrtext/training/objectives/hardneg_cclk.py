"""HardNeg-CCLK: Fair-CCLK with the anchors' own embeddings as z.

Source: Tsai et al. 2022 (CCL-K), eq. 9.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from cxrtext.config import Ridge
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.metadata import (
    Kernel,
    Kernels,
    cclk,
    check_kernels,
    of_first_sentences,
)
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Source, Terms

if TYPE_CHECKING:
    from torch import Tensor


class Objective(Contrast):
    ridge: Ridge = 0.1
    kernel: Kernels = ()

    @model_validator(mode="after")
    def _kernels(self) -> Self:
        check_kernels(self.kernel, 1)
        return self

    def prepare(self, source: Source) -> Ask:
        """``known["rounds"]``: the images' first sentences, their second ones, and so on."""

        def ask(drawn: Drawn) -> dict[str, Any]:
            # Sentences, grouped by how many earlier ones their image has.
            of = drawn.image_of
            earlier = (of[:, None] == of).tril(diagonal=-1).sum(dim=1)
            turns = range(int(earlier.max()) + 1)
            return {"rounds": tuple((earlier == n).nonzero().flatten() for n in turns)}

        return ask

    def gram(self, z: Tensor) -> Tensor:
        """The Gram matrix [n, n] of embeddings."""
        from cxrtext.objectives import kernels

        kernel = self.kernel[0] if self.kernel else Kernel.model_validate({})
        return kernels.gram(kernel.name, z, kernel.sigma or 1.0)

    def losses(self, d: Direction) -> Terms:
        return cclk(d, self.ridge, fair=True)

    def directions(self, forward: Direction) -> list[Terms]:
        """The z of each anchor is its own embedding.

        A candidate image needs the z of one of its own sentences, so the images' first sentences,
        their second ones and so on are computed in turn.
        """
        import torch

        assert forward.texts is not None  # noqa: S101 - training gives them
        rounds, image_of, own = forward.known["rounds"], forward.positive, forward.texts
        parts = []
        for anchors in rounds:
            z = own[: forward.scores.shape[1]].index_copy(0, image_of[anchors], own[anchors])
            part = replace(
                forward,
                scores=forward.scores[anchors],
                positive=image_of[anchors],
                eta=forward.eta[anchors],
                known={"kernel": self.gram(z)},
            )
            parts.append(self.losses(part))
        order = torch.cat(list(rounds)).argsort()
        floored = [part.floored for part in parts if part.floored is not None]
        losses = torch.cat([part.losses for part in parts])
        terms = [Terms(losses[order], torch.cat(floored)[order])]
        if self.symmetric:
            known = {"kernel": self.gram(own[: forward.scores.shape[1]])}
            terms.append(self.losses(replace(of_first_sentences(forward), known=known)))
        return terms
