"""Zero-shot classification: scores of prompts, thresholds and calibration, measures, intervals.

A score difference is the score of a finding's positive prompt minus that of its negative one, times
γ²: above 0 the positive prompt wins, and its logistic is the probability before calibration.
"""

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.finding import (
    MEASURES,
    UNFITTED,
    Case,
    ValidationFit,
    Value,
    fit_validation,
    measure_finding,
)
from cxrtext.evaluation.classification.prompt_scores import scorer
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.rows import MEAN, OF_FINDING, ZERO_SHOT, Rows
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.metrics.intervals import Measured, average
from cxrtext.metrics.ranking import Floats, Truth, patient_codes
from cxrtext.models import ImageTextModel

Labels = Mapping[str, Mapping[str, int | None]]
"""By study and finding."""


@dataclass(frozen=True, slots=True)
class FindingScores:
    """Scores and labels of one finding, for the [n] images with a known label.

    ``rows`` are their places in the cohort, ``fit`` is what validation images chose.
    """

    scores: Floats
    truth: Truth
    rows: NDArray[np.intp]
    fit: ValidationFit | None


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Zero-shot classification of a cohort: figures, and the scores by finding.

    Models are compared by the means over findings, if defined, and by the AUC of each finding.
    """

    rows: Rows
    scores: dict[str, FindingScores]


def classify(
    model: ImageTextModel,
    cohort: Cohort,
    prompts: Mapping[str, Prompts],
    labels: Labels,
    settings: Settings,
) -> Classified:
    """Score every finding in every image of a cohort, with the labels but no thresholds."""
    score = scorer(model, prompts)
    positive, negative = np.concatenate([score(part) for part in cohort.chunks(model)], axis=2)
    return Classified(
        tuple(prompts),
        images_of(cohort.records, (*SLICE_COLUMNS, *settings.slices)),
        positive,
        negative,
        label_codes(labels, cohort.studies, list(prompts)),
        np.ones(len(cohort.records), dtype=np.bool_),
    )


def measure_zero_shot(given: Classified, settings: Settings, part: str = ZERO_SHOT) -> ZeroShot:
    """Measure every finding, with thresholds and calibration from the validation images.

    Heads are measured alike, with another ``part`` of the rows.
    """
    places = np.flatnonzero(given.measured)
    patients = [given.images.patients[place] for place in places]
    codes, total = patient_codes(patients, len(patients)), len(set(patients))
    rows = Rows()
    scores: dict[str, FindingScores] = {}
    measured: list[dict[str, Value]] = []
    compared: dict[str, tuple[Measured, tuple[Hashable, ...]]] = {}
    names = [given.images.names[place] for place in places]
    for number, finding in enumerate(given.findings):
        seen, known = given.rows(number, settings.uncertain, measured=False)
        fit = fit_validation(given.scores[number][seen], known) if len(seen) else None
        own, truth = given.rows(number, settings.uncertain)
        at = np.searchsorted(places, own)
        positive, negative = given.positive[number][own], given.negative[number][own]
        case = Case(positive, negative, truth, codes[at], total, fit or UNFITTED)
        scores[finding] = FindingScores(case.scores, truth, at, fit)
        values = measure_finding(rows, finding, case, len(places) - len(at), part)
        measured.append(values)
        if isinstance(auc := values.get("AUC"), Measured):
            same = rows_digest([(names[row] for row in at), codes[at].tolist(), truth.tolist()])
            compared[OF_FINDING + finding] = auc, same
    labels = given.labels[:, places].ravel().tolist()
    same = rows_digest([names, patients, given.findings, labels, [settings.uncertain]])
    for measure in MEASURES:
        if measure.mean:
            each = [values.get(measure.name) for values in measured]
            some = [value for value in each if isinstance(value, Measured)]
            mean = average(some) if some and len(some) == len(each) else None
            rows.add(part, MEAN, measure.name, mean, None if mean is None else len(places))
            rows.compare_by(measure.name, mean, same)
    for name, (auc, same) in compared.items():
        rows.compare_by(name, auc, same)
    return ZeroShot(rows, scores)


def rows_digest(columns: Iterable[Iterable[Hashable]]) -> tuple[Hashable, ...]:
    """A digest for the rows that something was measured on, in place of their ids."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(repr(list(column)).encode())
    return (digest.hexdigest(),)
