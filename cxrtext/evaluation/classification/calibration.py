"""What a checkpoint keeps of its prompts: their calibration, and what thresholds do."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from cxrtext.evaluation.classification.heads import BetterHeads
from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.kept import Kept, KeptFile, Share
from cxrtext.evaluation.rows import YOUDEN
from cxrtext.metrics.calibration import Calibration
from cxrtext.models import ImageTextModel

CALIBRATION = "calibration.json"
"""In a checkpoint's folder: its prompts, and what was fitted with these and no others."""
Measured = tuple[Share, Share, Share]
"""A share, and the low and the high end of its 95 % interval."""


POOLED = "pooled"
"""The operating point of all groups together."""


class OperatingPoint(Kept):
    """A threshold of scores that validation images chose, and what it does to the images measured.

    Above it a finding is called present.  A share is None where it is of fewer than 25 patients or
    its interval is wider than .3; predictive values are of the prevalence of the images measured.
    """

    threshold: float
    sensitivity: Measured | None
    specificity: Measured | None
    ppv: Measured | None = None
    npv: Measured | None = None
    prevalence: Measured | None = None


class FindingCalibration(Kept):
    """Calibration of a finding: probability is the logistic of ``scale · score + shift``.

    ``positives`` and ``negatives`` count the validation images.  On the images measured: expected
    calibration error before and after, AUC, and ``points`` by how their threshold was chosen; None
    or empty where they could not be measured.  ``groups``: by "column=value" of the manifest
    a point of the same specificity, the first that an image is of counts; None of too few images.
    """

    scale: Annotated[float, Field(gt=0)]
    shift: float
    positives: int
    negatives: int
    by_head: bool = False  # whether the scores were a head's, not the prompts'
    error_before: float | None = None
    error_after: float | None = None
    auc: Measured | None = None
    points: dict[str, OperatingPoint] = Field(default_factory=dict)
    groups: dict[str, OperatingPoint | None] = Field(default_factory=dict)

    @property
    def calibration(self) -> Calibration:
        return Calibration(self.scale, self.shift)

    def point_of(self, image: Mapping[str, str]) -> tuple[str, OperatingPoint | None]:
        """The point for an image of some metadata, and the group that it is of."""
        named = {f"{column}={value}" for column, value in image.items()}
        for name, point in self.groups.items():
            if point is not None and name in named:
                return name, point
        return POOLED, self.points.get(YOUDEN)


class KeptCalibration(KeptFile):
    """A checkpoint's prompts, and the calibration of the findings that could be calibrated.

    ``measured`` is the split on which errors were measured, and how many images it has.
    """

    FILE = CALIBRATION

    format: Literal["cxrtext calibration"] = "cxrtext calibration"
    version: Literal[3] = 3
    measured: tuple[str, int]
    prompts: dict[str, Prompts]
    findings: dict[str, FindingCalibration]

    def measured_of(
        self, finding: str, prompts: Prompts, *, by_head: bool
    ) -> FindingCalibration | None:
        """What was fitted and measured of a finding asked with some prompts, or by a head."""
        found = self.findings.get(finding) if self.prompts.get(finding) == prompts else None
        return found if found and found.by_head == by_head else None


def prompts_beside(model: ImageTextModel) -> dict[str, Prompts]:
    """The prompts that a model's checkpoint keeps; CheX5's where it keeps none."""
    kept = KeptCalibration.beside(model)
    return dict(CHEX5_PROMPTS if kept is None else kept.prompts)


def calibrations_of(
    model: ImageTextModel, prompts: Mapping[str, Prompts]
) -> dict[str, Calibration]:
    """The calibration of each finding whose prompts the model's checkpoint calibrated."""
    if (kept := KeptCalibration.beside(model)) is None:
        return {}
    by_head = BetterHeads(model.heads, prompts).findings
    found = {
        name: kept.measured_of(name, asked, by_head=name in by_head)
        for name, asked in prompts.items()
    }
    return {name: known.calibration for name, known in found.items() if known}
