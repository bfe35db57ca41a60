"""Zero-shot classification: scores of prompts, thresholds and calibration, measures, intervals.

A score difference is that of a finding's positive prompt less that of its negative one, times γ²:
above 0 the positive prompt wins, and its logistic is the probability before calibration.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.finding import (
    MEASURES,
    UNFITTED,
    Case,
    Drawn,
    ValidationFit,
    Value,
    fit_validation,
    measure_finding,
)
from cxrtext.evaluation.classification.prompt_scores import scorer
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.intervals.bootstrap import Resampled, draw
from cxrtext.evaluation.intervals.comparison import OF_FINDING, Compared, Ranked, rows_digest
from cxrtext.evaluation.intervals.delong import mean_area
from cxrtext.evaluation.intervals.proportions import cluster_codes, mean_proportion
from cxrtext.evaluation.metrics import Floats, Truth, settled
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.rows import MEAN, ZERO_SHOT, Rows, estimate
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


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Zero-shot classification of a cohort: figures, and the scores by finding.

    Models are compared by the means over findings, where they are defined, and by the AUC of each
    finding.
    """

    rows: Rows
    scores: dict[str, FindingScores]


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


def measure_zero_shot(given: Classified, settings: Settings, part: str = ZERO_SHOT) -> ZeroShot:
    """Measure every finding, with thresholds and calibration by the validation images.

    ``part`` of the rows is another one for heads, which are measured alike.
    """
    places = np.flatnonzero(given.measured)
    patients = [given.images.patients[place] for place in places]
    codes = cluster_codes(patients)
    total = len(set(patients))
    counts = draw(patients, settings.resamples, (settings.seed, 0))
    differences = given.scores
    rows = Rows()
    scores: dict[str, FindingScores] = {}
    measured: list[dict[str, Value]] = []
    compared: dict[str, Compared] = {}
    names = [given.images.names[place] for place in places]
    for number, finding in enumerate(given.findings):
        seen, said = given.rows(number, settings.uncertain, measured=False)
        fit = fit_validation(differences[number][seen], said) if len(seen) else None
        own, truth = given.rows(number, settings.uncertain)
        positive, negative = given.positive[number][own], given.negative[number][own]
        case = Case(positive, negative, truth, fit or UNFITTED)
        at = np.searchsorted(places, own)
        scores[finding] = FindingScores(case.scores, truth, at, fit)
        drawn = Drawn(codes[at], total, counts[:, at])
        found = measure_finding(rows, finding, case, len(places) - len(at), drawn, part)
        measured.append(found)
        if (one := found.get("AUC")) and one.area is not None:
            same = rows_digest([(names[row] for row in at), codes[at].tolist(), truth.tolist()])
            compared[OF_FINDING + finding] = Ranked(one.area, same)
    labels = given.labels[:, places].ravel().tolist()
    same = rows_digest([names, patients, given.findings, labels, [settings.uncertain]])
    for measure in MEASURES:
        if not measure.mean:
            continue
        each = [found.get(measure.name) for found in measured]
        some = [value for value in each if value is not None and value.value is not None]
        if not some or len(some) < len(each):
            rows.add(part, MEAN, measure.name, None)
            continue
        mean = rows.compared[measure.name] = _mean(some, same)
        value = float(np.mean([value.value for value in some]))
        known = estimate(value, mean.interval())
        rows.add(part, MEAN, measure.name, known, len(places), measure.method)
    rows.compared |= compared
    return ZeroShot(rows, scores)


def _mean(found: Sequence[Value], rows: tuple[Hashable, ...]) -> Compared:
    """The mean of a measure over findings, as it is compared among models."""
    areas = [one.area for one in found if one.area is not None]
    if areas:
        return Ranked(mean_area(areas), rows)
    shares = [one.share for one in found if one.share is not None]
    share = mean_proportion([(right, codes) for right, codes, _ in shares])
    values = np.mean([resampled for _, _, resampled in shares], axis=0)
    return Resampled(share.value, values, rows, share.interval(), share.patients)
