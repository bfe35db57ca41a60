"""``cxrtext calibrate``: turn a new evaluation into the calibration kept in its checkpoint."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    Measured,
    OperatingPoint,
)
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.operating import measure_operating, operating_point
from cxrtext.evaluation.classification.subgroups import MOST_GROUPS
from cxrtext.evaluation.classification.zero_shot import FindingScores, measure_zero_shot
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import HEADS, OPERATING, ZERO_SHOT, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.intervals import FEW, share
from cxrtext.metrics.intervals import Measured as Figure
from cxrtext.metrics.ranking import Floats, Truth

GROUPED = ("site", "device", "model", "manufacturer", "view")
"""Manifest columns that split images into groups; each group gets its own operating points, the
first column first."""
WIDEST = 0.3
"""A share with a wider interval is not given."""


def calibration_of(evaluation: Evaluation) -> tuple[KeptCalibration, list[str]]:
    """The calibration fitted by a new evaluation, and a line for each finding left out."""
    details = evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    findings: dict[str, FindingCalibration] = {}
    left_out = []
    source_of = _sources(evaluation)
    for name in details.prompts:
        source = source_of(name)
        rows = source.rows
        fit = source.scores[name].fit if name in source.scores else None
        if fit is None:
            left_out.append(f"calibration: {name}: no validation images with and without it")
        elif not fit.platt.scale > 0:
            left_out.append(f"calibration: {name}: its scores rank validation images wrongly")
        else:
            validation, measured = (
                _films(evaluation, source.part, name, measured=which) for which in (False, True)
            )
            findings[name] = FindingCalibration(
                scale=fit.platt.scale,
                shift=fit.platt.shift,
                positives=fit.positives,
                negatives=fit.negatives,
                by_head=source.name == HEADS,
                error_before=rows.value(source.name, name, "ECE before"),
                error_after=rows.value(source.name, name, "ECE Platt"),
                auc=_measured(rows, source.name, name, "AUC"),
                points=_points(rows, name, measured),
                groups=_groups(validation, measured, fit.threshold),
            )
    if not findings:
        raise DataError(
            f"{evaluation.data}: no finding can be calibrated; this needs labels.csv, images of "
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


@dataclass(frozen=True, slots=True)
class _Source:
    """What answers for a finding, prompts or a head, with its figures."""

    name: str  # of its part of the rows
    part: Classified
    rows: Rows
    scores: Mapping[str, FindingScores]


def _sources(evaluation: Evaluation) -> Callable[[str], _Source]:
    """A function from a finding to what answers for it."""
    assert evaluation.classified is not None  # noqa: S101 - every evaluation has it when made
    prompts = _Source(ZERO_SHOT, evaluation.classified, evaluation.rows, evaluation.scores)
    part = evaluation.predictions.parts.get("heads")
    if not (evaluation.by_head and isinstance(part, Classified)):
        return lambda _: prompts
    settings = Settings.from_dict(evaluation.settings)
    measured = measure_zero_shot(part, settings, HEADS)
    measured.rows.update(measure_operating(part, measured.scores, settings))
    heads = _Source(HEADS, part, measured.rows, measured.scores)
    return lambda finding: heads if finding in evaluation.by_head else prompts


def _measured(rows: Rows, part: str, finding: str, measure: str) -> Measured | None:
    row = rows.find(part, finding, measure)
    return (row.value, *row.ends) if row and row.value is not None and row.ends else None


@dataclass(frozen=True, slots=True)
class _Films:
    """Images [n] with a known label of a finding."""

    scores: Floats
    truth: Truth
    patients: NDArray[np.object_]
    metadata: list[Mapping[str, str]]

    def of_group(self, column: str, value: str) -> "_Films":
        """The images with this value in their metadata."""
        at = [row for row, cells in enumerate(self.metadata) if cells.get(column) == value]
        metadata = [self.metadata[row] for row in at]
        return _Films(self.scores[at], self.truth[at], self.patients[at], metadata)

    def threshold(self, specificity: float) -> float | None:
        """The threshold that this share of films without the finding stay below; None with too few.

        Youden's threshold is far less certain on few films: docs/results/drawings.md.
        """
        if len(set(self.patients[~self.truth])) < FEW:
            return None
        return float(np.quantile(self.scores[~self.truth], specificity))

    def point(self, threshold: float) -> OperatingPoint | None:
        """What a threshold does to these films; None without both classes."""
        if self.truth.all() or not self.truth.any():
            return None
        over, people = self.scores > threshold, self.patients.tolist()
        figures = operating_point(self.scores, self.truth, threshold, patients=people)
        figures["prevalence"] = share(self.truth, people)
        rows = {
            "sensitivity": self.truth, "specificity": ~self.truth, "PPV": over, "NPV": ~over,
            "prevalence": np.ones_like(over),
        }  # fmt: skip
        shares = {
            n.lower(): enough(figures[n], len(set(self.patients[at]))) for n, at in rows.items()
        }
        return OperatingPoint.model_validate({"threshold": threshold, **shares})


def enough(figure: object, patients: int) -> Measured | None:
    """A share as it is kept; None with too few patients, or if it is wider than :data:`WIDEST`."""
    ends = figure.interval() if isinstance(figure, Figure) else None
    if not isinstance(figure, Figure) or ends is None or patients < FEW:
        return None
    return (figure.value, *ends) if ends[1] - ends[0] <= WIDEST else None


def _films(evaluation: Evaluation, part: Classified, name: str, *, measured: bool) -> _Films:
    """The images with a known label of a finding: those measured, or the validation images."""
    uncertain = Settings.from_dict(evaluation.settings).uncertain
    number = part.findings.index(name)
    assert evaluation.details is not None  # noqa: S101 - the caller has checked
    cells = {record.name: record.metadata for record in evaluation.details.folder.records}
    rows, truth = part.rows(number, uncertain, measured=measured)
    some = part.images.take(rows)
    return _Films(
        part.scores[number][rows],
        truth,
        np.array(some.patients, dtype=object),
        [cells[name] for name in some.names],
    )


def _points(rows: Rows, finding: str, measured: _Films) -> dict[str, OperatingPoint]:
    """Points by how their threshold was chosen."""
    points = {}
    for chosen in rows.below(OPERATING):
        threshold = rows.value(f"{OPERATING}, {chosen}", finding, "threshold")
        if threshold is not None and (point := measured.point(threshold)) is not None:
            points[chosen] = point
    return points


def _groups(
    validation: _Films, measured: _Films, pooled: float
) -> dict[str, OperatingPoint | None]:
    """Each group's point at the specificity of the pooled threshold; None if it is too small."""
    specificity = float((validation.scores[~validation.truth] <= pooled).mean())
    points: dict[str, OperatingPoint | None] = {}
    for column in GROUPED:
        counts = Counter(cells.get(column, "") for cells in measured.metadata)
        values = [value for value, _ in counts.most_common(MOST_GROUPS) if value]
        for value in values if len(values) > 1 else ():
            chooses, own = (some.of_group(column, value) for some in (validation, measured))
            threshold = chooses.threshold(specificity)
            points[f"{column}={value}"] = None if threshold is None else own.point(threshold)
    return points
