"""Zero-shot classification: scores of prompts, thresholds and calibration, measures, intervals.

A score difference is that of a finding's positive prompt less that of its negative one, times γ²:
above 0 the positive prompt wins, and its logistic is the probability before calibration.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.finding import (
    UNFITTED,
    Case,
    Drawn,
    FindingResult,
    Found,
    ValidationFit,
    fit_validation,
    measure_finding,
)
from cxrtext.evaluation.classification.prompt_scores import scorer
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.intervals.bootstrap import Interval, Resampled, draw, known_intervals
from cxrtext.evaluation.intervals.comparison import OF_FINDING, Compared, Ranked, rows_digest
from cxrtext.evaluation.intervals.delong import mean_area
from cxrtext.evaluation.intervals.proportions import cluster_codes, mean_proportion
from cxrtext.evaluation.metrics import Floats, Truth, settled
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.models import ImageTextModel

Labels = Mapping[str, Mapping[str, int | None]]
"""By study and finding."""


@dataclass(frozen=True, slots=True)
class FindingScores:
    """Scores of one finding beside its labels: of the [n] images whose label is known.

    ``rows`` are their places in the cohort, ``fit`` what validation images chose.
    """

    scores: Floats
    truth: Truth
    rows: NDArray[np.intp]
    fit: ValidationFit | None


MEANS = {
    "AUC": "auc",
    "AUC, positive prompt": "auc_positive",
    "AUC, negative prompt": "auc_negative",
    "ACC": "accuracy",
}
"""Measures whose means over findings are compared among models."""


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Zero-shot classification of a cohort: results and scores by finding.

    ``intervals`` are of the means of :data:`MEANS` ("mean_auc" and the like); ``compared`` has
    those means by their names, where they are defined, and the AUC of each finding.
    """

    findings: dict[str, FindingResult]
    intervals: dict[str, Interval] = field(default_factory=dict)
    scores: dict[str, FindingScores] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)


def label_rows(
    labels: Labels, studies: Sequence[str], finding: str, settings: Settings
) -> tuple[NDArray[np.intp], Truth]:
    """Places of the studies whose label is known, and what it says."""
    known, truth = settled(label_codes(labels, studies, [finding])[0], settings.uncertain)
    return np.flatnonzero(known), truth[known]


def classify(
    model: ImageTextModel,
    cohort: Cohort,
    prompts: Mapping[str, Prompts],
    labels: Labels,
    settings: Settings,
) -> Classified:
    """Score every finding in every image of a cohort, beside the labels; without thresholds."""
    score = scorer(model, prompts, settings)
    positive, negative = np.concatenate([score(part) for part in cohort.chunks(model)], axis=2)
    return Classified(
        tuple(prompts),
        images_of(cohort.records, (*SLICE_COLUMNS, *settings.slices)),
        positive,
        negative,
        label_codes(labels, cohort.studies, list(prompts)),
        np.ones(len(cohort.records), dtype=np.bool_),
    )


def measure_zero_shot(given: Classified, settings: Settings) -> ZeroShot:
    """Measure every finding, with thresholds and calibration by the validation images."""
    places = np.flatnonzero(given.measured)
    patients = [given.images.patients[place] for place in places]
    codes = cluster_codes(patients)
    total = len(set(patients))
    counts = draw(patients, settings.resamples, (settings.seed, 0))
    differences = given.scores
    results: dict[str, FindingResult] = {}
    scores: dict[str, FindingScores] = {}
    measured: list[dict[str, Found]] = []
    compared: dict[str, Compared] = {}
    names = [given.images.names[place] for place in places]
    for number, finding in enumerate(given.findings):
        seen, said = given.rows(number, settings.uncertain, measured=False)
        fit = fit_validation(differences[number][seen], said) if len(seen) else None
        own, truth = given.rows(number, settings.uncertain)
        positive, negative = given.positive[number][own], given.negative[number][own]
        case = Case(positive, negative, truth, fit or UNFITTED)
        rows = np.searchsorted(places, own)
        scores[finding] = FindingScores(case.scores, truth, rows, fit)
        drawn = Drawn(codes[rows], total, counts[:, rows])
        results[finding], found = measure_finding(case, len(places) - len(rows), drawn)
        measured.append(found)
        if (one := found.get("auc")) and one.area is not None:
            same = rows_digest([(names[row] for row in rows), codes[rows].tolist(), truth.tolist()])
            compared[OF_FINDING + finding] = Ranked(one.area, same)
    labels = given.labels[:, places].ravel().tolist()
    same = rows_digest([names, patients, given.findings, labels, [settings.uncertain]])
    means = {
        name: _mean([found[key] for found in measured], same)
        for name, key in MEANS.items()
        if measured and all(key in found for found in measured)
    }
    ends = {f"mean_{MEANS[name]}": one.interval() for name, one in means.items()}
    return ZeroShot(results, known_intervals(ends), scores, {**means, **compared})


def _mean(found: Sequence[Found], rows: tuple[Hashable, ...]) -> Compared:
    """The mean of a measure over findings, as it is compared among models."""
    areas = [one.area for one in found if one.area is not None]
    if areas:
        return Ranked(mean_area(areas), rows)
    shares = [one.share for one in found if one.share is not None]
    share = mean_proportion([(right, codes) for right, codes, _ in shares])
    values = np.mean([resampled for _, _, resampled in shares], axis=0)
    return Resampled(share.value, values, rows, share.interval(), share.patients)
