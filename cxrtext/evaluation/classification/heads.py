"""Findings that a head ranks better than its prompts: its logits in place of theirs."""

from collections.abc import Mapping

from torch import Tensor

from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.models.heads import FindingHeads


def heads_for(heads: FindingHeads | None, prompts: Mapping[str, Prompts]) -> list[str]:
    """The findings that have a head which was compared with just these prompts."""
    asked = {} if heads is None else heads.asked
    return [
        name
        for name, one in prompts.items()
        if asked.get(name) == {"positive": list(one.positive), "negative": list(one.negative)}
    ]


class BetterHeads:
    """Heads of a checkpoint that rank validation images better than some prompts.

    ``findings`` are theirs.
    """

    def __init__(self, heads: FindingHeads | None, prompts: Mapping[str, Prompts]) -> None:
        self._heads = heads
        own = heads_for(heads, prompts)
        self.findings = [name for name in own if heads and heads.figures[name].is_better]
        self._asked = [list(prompts).index(name) for name in self.findings]
        self._rows = heads.rows(self.findings) if heads else []

    def put(self, regions: Tensor, scores: Tensor) -> Tensor:
        """Scores [F, B] of the prompts in images with regions [B, N, D], theirs in place."""
        if self._heads is None or not self._rows:
            return scores
        found = scores.clone()
        found[self._asked] = self._heads.logits(regions)[self._rows].to(scores)
        return found
