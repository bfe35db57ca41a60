"""What an evaluation found."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from cxrtext.evaluation.classification import FindingResult
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.prompts import Prompts
from cxrtext.evaluation.settings import Settings
from cxrtext.evaluation.tasks.grounding import Grounded
from cxrtext.evaluation.tasks.resampling import Resampled
from cxrtext.evaluation.tasks.retrieval import Retrieved
from cxrtext.evaluation.tasks.zero_shot import ZeroShot
from cxrtext.models import ImageTextModel

Interval = tuple[float, float]


@dataclass(slots=True)
class Details:
    """What a report and a comparison need beside the figures; nothing of it is written as JSON.

    Args:
        model: The model.
        cohort: The images.
        prompts: By finding.
        settings: How the evaluation was done.
        zero_shot: Zero-shot classification.
        grounded: Grounding.
        retrieved: Retrieval between images and sentences.
        resampled: Measures on shared resamples, by name.
    """

    model: ImageTextModel
    cohort: Cohort
    prompts: dict[str, Prompts]
    settings: Settings
    zero_shot: ZeroShot | None = None
    grounded: Grounded | None = None
    retrieved: Retrieved | None = None
    resampled: dict[str, Resampled] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured.

    Args:
        checkpoint: The model's folder.
        fingerprint: The model's fingerprint.
        data: The data folder.
        split: The split that was looked at.
        images: Images that were embedded.
        patients: Their patients.
        settings: How it was done.
        classification: Results by finding; empty where the data have no labels.
        classification_intervals: Of ``mean_auc`` and ``mean_accuracy``.
        grounding: "mean", "mean of findings" and "by finding": CNR, mIoU, pointing game, with
            intervals; empty where the data have no boxes.
        box_retrieval: "Recall", "MedR", and both directions between boxes and sentences.
        retrieval: Metrics by direction between images and sentences; empty where the data have no
            reports.
        retrieval_intervals: By direction and measure.
        slices: AUC by column of the manifest and finding, with the gap between groups.
        probe: Linear probes by finding.
        left_out: What could not be measured, and why.
        details: What a report needs beside this.
    """

    checkpoint: str
    fingerprint: str
    data: str
    split: str
    images: int
    patients: int
    settings: dict[str, Any] = field(default_factory=dict)
    classification: dict[str, FindingResult] = field(default_factory=dict)
    classification_intervals: dict[str, Interval] = field(default_factory=dict)
    grounding: dict[str, Any] = field(default_factory=dict)
    box_retrieval: dict[str, Any] = field(default_factory=dict)
    retrieval: dict[str, dict[str, float]] = field(default_factory=dict)
    retrieval_intervals: dict[str, dict[str, Interval]] = field(default_factory=dict)
    slices: dict[str, Any] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    details: Details | None = field(default=None, compare=False, repr=False)

    @property
    def mean_auc(self) -> float | None:
        """Mean of the AUCs, or None where not every finding has one."""
        areas = [result.auc for result in self.classification.values()]
        known = [area for area in areas if area is not None]
        return float(np.mean(known)) if known and len(known) == len(areas) else None

    @property
    def mean_accuracy(self) -> float | None:
        """Mean of the accuracies, or None where not every finding has one."""
        shares = [result.accuracy for result in self.classification.values()]
        known = [share for share in shares if share is not None]
        return float(np.mean(known)) if known and len(known) == len(shares) else None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the details, as it stands in ``metrics.json``."""
        values = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name != "details"
        }
        values["classification"] = {k: asdict(v) for k, v in self.classification.items()}
        return {**values, "mean_auc": self.mean_auc, "mean_accuracy": self.mean_accuracy}
