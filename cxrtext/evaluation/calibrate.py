"""``cxrtext calibrate``: from an evaluation, just made, to what its checkpoint keeps."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    Measured,
    OperatingPoint,
)
from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import OPERATING, ZERO_SHOT, Rows
from cxrtext.evaluation.verdicts.fit import fit_verdicts
from cxrtext.evaluation.verdicts.kept import KeptVerdicts
from cxrtext.images.cache import DecodedCache
from cxrtext.records import Rejects


def calibration_of(evaluation: Evaluation) -> tuple[KeptCalibration, list[str]]:
    """The calibration that an evaluation, just done, fitted; a line for each finding left out."""
    details = evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    if details.settings.average != "embeddings":
        raise ConfigError("a calibration wants average 'embeddings', as 'cxrtext serve' has it")
    findings: dict[str, FindingCalibration] = {}
    left_out = []
    rows, scores = evaluation.rows, evaluation.scores
    for name in details.prompts:
        fit = scores[name].fit if name in scores else None
        if fit is None:
            left_out.append(f"calibration: {name}: no validation images with and without it")
        elif not fit.platt.scale > 0:
            left_out.append(f"calibration: {name}: its scores rank validation images wrongly")
        else:
            findings[name] = FindingCalibration(
                scale=fit.platt.scale,
                shift=fit.platt.shift,
                positives=fit.positives,
                negatives=fit.negatives,
                error_before=rows.value(ZERO_SHOT, name, "ECE before"),
                error_after=rows.value(ZERO_SHOT, name, "ECE Platt"),
                auc=_measured(rows, ZERO_SHOT, name, "AUC"),
                points=_points(rows, name),
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
        prompts=dict(details.prompts),
        findings=findings,
    )
    return kept, left_out


def _measured(rows: Rows, part: str, finding: str, measure: str) -> Measured | None:
    row = rows.find(part, finding, measure)
    return (row.value, *row.ends) if row and row.value is not None and row.ends else None


def _points(rows: Rows, finding: str) -> dict[str, OperatingPoint]:
    found = {}
    for chosen in rows.below(OPERATING):
        part = f"{OPERATING}, {chosen}"
        threshold = rows.value(part, finding, "threshold")
        shares = [_measured(rows, part, finding, of) for of in ("sensitivity", "specificity")]
        if threshold is not None and shares[0] and shares[1]:
            found[chosen] = OperatingPoint(
                threshold=threshold, sensitivity=shares[0], specificity=shares[1]
            )
    return found


def verdicts_of(
    evaluation: Evaluation,
    *,
    cache: DecodedCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> KeptVerdicts:
    """Calibrate the verdicts of an evaluation's model on the validation images of its data.

    Words of findings are learned from the reports of all splits but "test".
    """
    details = evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    folder = details.folder
    if not folder.sentences:
        raise DataError(f"{folder.path}: no reports, and so no sentences to calibrate verdicts on")
    reports: dict[str, list[str]] = defaultdict(list)
    for sentence in folder.sentences:
        reports[sentence.study_id].append(sentence.sentence)
    records = [r for r in folder.records if r.split == "val" and r.study_id in reports]
    rejects = Rejects()
    cohort = Embedder(details.model, cache, rejects, len(records), progress).cohort(records)
    if not cohort.records:
        why = f": {rejects.rows[-1][1]}" if rejects.rows else ""
        raise DataError(f"{folder.path}: no image of split 'val' with a report can be read{why}")
    tested = {record.study_id for record in folder.records if record.split == "test"}
    corpus = {study: said for study, said in reports.items() if study not in tested}
    return fit_verdicts(details.model, cohort, reports, corpus, Path(evaluation.data).name)
