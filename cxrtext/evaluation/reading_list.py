"""About a hundred films to read, drawn around a threshold, and what their labels say of all."""

from pathlib import Path

import numpy as np

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.calibrate import classified, point_of
from cxrtext.evaluation.classification.calibration import (
    Calibration,
    FindingCalibration,
    KeptCalibration,
    fit_platt,
)
from cxrtext.evaluation.classification.here import STRATA, draw_films, sampled_point, strata_of
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import YOUDEN
from cxrtext.models import ImageTextModel
from cxrtext.records import write_table
from cxrtext.records.tables import plain, read_table

NEEDED = ("patient_id", "finding", "label", "score", "threshold", "stratum", "films", "model")


def write_reading_list(evaluation: Evaluation, finding: str, out: Path, films: int = 100) -> int:
    """List films to read among the images measured; ``label`` is to be filled with 1 or 0.

    They are drawn around Youden's threshold that the checkpoint keeps, else around 0.
    """
    part, details = classified(evaluation), evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    if finding not in part.findings:
        raise ConfigError(f"--finding: '{finding}' is none of {', '.join(part.findings)}")
    kept = KeptCalibration.beside(details.model)
    known = kept.measured_of(finding, details.prompts[finding]) if kept else None
    calibration = known.calibration if known else Calibration()
    point = known.points.get(YOUDEN) if known else None
    threshold = point.threshold if point else 0.0
    at = np.flatnonzero(part.measured)
    scores, images = part.scores[part.findings.index(finding)][at], part.images.take(at)
    strata = strata_of(scores, calibration.probabilities(scores), threshold)
    sizes = np.bincount(strata)
    drawn = draw_films(strata, films)
    found = [
        {
            "image": plain(images.names[row]),
            "study_id": plain(images.studies[row]),
            "patient_id": plain(images.patients[row]),
            "finding": finding,
            "label": "",
            "score": scores[row],
            "threshold": threshold,
            "stratum": strata[row],
            "films": sizes[strata[row]],
            "model": evaluation.fingerprint,
        }
        for row in drawn.tolist()
    ]
    write_table(out, tuple(found[0]), found)
    return len(drawn)


def calibrated_by_marks(
    model: ImageTextModel, path: Path, prompts: dict[str, Prompts]
) -> KeptCalibration:
    """What a checkpoint keeps, with a finding's calibration by the labels of a reading list.

    They take the place of all that was kept of the finding; films without a label were not read.
    """
    rows = list(read_table(path, required=NEEDED).rows)
    read = [cells for cells in rows if cells["label"].strip() in ("0", "1")]
    names, models = ({cells[name] for cells in rows} for name in ("finding", "model"))
    if len(names) != 1 or not names <= set(prompts):
        some = ", ".join(prompts)
        raise DataError(f"{path}: column finding: expected one and the same of {some}")
    if models != {model.fingerprint}:
        raise DataError(f"{path}: drawn for another model; draw again with --draw")
    truth = np.array([cells["label"].strip() == "1" for cells in read])
    if not truth.any() or truth.all():
        raise DataError(f"{path}: column label: no film with 1, or none with 0; read more films")
    try:
        scores = np.array([float(cells["score"]) for cells in read])
        threshold, sizes = float(read[0]["threshold"]), np.zeros(2 * STRATA, dtype=np.int64)
        strata = np.array([int(cells["stratum"]) for cells in read])
        for cells in rows:
            sizes[int(cells["stratum"])] = int(cells["films"])
    except (ValueError, IndexError) as error:
        raise DataError(f"{path}: {error}; leave all columns but label as they were") from None
    platt = fit_platt(scores, truth, (sizes / np.bincount(strata, minlength=2 * STRATA))[strata])
    if not platt.scale > 0:
        raise DataError(f"{path}: scores rank these films wrongly; there is nothing to calibrate")
    patients = np.array([cells["patient_id"] for cells in read], dtype=object)
    above = [stratum >= STRATA for stratum in range(2 * STRATA)]
    said = sampled_point(truth, strata, sizes.tolist(), above, patients.tolist())
    point = point_of(threshold, said, truth, scores > threshold, patients, "marks")
    found = FindingCalibration(
        scale=platt.scale,
        shift=platt.shift,
        positives=int(truth.sum()),
        negatives=int((~truth).sum()),
        points={YOUDEN: point},
    )
    kept = KeptCalibration.beside(model) or KeptCalibration(
        fingerprint=model.fingerprint,
        data=path.name,
        measured=("marks", len(read)),
        prompts=prompts,
        findings={},
    )
    return kept.model_copy(update={"findings": {**kept.findings, names.pop(): found}})
