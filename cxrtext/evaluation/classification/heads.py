"""Findings with a head that ranks better than their prompts: its logits replace the scores."""

from collections.abc import Mapping

from torch import Tensor

from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.models.heads import FindingHeads


def heads_for(heads: FindingHeads | None, prompts: Mapping[str, Prompts]) -> list[str]:
    """The findings with a head that was compared with exactly these prompts."""
    asked = {} if heads is None else heads.asked
    return [
        name
        for name, texts in prompts.items()
        if asked.get(name) == {"positive": list(texts.positive), "negative": list(texts.negative)}
    ]


class BetterHeads:
    """A checkpoint's heads that rank validation images better than these prompts.

    ``findings`` are the findings of these heads.
    """

    def __init__(self, heads: FindingHeads | None, prompts: Mapping[str, Prompts]) -> None:
        self._heads = heads
        own = heads_for(heads, prompts)
        self.findings = [name for name in own if heads and heads.figures[name].is_better]
        self._asked = [list(prompts).index(name) for name in self.findings]
        self._rows = heads.rows(self.findings) if heads else []

    def put(self, regions: Tensor, scores: Tensor) -> Tensor:
        """Put the heads' logits into prompt scores [F, B] of images with regions [B, N, D]."""
        if self._heads is None or not self._rows:
            return scores
        mixed = scores.clone()
        mixed[self._asked] = self._heads.logits(regions)[self._rows].to(scores)
        return mixed
