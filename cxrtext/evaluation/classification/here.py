"""What a threshold does in an archive whose labels err, or of which a sample was read.

Films are in strata: above a threshold or not, finer where a sample was drawn so.  The share of
films with the finding in each, and the share of films that it holds, give all that is asked.
Intervals are percentiles over draws: of shares of films from Beta distributions (Jeffreys').

Source: Brown, Cai and DasGupta 2001 (Jeffreys' interval).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.calibration import Measured
from cxrtext.evaluation.intervals.estimates import Estimate
from cxrtext.evaluation.intervals.multiple import FEW
from cxrtext.evaluation.intervals.proportions import cluster_codes, proportion
from cxrtext.evaluation.metrics import Floats, Truth, quotient, scores_and_truth

MEASURES = ("sensitivity", "specificity", "PPV", "NPV", "prevalence")
WIDEST = 0.3
"""Width of an interval beyond which a share is not given; nor is one of fewer than 25 patients."""
LEAST_INFORMATIVE = 0.1
"""Youden's index below which a labeller's labels say too little to be corrected."""
DRAWS = 4000
STRATA = 3
"""Strata on either side of the threshold."""


def given(found: Estimate, patients: int) -> Measured | None:
    """A share as it is kept, None for "not enough": the one rule, :data:`WIDEST`."""
    if found.value is None or found.low is None or found.high is None or patients < FEW:
        return None
    return (found.value, found.low, found.high) if found.high - found.low <= WIDEST else None


def accuracy_of(present: Floats, weight: Floats, above: Truth) -> dict[str, Floats]:
    """:data:`MEASURES` from strata [..., H], of which some are ``above`` [H] the threshold.

    ``present``: the share of the films of each that have the finding; ``weight``: its share of all
    films.  NaN for 0 / 0.  Source: Bayes.
    """
    weight = np.broadcast_to(weight, present.shape)
    have = present * weight
    true, missed = (have[..., at].sum(axis=-1) for at in (above, ~above))
    called, left = (weight[..., at].sum(axis=-1) for at in (above, ~above))
    shares = (
        quotient(true, true + missed),
        quotient(left - missed, called + left - true - missed),
        quotient(true, called),
        quotient(left - missed, left),
        quotient(true + missed, called + left),
    )
    return dict(zip(MEASURES, shares, strict=True))


@dataclass(frozen=True, slots=True)
class LabelError:
    """How labels err, by studies that were read again.

    Of ``present`` that have the finding ``found`` are labelled so, of ``absent`` that have it not
    ``passed`` are.
    """

    found: int
    present: int
    passed: int
    absent: int

    @property
    def is_informative(self) -> bool:
        if not (self.present and self.absent):
            return False
        return self.found / self.present - self.passed / self.absent > LEAST_INFORMATIVE


Labels = Mapping[str, Mapping[str, int | None]]


def label_errors(labels: Labels, read: Labels, findings: Sequence[str]) -> dict[str, LabelError]:
    """By finding the error of labels at the studies that somebody has read again.

    What either calls uncertain, or does not say, is left out.
    """
    found = {}
    for name in findings:
        pairs = [
            (labels[study].get(name), values.get(name))
            for study, values in read.items()
            if study in labels
        ]
        said = {truth: [one for one, other in pairs if other == truth and one in (0, 1)]
                for truth in (1, 0)}  # fmt: skip
        found[name] = LabelError(said[1].count(1), len(said[1]), said[0].count(1), len(said[0]))
    return found


def corrected_point(
    scores: ArrayLike,
    labels: ArrayLike,
    threshold: float,
    error: LabelError,
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
) -> dict[str, Estimate]:
    """:data:`MEASURES` of a threshold by labels that err, corrected for their error.

    Scores and labels are [n], ``clusters`` [n] patients.  The labels may err as they like but
    alike on both sides of the threshold; the intervals hold the error's own uncertainty.  Without
    values where the labels say too little.

    Source: Rogan and Gladen 1978 (the correction); Staquet et al. 1981 (of a test's accuracy by an
    imperfect reference); Lang and Reiczigel 2014 (that the error is itself estimated).
    """
    values, truth = scores_and_truth(scores, labels, positive=False, negative=False)
    if not error.is_informative:
        return dict.fromkeys(MEASURES, Estimate())
    codes, over = cluster_codes(list(clusters)), values > threshold
    rng, above = np.random.default_rng(seed), np.array([True, False])
    called = _beta(rng, over, codes)
    weight = np.stack([called, 1 - called], axis=-1)
    said = np.stack([_beta(rng, truth[at], codes[at]) for at in (over, ~over)], axis=-1)
    found = _jeffreys(rng, error.found, error.present)[:, None]
    passed = _jeffreys(rng, error.passed, error.absent)[:, None]
    return _percentiles(accuracy_of(_rogan_gladen(said, found, passed), weight, above))


def _rogan_gladen(said: Floats, found: Floats, passed: Floats) -> Floats:
    """The share that has a finding, from that which is labelled so."""
    gap = np.maximum(found - passed, LEAST_INFORMATIVE / 2)
    corrected: Floats = np.clip((said - passed) / gap, 0.0, 1.0)
    return corrected


def _jeffreys(rng: np.random.Generator, hits: float, n: float, parts: int = 1) -> Floats:
    """Draws of a share, or of one of several parts of it; the first is the share itself."""
    drawn = rng.beta(hits + 0.5 / parts, n - hits + 0.5 / parts, DRAWS)
    return np.concatenate([[hits / n if n else 0.5], drawn])


def _beta(rng: np.random.Generator, right: Truth, codes: NDArray[np.intp]) -> Floats:
    if not len(right):
        return _jeffreys(rng, 0, 0)
    share = proportion(right, codes)
    return _jeffreys(rng, share.value * share.effective_rows, share.effective_rows)


def _percentiles(drawn: Mapping[str, Floats]) -> dict[str, Estimate]:
    """Estimates of draws [1 + DRAWS], whose first are the values; an interval holds its value."""
    found = {}
    for name, (value, *others) in drawn.items():
        known = np.asarray(others)[~np.isnan(others)]
        if np.isnan(value) or not known.size:
            found[name] = Estimate()
            continue
        low, high = np.quantile(known, (0.025, 0.975)).tolist()
        found[name] = Estimate(float(value), min(low, float(value)), max(high, float(value)))
    return found


def strata_of(scores: ArrayLike, likely: ArrayLike, threshold: float) -> NDArray[np.intp]:
    """The stratum of each film, [n]: 0 to 2 below the threshold, 3 to 5 above.

    On either side they are cut where films are about equally hard, so that equally many read of
    each tell the most: each has the same sum of √(p (1 − p)), p = ``likely`` [n].

    Source: Dalenius and Hodges 1959; Neyman 1934.
    """
    values, p = np.asarray(scores, np.float64), np.asarray(likely, np.float64)
    strata = np.zeros(len(values), dtype=np.intp)
    for side in (False, True):
        rows = np.flatnonzero((values > threshold) == side)
        rows = rows[np.argsort(values[rows], kind="stable")]
        hard = np.sqrt(np.clip(p[rows] * (1 - p[rows]), 1e-4, None))
        reached = (np.cumsum(hard) - hard / 2) / hard.sum() if len(rows) else hard
        strata[rows] = np.minimum((reached * STRATA).astype(np.intp), STRATA - 1) + STRATA * side
    return strata


def draw_films(strata: NDArray[np.intp], films: int, seed: int = 0) -> NDArray[np.intp]:
    """Rows of so many films to read, equally many of each stratum, all of a smaller one."""
    rng = np.random.default_rng(seed)
    sizes = np.bincount(strata, minlength=2 * STRATA)
    each = np.zeros_like(sizes)
    for _ in range(min(films, len(strata))):
        room = np.flatnonzero(each < sizes)
        each[room[each[room].argmin()]] += 1
    drawn = [rng.permutation(np.flatnonzero(strata == h))[:n] for h, n in enumerate(each)]
    return np.sort(np.concatenate(drawn))


def sampled_point(
    labels: ArrayLike, strata: ArrayLike, sizes: Mapping[int, int], *, seed: int = 0
) -> dict[str, Estimate]:
    """:data:`MEASURES` of the threshold that a sample was drawn at, for all films it is of.

    Labels [n] and strata [n] of :func:`strata_of` are those of the films read; ``sizes`` say how
    many films each stratum has.  The films of a stratum count for those that were not drawn.

    Source: Horvitz and Thompson 1952; Cochran 1977 (stratified sampling).
    """
    truth, place = np.asarray(labels) == 1, np.asarray(strata)
    names = [name for name, size in sorted(sizes.items()) if size]
    rng, present = np.random.default_rng(seed), []
    for name in names:
        read = truth[place == name]
        # what was read is known, and what was not is drawn
        rest = 1 - len(read) / sizes[name]
        # Of many strata without a film that has the finding each would else add one half of it.
        side = sum((other >= STRATA) == (name >= STRATA) for other in names)
        share = _jeffreys(rng, float(read.sum()), len(read), side)
        known = read.mean() if len(read) else 0.0
        present.append(known * (1 - rest) + share * rest)
    weight = np.asarray([sizes[name] for name in names], np.float64)
    above = np.asarray([name >= STRATA for name in names])
    return _percentiles(accuracy_of(np.stack(present, -1), weight / weight.sum(), above))
