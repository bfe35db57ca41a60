"""Calibrations of made-up numbers."""

from collections.abc import Mapping
from typing import Any

from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
)


def calibration_of(model: str, prompts: Mapping[str, Prompts], **numbers: Any) -> KeptCalibration:
    """The same numbers for each of some prompts, of a model by its fingerprint."""
    one = FindingCalibration(positives=10, negatives=20, **numbers)
    return KeptCalibration(
        fingerprint=model, data="d", measured=("test", 12), prompts=dict(prompts),
        findings=dict.fromkeys(prompts, one),
    )  # fmt: skip
