"""Calibrate verdicts on validation images, using what their reports say.

The thresholds are conformal quantiles: for n + 1 exchangeable images, the evidence of a new one is
below the j-th smallest of the n others with probability j / (n + 1).  Source: Vovk, Gammerman and
Shafer 2005; Papadopoulos et al. 2002 (split conformal prediction).
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from cxrtext.errors import DataError
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.result import Evaluation
from cxrtext.images.cache import DecodedCache
from cxrtext.metrics.ranking import area_under_curve
from cxrtext.models import ImageTextModel
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import Rejects
from cxrtext.text.assertions import Assertion, StudySays, assertions_of, says_of
from cxrtext.verdicts.evidence import Contrast, Floats, contrasts_of, evidence_of
from cxrtext.verdicts.judge import Evidence, judge_assertions
from cxrtext.verdicts.kept import FindingVerdicts, KeptVerdicts, Tails, VerdictCounts

RATE = 0.05
"""The share of true ones that may be marked as unsupported, and of false ones as supported."""
LEAST_AUC = 0.75
"""A finding with a lower AUC of its evidence is not judged."""
FEWEST = math.ceil(1 / RATE) - 1
"""With this many images, the smallest value is the quantile of :data:`RATE`: 19."""
MOST_PARTS = 6
"""A sentence that says more things than this is never marked as unsupported."""
FOLDS = 5
"""Parts of the validation patients: errors in each are measured with thresholds from the rest."""

MOST_ASKED = 1000
"""How many different things that sentences say are kept, to draw false ones and measure errors."""

Reports = Mapping[str, Sequence[str]]
"""The sentences of reports, by study."""
Quantiles = Callable[[Floats, int], tuple[float | None, ...]]
"""A function from values to a number of thresholds."""


@dataclass(frozen=True, slots=True)
class Values:
    """Evidence [n] of images, and the fold of each."""

    evidence: Floats
    folds: Floats

    def __len__(self) -> int:
        return len(self.evidence)

    def but(self, fold: int | None) -> Floats:
        return self.evidence[self.folds != fold] if fold is not None else self.evidence


def lower_quantiles(values: Floats, most: int = MOST_PARTS) -> tuple[float | None, ...]:
    """The values that a new one is below with probability at most 0.05 / k, for k from 1.

    None with fewer than 20 k − 1 values.
    """
    ordered = np.sort(values)
    ranks = [math.floor(RATE / k * (len(ordered) + 1) + 1e-9) for k in range(1, most + 1)]
    return tuple(float(ordered[rank - 1]) if rank else None for rank in ranks)


def upper_quantiles(values: Floats, most: int = MOST_PARTS) -> tuple[float | None, ...]:
    """The values that a new one is above as rarely; see :func:`lower_quantiles`."""
    return tuple(None if cut is None else -cut for cut in lower_quantiles(-values, most))


def tails_of(there: Values, absent: Values, *, but: int | None = None) -> Tails:
    """The tails of the evidence of images with and without something.

    With ``but``, that fold is left out and no errors are measured.
    """
    own, others = there.but(but), absent.but(but)
    auc = None
    if len(own) and len(others):
        auc = area_under_curve(np.r_[own, others], np.r_[np.ones(len(own)), np.zeros(len(others))])
    below, above = lower_quantiles(own), upper_quantiles(others)
    return Tails(
        with_images=len(own),
        without_images=len(others),
        auc=None if auc is None else round(auc, 4),
        below=_rounded(below),
        above=_rounded(above),
        with_below=None if but is not None else _crossed(there, lower_quantiles, -1),
        without_above=None if but is not None else _crossed(absent, upper_quantiles, 1),
        reason=_reason(len(own), len(others), auc),
    )


def _crossed(values: Values, quantiles: Quantiles, sign: int) -> float | None:
    """The share of values beyond the threshold made from the other folds."""
    beyond, seen = 0, 0
    for fold in range(FOLDS):
        (threshold,) = quantiles(values.but(fold), 1)
        own = values.evidence[values.folds == fold]
        if threshold is not None:
            beyond += int((sign * own > sign * threshold).sum())
            seen += len(own)
    return round(beyond / seen, 4) if seen else None


def _reason(there: int, absent: int, auc: float | None) -> str | None:
    """Why a finding may not be judged; None if it may."""
    if min(there, absent) < FEWEST or auc is None:
        return (
            f"{there} validation images with it and {absent} without it; at least {FEWEST} of each "
            "are needed"
        )
    if auc < 0.5:
        return f"inverted: its AUC on validation images is {auc:.2f}"
    if auc < LEAST_AUC:
        return f"its AUC on validation images is {auc:.2f}; at least {LEAST_AUC} is needed"
    return None


def _rounded(values: Iterable[float | None]) -> tuple[float | None, ...]:
    return tuple(None if value is None else round(value, 5) for value in values)


@dataclass(frozen=True, slots=True)
class _Images:
    """Validation images: what their reports say, their evidence and folds."""

    says: list[StudySays]
    own: list[Sequence[tuple[Assertion, ...]]]  # what each sentence of the report says
    presence: Mapping[str, Floats]
    left: Mapping[str, Floats]
    folds: Floats

    def findings(self, *, but: int | None = None) -> dict[str, FindingVerdicts]:
        return {name: self._finding(name, but) for name in self.presence}

    def _finding(self, name: str, but: int | None) -> FindingVerdicts:
        evidence = self.presence[name]
        there = np.flatnonzero([name in says.present for says in self.says])
        absent = np.flatnonzero([name in says.absent for says in self.says])
        without: Literal["ruled out", "not named"] = "ruled out"
        if len(absent) < FEWEST:
            without = "not named"
            absent = np.flatnonzero([name not in s.named or name in s.absent for s in self.says])
        own, others = (Values(evidence[rows], self.folds[rows]) for rows in (there, absent))
        tails = tails_of(own, others, but=but)
        side = None
        if name in self.left:
            side = tails_of(*self._sided(name), but=but)
        return FindingVerdicts(without=without, presence=tails, side=side)

    def _sided(self, name: str) -> tuple[Values, Values]:
        """Evidence for a side that reports name, and for a side that they do not."""
        left = self.left[name]
        right_side: list[tuple[float, float]] = []
        wrong_side: list[tuple[float, float]] = []
        for row, sentences in enumerate(self.own):
            named = {a.side for said in sentences for a in said if a.finding == name and a.present}
            signs = [1 if side == "left" else -1 for side in named if side]
            fold = float(self.folds[row])
            if signs:
                right_side.append((min(sign * float(left[row]) for sign in signs), fold))
            sides = self.says[row].present.get(name, frozenset())
            if len(sides) == 1:
                sign = -1 if "left" in sides else 1
                wrong_side.append((sign * float(left[row]), fold))
        return _values(right_side), _values(wrong_side)


def _values(pairs: Sequence[tuple[float, float]]) -> Values:
    table = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    return Values(table[:, 0], table[:, 1])


def fit_verdicts(
    model: ImageTextModel, cohort: Cohort, reports: Reports, corpus: Reports, data: str
) -> KeptVerdicts:
    """Calibrate verdicts on validation images and their reports.

    ``corpus``: reports whose sentences ask for findings; leave out the reports of images that are
    measured later.
    """
    contrasts = contrasts_of(model.embed_sentences, corpus.values())
    rows = [row for row, study in enumerate(cohort.studies) if study in reports]
    images = _images(model, cohort, rows, reports, contrasts)
    findings = {
        name: kept.model_copy(update={} if kept.presence.reason else _vectors(contrasts[name]))
        for name, kept in images.findings().items()
    }
    names = sorted(cohort.records[row].name for row in rows)
    return KeptVerdicts(
        fingerprint=model.fingerprint,
        data=data,
        images=len(rows),
        patients=len({cohort.patients[row] for row in rows}),
        names=hashlib.sha256("\n".join(names).encode()).hexdigest(),
        regions=cohort.regions.shape[1],
        findings=findings,
        measured=_measure(images),
    )


def _images(
    model: ImageTextModel,
    cohort: Cohort,
    rows: Sequence[int],
    reports: Reports,
    contrasts: Mapping[str, Contrast],
) -> _Images:
    parts = [evidence_of(model, regions, contrasts) for regions in cohort.chunks(model)]
    presence, left = (
        {n: np.concatenate([p[i][n] for p in parts])[rows] for n in parts[0][i]} for i in (0, 1)
    )
    studies = [cohort.studies[row] for row in rows]
    said = {s: [assertions_of(text) for text in reports[s]] for s in dict.fromkeys(studies)}
    return _Images(
        [says_of(reports[study]) for study in studies],
        [said[study] for study in studies],
        presence,
        left,
        np.asarray([_fold(cohort.patients[row]) for row in rows], dtype=np.float64),
    )


def _fold(patient: str) -> int:
    return hashlib.blake2b(patient.encode(), digest_size=4).digest()[0] % FOLDS


def _vectors(contrast: Contrast) -> dict[str, tuple[float, ...]]:
    vectors = {name: getattr(contrast, name) for name in ("there", "absent", "left", "right")}
    return {
        name: tuple(round(number, 6) for number in vector.tolist())
        for name, vector in vectors.items()
        if vector is not None
    }


def _measure(images: _Images) -> dict[Literal["affirmed", "negated"], VerdictCounts]:
    """Cross-validated verdicts on a report's own sentences, and on others' that contradict it."""
    counts: dict[str, dict[str, int]] = {"affirmed": defaultdict(int), "negated": defaultdict(int)}
    pool = sorted({said for own in images.own for said in own if said})
    rng = np.random.default_rng(0)
    if len(pool) > MOST_ASKED:
        pool = [pool[place] for place in sorted(rng.permutation(len(pool))[:MOST_ASKED])]
    for fold in range(FOLDS):
        findings = images.findings(but=fold)
        for row in np.flatnonzero(images.folds == fold):
            evidence = Evidence(
                {name: float(values[row]) for name, values in images.presence.items()},
                {name: float(values[row]) for name, values in images.left.items()},
            )
            says, own = images.says[row], [said for said in images.own[row] if said]
            wrong = [said for said in pool if says.contradicts(said)]
            asked = [("true", said) for said in own if not says.contradicts(said)]
            for direction in counts:
                some = [said for said in wrong if _direction(said) == direction]
                drawn = rng.permutation(len(some))[: len(own)]
                asked += [("false", some[place]) for place in drawn]
            for truth, said in asked:
                verdict = judge_assertions(said, evidence, findings).verdict
                tally = counts[_direction(said)]
                tally[f"{truth}_sentences"] += 1
                if verdict != "weak":
                    tally[f"{truth}_{verdict.replace(' ', '_')}"] += 1
    return {direction: VerdictCounts(**tally) for direction, tally in counts.items()}  # type: ignore[misc]


def _direction(said: Sequence[Assertion]) -> str:
    return "affirmed" if any(assertion.present for assertion in said) else "negated"


def verdicts_of(
    evaluation: Evaluation,
    *,
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> KeptVerdicts:
    """Calibrate the verdicts of an evaluation's model on the validation images of its data.

    Words for findings are learned from the reports of all splits except "test".
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
    embedder = Embedder(details.model, cache, rejects, len(records), progress, features)
    cohort = embedder.cohort(records)
    if not cohort.records:
        why = f": {rejects.rows[-1][1]}" if rejects.rows else ""
        raise DataError(f"{folder.path}: no image of split 'val' with a report can be read{why}")
    tested = {record.study_id for record in folder.records if record.split == "test"}
    corpus = {study: said for study, said in reports.items() if study not in tested}
    return fit_verdicts(details.model, cohort, reports, corpus, Path(evaluation.data).name)
