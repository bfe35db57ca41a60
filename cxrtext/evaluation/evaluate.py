"""``cxrtext evaluate``: what a checkpoint is worth on a data folder."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    prompts_digest,
)
from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.measure import measure
from cxrtext.evaluation.predict import predict
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import ZERO_SHOT
from cxrtext.evaluation.settings import Settings
from cxrtext.images.cache import DecodedCache
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import Rejects


def evaluate(
    checkpoint: Path,
    data: Path,
    *,
    split: str = "test",
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
    settings: Settings | None = None,
) -> Evaluation:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval.

    Args:
        checkpoint: A model's folder.
        data: A data folder; what needs a file that is not there is left out, and said.
        split: "train", "val", "test" or "all".
        prompts: Prompts by finding; CheX5's by default.
        allow_outside: Whether images may lie outside the folder.
        cache: Where decoded images are kept; without it they are decoded each time.
        features: Of the model's backbone, in place of images; see ``cxrtext encode``.
        rejects: Takes images that cannot be read.
        progress: Called with (done, total) images.

    Raises:
        DataError: The folder has no such split, or no image of it can be read.
        CheckpointError: The checkpoint is damaged.
    """
    predictions, details = predict(
        checkpoint,
        data,
        split=split,
        prompts=prompts or CHEX5_PROMPTS,
        settings=settings or Settings(),
        device=device,
        allow_outside=allow_outside,
        cache=cache,
        features=features,
        rejects=rejects,
        progress=progress,
    )
    return replace(measure(predictions), details=details)


def calibration_of(evaluation: Evaluation) -> tuple[KeptCalibration, list[str]]:
    """The calibration that an evaluation, just done, fitted on validation images.

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
        raise ConfigError("a calibration wants average 'embeddings', as 'cxrtext serve' has it")
    findings: dict[str, FindingCalibration] = {}
    left_out = []
    rows, scores = evaluation.rows, evaluation.scores
    for name, prompts in details.prompts.items():
        fit = scores[name].fit if name in scores else None
        if fit is None:
            left_out.append(f"calibration: {name}: no validation images with and without it")
        elif not fit.platt.scale > 0:
            left_out.append(f"calibration: {name}: its scores rank validation images wrongly")
        else:
            auc = rows.find(ZERO_SHOT, name, "AUC")
            value, ends = (auc.value, auc.ends) if auc else (None, None)
            findings[name] = FindingCalibration(
                scale=fit.platt.scale,
                shift=fit.platt.shift,
                prompts=prompts_digest(prompts),
                positives=fit.positives,
                negatives=fit.negatives,
                error_before=rows.value(ZERO_SHOT, name, "ECE before"),
                error_after=rows.value(ZERO_SHOT, name, "ECE Platt"),
                auc=None if value is None or ends is None else (value, *ends),
            )
    if not findings:
        raise DataError(
            f"{evaluation.data}: no finding can be calibrated; that wants labels.csv, images of "
            "split 'val' with and without each finding, and another split to measure"
        )
    kept = KeptCalibration(
        fingerprint=evaluation.fingerprint,
        data=Path(evaluation.data).name,
        measured=(evaluation.split, evaluation.images),
        findings=findings,
    )
    return kept, left_out
