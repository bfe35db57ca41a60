"""Removes negatives with similar text.  Source: Wang et al. 2023, table 1."""

from typing import Annotated, ClassVar

from pydantic import Field

from cxrtext.training.objectives.shared.objective import Direction, Terms, removed
from cxrtext.training.objectives.shared.texts import ComparingTexts


class Objective(ComparingTexts):
    threshold: Annotated[float, Field(ge=-1, le=1)] = 0.7
    more_negatives: ClassVar = "raise objective.threshold"

    def losses(self, d: Direction) -> Terms:
        return removed(d, d.known["similarity"] > self.threshold)
