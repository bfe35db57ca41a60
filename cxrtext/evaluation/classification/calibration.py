"""What a checkpoint keeps about its prompts: their calibration, and the effect of thresholds."""

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
"""File in a checkpoint's folder: its prompts, and what was fitted with exactly these."""
Measured = tuple[Share, Share, Share]
"""A share, and the low and the high end of its 95 % interval."""


POOLED = "pooled"
"""The operating point of all groups together."""


class OperatingPoint(Kept):
    """A score threshold chosen on validation images, and its effect on the images measured.

    Above it a finding is called present.  A share is None with fewer than 25 patients, or if its
    interval is wider than .3; predictive values hold at the prevalence of the images measured.
    """

    threshold: float
    sensitivity: Measured | None
    specificity: Measured | None
    ppv: Measured | None = None
    npv: Measured | None = None
    prevalence: Measured | None = None


class FindingCalibration(Kept):
    """Calibration of a finding: probability is the logistic of ``scale · score + shift``.

    ``positives`` and ``negatives`` count the validation images.  The images measured give expected
    calibration error before and after, AUC, and ``points`` by how their threshold was chosen; None
    or empty if they could not be measured.  ``groups`` has a point of the same specificity for
    each "column=value" of the manifest, None with too few images; an image uses the first group
    it belongs to.
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
        """The point for an image with this metadata, and the image's group."""
        named = {f"{column}={value}" for column, value in image.items()}
        for name, point in self.groups.items():
            if point is not None and name in named:
                return name, point
        return POOLED, self.points.get(YOUDEN)


class KeptCalibration(KeptFile):
    """A checkpoint's prompts, and the calibration of the findings that could be calibrated.

    ``measured`` is the split on which errors were measured, and its number of images.
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
        """What was fitted and measured for a finding with these prompts, or by a head."""
        kept = self.findings.get(finding) if self.prompts.get(finding) == prompts else None
        return kept if kept and kept.by_head == by_head else None


def prompts_beside(model: ImageTextModel) -> dict[str, Prompts]:
    """The prompts that a model's checkpoint keeps, or else CheX5's."""
    kept = KeptCalibration.beside(model)
    return dict(CHEX5_PROMPTS if kept is None else kept.prompts)


def calibrations_of(
    model: ImageTextModel, prompts: Mapping[str, Prompts]
) -> dict[str, Calibration]:
    """The calibration of each finding that the model's checkpoint has for these prompts."""
    if (kept := KeptCalibration.beside(model)) is None:
        return {}
    by_head = BetterHeads(model.heads, prompts).findings
    fitted = {
        name: kept.measured_of(name, asked, by_head=name in by_head)
        for name, asked in prompts.items()
    }
    return {name: entry.calibration for name, entry in fitted.items() if entry}
