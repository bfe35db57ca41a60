"""Calibrations of made-up numbers."""

from collections.abc import Mapping
from typing import Any

from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    prompts_digest,
)


def calibration_of(model: str, prompts: Mapping[str, Prompts], **numbers: Any) -> KeptCalibration:
    """The same numbers for each of some prompts, of a model by its fingerprint."""
    findings = {
        name: FindingCalibration(prompts=prompts_digest(one), positives=10, negatives=20, **numbers)
        for name, one in prompts.items()
    }
    return KeptCalibration(fingerprint=model, data="d", measured=("test", 12), findings=findings)
