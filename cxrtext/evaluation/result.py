"""The result of an evaluation: its figures, and what else a report needs."""

from dataclasses import dataclass, field, fields
from typing import Any

from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.data import DataFolder
from cxrtext.evaluation.predictions.file import Predictions
from cxrtext.evaluation.rows import MEAN, ZERO_SHOT, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.models import ImageTextModel

RESULTS, ABOUT = "results.csv", "evaluation.json"
"""The file of the figures, and the file that says what was measured on what."""
ASIDE = ("rows", "scores", "predictions", "details")
"""Fields of an evaluation that are not in ``evaluation.json``."""


@dataclass(slots=True)
class Details:
    """The model and the data themselves, kept for a new evaluation.

    ``rejects`` are the names of images that could not be read, and why.
    """

    model: ImageTextModel
    folder: DataFolder
    cohort: Cohort
    prompts: dict[str, Prompts]
    settings: Settings
    rejects: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured.

    ``rows`` are all figures; a part is missing if the data do not have what it needs
    (``left_out``).  ``primary``: ``measure``, ``value``, ``low``, ``high`` and ``method`` of the
    primary measure.  ``warnings``: what a reader of the figures must know.  ``recipe``: for a
    benchmark, what ``recipe.json`` says.  ``scores``: by finding, to draw curves from.

    ``details`` is None if the predictions were read from a file.
    """

    checkpoint: str
    fingerprint: str
    data: str
    split: str
    images: int
    patients: int
    settings: dict[str, Any] = field(default_factory=dict)
    primary: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    recipe: dict[str, Any] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    scores: dict[str, FindingScores] = field(default_factory=dict, compare=False, repr=False)
    predictions: Predictions = field(
        default_factory=lambda: Predictions({}, {}), compare=False, repr=False
    )
    details: Details | None = field(default=None, compare=False, repr=False)

    @property
    def findings(self) -> list[str]:
        return [name for name in self.rows.groups(ZERO_SHOT) if name != MEAN]

    @property
    def classified(self) -> Classified | None:
        """What the model said about images and findings."""
        part = self.predictions.parts.get("classification")
        return part if isinstance(part, Classified) else None

    @property
    def by_head(self) -> list[str]:
        """The findings that a head answers for."""
        return list(self.predictions.about.get("by_head", ()))

    @property
    def mean_auc(self) -> float | None:
        """Mean of the AUCs, or None if a finding has none."""
        return self.rows.value(ZERO_SHOT, MEAN, "AUC")

    def about(self) -> dict[str, Any]:
        """The content of ``evaluation.json``: everything but the figures."""
        names = (field.name for field in fields(self))
        return {name: getattr(self, name) for name in names if name not in ASIDE}

    def to_dict(self) -> dict[str, Any]:
        return {**self.about(), "results": self.rows.to_json()}
