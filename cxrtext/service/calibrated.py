"""Probabilities that mean what they say, for findings whose prompts the checkpoint calibrated."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cxrtext.evaluation import Prompts
from cxrtext.evaluation.calibration import KeptCalibration
from cxrtext.service.answers import FindingScore


def calibrated(
    findings: Sequence[FindingScore],
    calibration: KeptCalibration | None,
    prompts: Mapping[str, Prompts],
) -> list[FindingScore]:
    """Findings with calibrated probabilities where there is a calibration of their prompts.

    Args:
        findings: As the model has them.
        calibration: The checkpoint's, if it has one.
        prompts: The prompts that were asked, by finding.

    Returns:
        The findings in their order; scores stay, and with them which are above 0.
    """
    return [_calibrated(finding, calibration, prompts[finding.finding]) for finding in findings]


def _calibrated(
    finding: FindingScore, calibration: KeptCalibration | None, prompts: Prompts
) -> FindingScore:
    known = calibration.of(finding.finding, prompts) if calibration else None
    if known is None:
        return finding
    probability = float(known.probabilities(finding.score))
    return replace(finding, probability=probability, calibrated=True)
