"""How well estimates of class probabilities agree with the measured shares of positives."""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import DataError
from cxrtext.evaluation.intervals.bootstrap import draw
from cxrtext.language.eta.fit import Counts, Floats, fit_class_probability, solve
from cxrtext.language.eta.statistics import rank_correlation
from cxrtext.text.wording import wording
from cxrtext.training.negatives.positives import Anchors, Mask, Told

RESAMPLES = 200
FIGURES = ("expected", "measured", "log_ratio", "spearman", "spearman_distinct", "error")
"""Of an estimate beside a measured share: false negatives of an anchor in a batch by each, the log
of their ratio, the rank correlations over anchors and over distinct sentences, and the mean
absolute difference in false negatives."""


def shares(true: Mask, said: csr_array, weights: NDArray[np.float32]) -> Floats:
    """Share of the other studies that a sentence is true of, [R, D], on resamples of n studies.

    ``true`` and ``said`` are [D, n]; ``weights`` [R, n] say how often each study occurs.  It is the
    mean over the studies that say the sentence; a study's own copies are none of the others.  0
    where no study says it.
    """
    rest = weights.sum(axis=1, keepdims=True) - weights
    total = true.astype(np.float32) @ weights.T
    own = said.multiply(true).tocsr()
    found = total * (said @ (weights / rest).T) - own @ (weights**2 / rest).T
    share: Floats = np.clip(found / np.maximum(said @ weights.T, 1.0), 0.0, 1.0).T
    return share.astype(np.float64)


def estimates_of(anchors: Anchors, share: Floats) -> dict[str, tuple[Floats, str]]:
    """η of sentences [D] by the paper's a and k, by fitted ones, and by what knows less.

    ``share`` [D] is the measured one to fit to.  Controls put the number of word pieces in place of
    −log p, take one number for all, or one for each wording (affirmed, negated, uncertain); the
    last estimate fits a and k to each wording.  The texts say which numbers they are made of.
    """
    log_p, count = np.array([one.log_likelihood for one in anchors.sentences]), anchors.count
    length = -np.array([float(one.n_tokens) for one in anchors.sentences])
    flat, every = np.zeros(len(log_p)), np.full(len(log_p), "")
    said = np.array([wording(one.sentence) for one in anchors.sentences])
    found = {"paper": _estimate(log_p, DEFAULT_A, DEFAULT_K)}
    with suppress(DataError):  # too few sentences come back
        fit = fit_class_probability(log_p, count)
        found["fitted to repeats"] = _estimate(log_p, fit.a, fit.k)
    found["fitted to reports"] = _fitted(log_p, count, share, every)
    found["length"] = _fitted(length, count, share, every)
    found["constant"] = _fitted(flat, count, share, every)
    found["wording"] = _fitted(flat, count, share, said)
    found["wording and likelihood"] = _fitted(log_p, count, share, said)
    return found


def _estimate(x: Floats, a: float, k: float) -> tuple[Floats, str]:
    return a * np.exp(k * x), f"a = {a:.3g}, k = {k:.3g}"


def _fitted(
    x: Floats, count: Counts, share: Floats, groups: NDArray[np.str_]
) -> tuple[Floats, str]:
    """``a e^{k x}`` with the a and k under which the shares are likeliest, in each group."""
    eta, made = np.zeros(len(x)), []
    for group in np.unique(groups):
        own = groups == group
        if share[own].any():
            eta[own], numbers = _estimate(x[own], *solve(x[own], count[own], share[own]))
            made.append(f"{group}: {numbers}" if group else numbers)
    return eta, "; ".join(made)


def agreements(
    anchors: Anchors,
    positives: Told,
    negatives: int,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[dict[str, Floats], list[dict[str, Any]]]:
    """The share of other studies of each sentence [D] by way, NaN where it is not told, and rows.

    A row is an estimate, or the share by repeats or reports, beside the share of a way: the
    :data:`FIGURES` with intervals, and with the estimate shuffled among the distinct sentences.
    Intervals are 1.96 deviations over resampled patients; resamples hold fewer distinct sentences,
    which shifts their percentiles.
    """
    drawn = draw([record.patient_id for record in anchors.records], resamples, (seed, 36))
    weights = np.concatenate([np.ones((1, drawn.shape[1])), drawn]).astype(np.float32)
    measured = {way: shares(true, anchors.said, weights) for way, (true, _) in positives.items()}
    count = np.asarray((anchors.said @ weights.T).T)
    generator = np.random.default_rng((seed, 37))
    told = {name: measured[name] for name in ("repeats", "reports")}
    estimates = estimates_of(anchors, told["reports"][0])
    values = {name: np.broadcast_to(eta, count.shape) for name, (eta, _) in estimates.items()}
    rows = []
    for way, (_, judged) in positives.items():
        for name, estimate in (values | told).items():
            if name == way or (name, way) == ("reports", "repeats"):
                continue
            parts = estimate[:, judged], measured[way][:, judged], count[:, judged]
            about = {"estimate": name, "measured_by": way, "sentences": int(judged.sum())}
            about["made_of"] = estimates.get(name, (0, ""))[1]
            rows.append({**about, **dict(_figures(parts, negatives, generator))})
    known = {
        way: np.where(judged, measured[way][0], math.nan) for way, (_, judged) in positives.items()
    }
    return known, rows


def _figures(
    parts: tuple[Floats, Floats, Floats], negatives: int, generator: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """The figures of estimate, share and count, [1 + R, D], by name; row 0 is not resampled."""
    estimate, share, count = (values[0] for values in parts)
    scale = np.array([negatives, negatives, 1, 1, 1, negatives])
    found = scale * [_compared(*row) for row in zip(*parts, strict=True)]
    mixed = [_compared(generator.permutation(estimate), share, count) for _ in range(RESAMPLES)]
    chance = np.quantile(scale * mixed, [0.025, 0.5, 0.975], axis=0)
    reach = 1.96 * found[1:].std(axis=0) if len(found) > 1 else math.nan * scale
    for place, name in enumerate(FIGURES):
        value = float(found[0, place])
        yield name, value
        yield f"{name}_low", value - float(reach[place])
        yield f"{name}_high", value + float(reach[place])
    place = FIGURES.index("spearman")
    yield "spearman_shuffled_low", float(chance[0, place])
    yield "spearman_shuffled_high", float(chance[2, place])
    yield "error_shuffled", float(chance[1, FIGURES.index("error")])


def _compared(estimate: Floats, share: Floats, weight: Floats) -> tuple[float, ...]:
    """The :data:`FIGURES` of sentences that occur as often as their weights, in shares."""
    there = weight > 0
    estimate, share, weight = estimate[there], share[there], weight[there]
    one, other = (float(np.average(values, weights=weight)) for values in (estimate, share))
    ratio = math.log(one / other) if one > 0 and other > 0 else math.nan
    correlations = [rank_correlation(estimate, share, by) for by in (weight, np.ones(len(weight)))]
    error = float(np.average(np.abs(estimate - share), weights=weight))
    return one, other, ratio, *correlations, error
