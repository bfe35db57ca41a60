"""Calibration that a checkpoint carries: for the prompts it was fitted with, and no others."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.evaluation.calibration import Calibration
from cxrtext.evaluation.classification import FindingResult
from cxrtext.evaluation.prompts import Prompts
from cxrtext.evaluation.result import Evaluation
from cxrtext.files import read_sealed, write_sealed
from cxrtext.models import ImageTextModel

CALIBRATION = "calibration.json"
FORMAT, VERSION = "cxrtext calibration", 1

_AGAIN = "make it again with 'cxrtext evaluate CHECKPOINT --data DIR --calibrate'"


@dataclass(frozen=True, slots=True)
class FindingCalibration:
    """Calibration of one finding.

    Args:
        scale: Probability is the logistic of ``scale · score + shift``.
        shift: See above.
        prompts: Digest of the prompts it was fitted with.
        positives: Validation images with the finding.
        negatives: Validation images without it.
        error_before: Expected calibration error on the images measured, before; None where it
            could not be measured.
        error_after: Likewise, after.
        auc: Area under the ROC curve on the images measured, and its 95 % interval; None where it
            could not be measured.
    """

    scale: float
    shift: float
    prompts: str
    positives: int
    negatives: int
    error_before: float | None = None
    error_after: float | None = None
    auc: tuple[float, float, float] | None = None

    @property
    def calibration(self) -> Calibration:
        """Scale and shift."""
        return Calibration(self.scale, self.shift)


@dataclass(frozen=True, slots=True)
class KeptCalibration:
    """Calibration of a checkpoint's findings.

    Args:
        fingerprint: The model's.
        data: The data folder's name; not its path.
        measured: The split on which the errors were measured, and how many images it has.
        findings: By finding; one that could not be calibrated is not there.
    """

    fingerprint: str
    data: str
    measured: tuple[str, int]
    findings: dict[str, FindingCalibration]

    def of(self, finding: str, prompts: Prompts) -> Calibration | None:
        """The calibration of a finding asked with some prompts; None where it has none."""
        found = self.findings.get(finding)
        if found is None or found.prompts != prompts_digest(prompts):
            return None
        return found.calibration


def prompts_digest(prompts: Prompts) -> str:
    """SHA-256 of a finding's prompts, in hexadecimal."""
    sides = [list(prompts.positive), list(prompts.negative)]
    return sha256(json.dumps(sides).encode()).hexdigest()


def calibration_of(evaluation: Evaluation) -> tuple[KeptCalibration, list[str]]:
    """The calibration that an evaluation fitted on validation images.

    Args:
        evaluation: Just done, with its details.

    Returns:
        It, and a line about each finding that is left out.

    Raises:
        ConfigError: The evaluation averaged scores, which a service does not.
        DataError: No finding could be calibrated.
    """
    details = evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    if details.settings.average != "embeddings":
        raise ConfigError("--calibrate wants --average embeddings, as 'cxrtext serve' has it")
    findings: dict[str, FindingCalibration] = {}
    left_out = []
    scores = details.zero_shot.scores if details.zero_shot else {}
    for name, prompts in details.prompts.items():
        fit = scores[name].fit if name in scores else None
        if fit is None:
            left_out.append(f"calibration: {name}: no validation images with and without it")
        elif not fit.platt.scale > 0:
            left_out.append(f"calibration: {name}: its scores rank validation images wrongly")
        else:
            result = evaluation.classification[name]
            findings[name] = FindingCalibration(
                fit.platt.scale,
                fit.platt.shift,
                prompts_digest(prompts),
                fit.positives,
                fit.negatives,
                result.calibration_error_before,
                result.calibration_error_platt,
                _auc(result),
            )
    if not findings:
        raise DataError(
            f"{evaluation.data}: no finding can be calibrated; that wants labels.csv, images of "
            "split 'val' with and without each finding, and another split to measure"
        )
    data, measured = Path(evaluation.data).name, (evaluation.split, evaluation.images)
    return KeptCalibration(evaluation.fingerprint, data, measured, findings), left_out


def _auc(result: FindingResult) -> tuple[float, float, float] | None:
    interval = result.intervals.get("auc")
    return None if result.auc is None or interval is None else (result.auc, *interval)


def save_calibration(folder: Path, kept: KeptCalibration) -> Path:
    """Put a calibration into its checkpoint, whose fingerprint stays as it is."""
    path = folder / CALIBRATION
    write_sealed(path, {"format": FORMAT, "version": VERSION, **asdict(kept)})
    return path


def calibration_beside(model: ImageTextModel) -> KeptCalibration | None:
    """The calibration kept with a model's checkpoint, if there is one.

    Raises:
        CheckpointError: It is damaged, or of another model.
    """
    return None if model.folder is None else load_calibration(model.folder, model.fingerprint)


def calibrations_of(
    model: ImageTextModel, prompts: Mapping[str, Prompts]
) -> dict[str, Calibration]:
    """The calibration of each finding whose prompts the model's checkpoint calibrated.

    Raises:
        CheckpointError: As of :func:`calibration_beside`.
    """
    kept = calibration_beside(model)
    found = {name: kept.of(name, asked) if kept else None for name, asked in prompts.items()}
    return {name: known for name, known in found.items() if known is not None}


def load_calibration(folder: Path, fingerprint: str) -> KeptCalibration | None:
    """The calibration of a checkpoint, or None where it has none.

    Args:
        folder: The checkpoint.
        fingerprint: Its model's.

    Raises:
        CheckpointError: The file is damaged, or of another model.
    """
    path = folder / CALIBRATION
    if not path.exists():
        return None
    try:
        values = read_sealed(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {_AGAIN}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; {_AGAIN}") from None
    if (values.get("format"), values.get("version")) != (FORMAT, VERSION):
        raise CheckpointError(f"{path}: not the calibration of a checkpoint; {_AGAIN}")
    if values.get("fingerprint") != fingerprint:
        raise CheckpointError(f"{path}: fitted for another model; {_AGAIN}")
    try:
        findings = {str(name): _finding(one) for name, one in values["findings"].items()}
        split, images = values["measured"]
        return KeptCalibration(
            fingerprint, str(values["data"]), (str(split), int(images)), findings
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: {type(error).__name__} at {error}; {_AGAIN}") from None


def _finding(values: Mapping[str, Any]) -> FindingCalibration:
    auc = values.get("auc")
    area, low, high = map(float, auc or (0, 0, 0))
    if not all(0 <= value <= 1 for value in (area, low, high)):
        raise ValueError("auc: not from 0 to 1")
    found = FindingCalibration(**{**values, "auc": (area, low, high) if auc else None})
    for name in ("scale", "shift"):
        number = getattr(found, name)
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"{name}: not a number")
    if found.scale <= 0:
        raise ValueError("scale: not above 0")
    return found
