"""What an evaluation gives: its figures, and what a report needs beside them."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from cxrtext.evaluation.classification.finding import FindingResult
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.classification.zero_shot import MEANS, ZeroShot
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.data import DataFolder
from cxrtext.evaluation.grounding.phrases import Grounded
from cxrtext.evaluation.intervals.bootstrap import Interval
from cxrtext.evaluation.intervals.comparison import Compared
from cxrtext.evaluation.intervals.methods import interval_methods
from cxrtext.evaluation.predictions.file import Predictions
from cxrtext.evaluation.retrieval.sentences import Wording
from cxrtext.evaluation.settings import Settings
from cxrtext.models import ImageTextModel

ASIDE = ("details", "measured", "predictions")
"""Fields of an evaluation that do not stand in ``metrics.json``."""


@dataclass(slots=True)
class Details:
    """The model and the data themselves, where an evaluation was just made.

    ``rejects`` are the names of images that could not be read, and why.
    """

    model: ImageTextModel
    folder: DataFolder
    cohort: Cohort
    prompts: dict[str, Prompts]
    settings: Settings
    wording: Wording | None = None
    rejects: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Measured:
    """What figures and comparisons are drawn from.

    ``compared`` has the measures that models are compared by, by name.
    """

    zero_shot: ZeroShot | None = None
    grounded: Grounded | None = None
    compared: dict[str, Compared] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured; a part is empty where the data lack what it needs (``left_out``).

    ``primary``: ``measure``, ``value``, ``low``, ``high`` and ``method`` of the primary measure.
    ``classification``: by finding; its intervals are of ``mean_auc`` and the other means.
    ``grounding``: "mean", "mean of findings" and "by finding": CNR, mIoU, pointing game, with
    intervals.  ``box_retrieval``: "Recall", "MedR", and both directions between boxes and
    sentences.  ``retrieval``: by direction between images and sentences; intervals by direction
    and measure.  ``slices``: AUC by column of the manifest and finding, with the gap between
    groups.  ``probe``: linear probes by finding.  ``operating``: by finding what thresholds do,
    calibration slope and intercept, net benefit.  ``multiclass``: findings as classes.  ``sides``:
    left against right.  ``masks``: Dice and pixel AUROC.  ``absence``: phrases without a box.
    ``warnings``: what a reader of the figures has to know.  ``recipe``: of a benchmark, what
    ``recipe.json`` says.

    ``details`` are there where the evaluation was just made, and not where its predictions were
    read again.
    """

    checkpoint: str
    fingerprint: str
    data: str
    split: str
    images: int
    patients: int
    settings: dict[str, Any] = field(default_factory=dict)
    primary: dict[str, Any] = field(default_factory=dict)
    classification: dict[str, FindingResult] = field(default_factory=dict)
    classification_intervals: dict[str, Interval] = field(default_factory=dict)
    grounding: dict[str, Any] = field(default_factory=dict)
    box_retrieval: dict[str, Any] = field(default_factory=dict)
    retrieval: dict[str, dict[str, float]] = field(default_factory=dict)
    retrieval_intervals: dict[str, dict[str, Interval]] = field(default_factory=dict)
    slices: dict[str, Any] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    operating: dict[str, Any] = field(default_factory=dict)
    multiclass: dict[str, Any] = field(default_factory=dict)
    sides: dict[str, Any] = field(default_factory=dict)
    masks: dict[str, Any] = field(default_factory=dict)
    absence: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    recipe: dict[str, Any] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured, compare=False, repr=False)
    predictions: Predictions | None = field(default=None, compare=False, repr=False)
    details: Details | None = field(default=None, compare=False, repr=False)

    def mean_of(self, name: str) -> float | None:
        """Mean of a measure over findings, or None where not every finding has a value."""
        values = [getattr(result, name) for result in self.classification.values()]
        return float(np.mean(values)) if values and None not in values else None

    @property
    def mean_auc(self) -> float | None:
        """Mean of the AUCs, or None where not every finding has one."""
        return self.mean_of("auc")

    @property
    def mean_accuracy(self) -> float | None:
        """Mean of the accuracies, or None where not every finding has one."""
        return self.mean_of("accuracy")

    def to_dict(self) -> dict[str, Any]:
        """The figures, as they stand in ``metrics.json``."""
        values = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ASIDE
        }
        values["classification"] = {k: asdict(v) for k, v in self.classification.items()}
        values["interval_methods"] = interval_methods()
        return {**values, **{f"mean_{name}": self.mean_of(name) for name in MEANS.values()}}
