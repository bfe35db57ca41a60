import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import spearmanr

from cxrtext.errors import DataError
from cxrtext.language.class_probability import Words, eta_of
from cxrtext.language.eta.figure import write_figure
from cxrtext.language.eta.fit import EtaFit, fit_class_probability, solve
from cxrtext.language.eta.statistics import (
    EtaReport,
    equal_parts,
    eta_statistics,
    eta_summary,
    rank_correlation,
)
from cxrtext.objectives import class_probability
from cxrtext.objectives.debiasing import MIN_ETA

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def simulated(
    a: float, k: float, total: float, seed: int = 0, shape: float | None = None
) -> tuple[Floats, Counts]:
    """Counts of sentences that were seen; Poisson, or gamma-mixed where a shape is given."""
    generator = np.random.default_rng(seed)
    log_p = -generator.gamma(1.5, 12.0, 60_000)
    mean = total * a * np.exp(k * log_p)
    if shape is not None:
        mean = mean * generator.gamma(shape, 1.0 / shape, len(log_p))
    count = generator.poisson(mean)
    return log_p[count > 0], count[count > 0]


def in_units_of_the_sum(fit: EtaFit, count: Counts, total: float) -> float:
    """The scale in terms of the expected total; a fit knows the observed one alone."""
    return fit.a * (float(count.sum()) - 1.0) / total


@pytest.mark.parametrize(("a", "k"), [(0.02, 0.35), (0.001, 0.1), (0.05, 1.0)])
def test_recovers_a_and_k_from_truncated_poisson_counts(a: float, k: float) -> None:
    log_p, count = simulated(a, k, 30_000.0)
    fit = fit_class_probability(log_p, count)
    assert abs(fit.k - k) < 4 * fit.k_error
    assert fit.k_error < 0.05 * k
    assert abs(math.log(in_units_of_the_sum(fit, count, 30_000.0) / a)) < 4 * fit.log_a_error + 0.01
    assert 0.0 < fit.explained < 1.0


def test_standard_errors_are_those_of_the_sandwich_written_out() -> None:
    log_p, count = simulated(0.02, 0.35, 500.0)
    fit = fit_class_probability(log_p, count)
    bread, meat = np.zeros((2, 2)), np.zeros((2, 2))
    for value, n in zip(log_p.tolist(), count.tolist(), strict=True):
        row = np.array([1.0, value])
        expected = (count.sum() - 1) * fit.a * math.exp(fit.k * value)
        bread += n * expected * np.outer(row, row)
        meat += (n * (n - 1 - expected)) ** 2 * np.outer(row, row)
    inverse = np.linalg.inv(bread)
    errors = np.sqrt(np.diag(inverse @ meat @ inverse))
    assert [fit.log_a_error, fit.k_error] == pytest.approx(errors.tolist())


def test_with_heavy_tails_it_gives_the_mean_that_an_anchor_meets() -> None:
    shape = 0.5
    log_p, count = simulated(0.002, 0.2, 30_000.0, shape=shape)
    fit = fit_class_probability(log_p, count)
    # An occurrence is drawn in proportion to its frequency: the mean is that of the gamma's
    # square over the gamma's, (1 + shape) / shape times the plain one.
    assert fit.k == pytest.approx(0.2, abs=4 * fit.k_error)
    scale = in_units_of_the_sum(fit, count, 30_000.0) / 0.002
    assert scale == pytest.approx((1.0 + shape) / shape, rel=0.15)


def test_is_the_best_of_its_neighbors_and_of_a_grid() -> None:
    log_p, count = simulated(0.01, 0.3, 3000.0, seed=1)
    fit = fit_class_probability(log_p, count)

    def likelihood(a: float, k: float) -> float:
        eta = a * np.exp(k * log_p)
        total = count.sum() - 1.0
        return float(count @ ((count - 1.0) * np.log(total * eta) - total * eta))

    best = likelihood(fit.a, fit.k)
    for a in fit.a * np.exp(np.linspace(-1, 1, 21)):
        for k in np.linspace(0.0, 1.0, 21):
            assert likelihood(a, k) <= best
    for step in (-1e-4, 1e-4):
        assert likelihood(fit.a * (1 + step), fit.k) < best
        assert likelihood(fit.a, fit.k + step) < best


def test_k_stops_at_zero_where_likely_sentences_repeat_less() -> None:
    log_p = -np.arange(1.0, 41.0)
    count = np.arange(1, 41)
    fit = fit_class_probability(log_p, count)
    assert fit.k == 0.0
    assert fit.a == pytest.approx(float(count @ (count - 1)) / (820 * 819))
    assert math.isnan(fit.k_error)
    assert fit.explained == pytest.approx(0.0, abs=1e-12)


def test_a_stops_below_one() -> None:
    log_p = -20.0 - np.arange(40.0)
    count = np.maximum((60 * np.exp(-0.5 * np.arange(40.0))).astype(np.int64), 1)
    fit = fit_class_probability(log_p, count)
    assert fit.a == 0.99
    assert 0.0 < fit.k < fit_class_probability(log_p + 20.0, count).k

    def likelihood(k: float) -> float:
        eta = 0.99 * np.exp(k * log_p)
        return float(count @ ((count - 1.0) * np.log(eta) - (count.sum() - 1.0) * eta))

    assert likelihood(fit.k) > max(likelihood(fit.k * 0.999), likelihood(fit.k * 1.001))


def test_very_unlikely_sentences_do_no_harm() -> None:
    log_p, count = simulated(0.01, 0.3, 3000.0, seed=5)
    fit = fit_class_probability(np.r_[log_p, -1e5], np.r_[count, 1])
    assert math.isfinite(fit.explained)
    assert fit.k == pytest.approx(fit_class_probability(log_p, count).k, rel=0.01)


ONES = np.ones(30, dtype=np.int64)
FALLING = -np.arange(1.0, 31.0)


@pytest.mark.parametrize(
    ("log_p", "count", "why"),
    [
        (FALLING[:19], ONES[:19] + 1, "19 distinct sentences, and at least 20"),
        (FALLING, ONES, "none of the 30 distinct sentences occurs twice"),
        (np.full(30, -3.0), ONES + 1, "all 30 distinct sentences have one log-likelihood"),
        (FALLING, np.r_[5, ONES[1:]], "only sentences of the largest log-likelihood"),
        (
            -np.r_[1.0, 1.0 + 1e-12, np.arange(3.0, 31.0)] * 1e-6,
            np.r_[9, 2, ONES[2:]],
            "likeliest sentences occur twice",
        ),
    ],
)
def test_says_why_it_cannot_be_fitted(log_p: Floats, count: Counts, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        fit_class_probability(log_p, count)
    assert str(caught.value).endswith("give a and k instead")


@pytest.mark.parametrize(
    ("log_p", "count", "why"),
    [
        (FALLING, ONES[:29], "one length"),
        (-FALLING, ONES, "at most 0"),
        (np.r_[math.nan, FALLING[1:]], ONES, "finite"),
        (FALLING, np.r_[0, ONES[1:]], "at least 1"),
    ],
)
def test_refuses_arrays_out_of_range(log_p: Floats, count: Counts, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fit_class_probability(log_p, count)


def corpus(sentences: int = 300, **changes: Any) -> EtaReport:
    generator = np.random.default_rng(0)
    log_p = -np.sort(generator.gamma(1.2, 15.0, sentences))
    count = 1 + generator.poisson(40.0 * np.exp(0.3 * log_p))
    values: dict[str, Any] = {
        "log_likelihood": log_p,
        "count": count,
        "a": 0.2,
        "k": 0.35,
        "model": "a <model> of $5 & $6",
        "fit": fit_class_probability(log_p, count),
    }
    return EtaReport(**{**values, **changes})


def test_four_sentences_by_hand() -> None:
    report = EtaReport(np.log([0.5, 0.25, 0.0625, 0.0625]), np.array([4, 3, 1, 2]), 0.5, 1.0, "m")
    statistics = eta_statistics(report)
    assert (statistics.n_sentences, statistics.n_distinct, statistics.repeated) == (10, 4, 3)
    assert statistics.mean_eta == pytest.approx((4 * 0.25 + 3 * 0.125 + 3 * 0.03125) / 10)
    assert statistics.median_eta == pytest.approx(0.125)


def test_correlations_by_hand() -> None:
    report = EtaReport(np.array([-3.0, -2.0, -2.0, -1.0]), np.array([1, 1, 2, 4]), 0.2, 0.35, "m")
    statistics = eta_statistics(report)
    ranks = np.corrcoef([0, 1.5, 1.5, 3], [0.5, 0.5, 2, 3])[0, 1]
    assert statistics.spearman == pytest.approx(ranks)
    logs = np.corrcoef([-3, -2, -2, -1], np.log([1, 1, 2, 4]))[0, 1]
    assert statistics.pearson == pytest.approx(logs)
    constant = eta_statistics(EtaReport(np.full(4, -1.0), np.ones(4, np.int64), 0.2, 0.35, "m"))
    assert math.isnan(constant.spearman)
    assert math.isnan(constant.pearson)


def test_deciles_hold_every_sentence_once_and_a_tenth_of_them_each() -> None:
    report = corpus(5000)
    parts = equal_parts(report.log_likelihood, report.count, 10)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(5000))
    held = np.array([report.count[part].sum() for part in parts])
    assert np.abs(held - report.count.sum() / 10).max() <= report.count.max()


def test_probabilities_are_those_of_the_loss() -> None:
    log_p = np.array([0.0, -1e-300, -3.0, -100.0, -150.0, -700.0, -1e6])
    report = corpus(log_likelihood=log_p, count=np.ones(7, np.int64), a=0.3, k=0.7)
    written = [eta_of(value, Words(3, 0), 0.3, 0.7) for value in log_p.tolist()]
    assert report.eta.tolist() == written
    for dtype in (torch.float64, torch.float32):
        theirs = class_probability(torch.from_numpy(log_p).to(dtype), 0.3, 0.7)
        np.testing.assert_allclose(report.eta, theirs.double().numpy(), rtol=1e-5)
        assert float(theirs.min()) == report.eta.min() == MIN_ETA


def test_figure_in_each_format_and_the_style_of_matplotlib_stays(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    for ending in ("png", "svg", "pdf"):
        write_figure(tmp_path / f"new/eta.{ending}", corpus())
    assert dict(mpl.rcParams) == before
    with Image.open(tmp_path / "new/eta.png") as image:
        assert min(image.size) > 900
        assert len(image.convert("RGB").getcolors(2**24) or []) > 20
    assert ElementTree.parse(tmp_path / "new/eta.svg").getroot().tag.endswith("svg")  # noqa: S314
    assert (tmp_path / "new/eta.pdf").read_bytes().startswith(b"%PDF")
    assert len(list((tmp_path / "new").iterdir())) == 3


@pytest.mark.parametrize(
    "report",
    [
        corpus(k=30.0, fit=None, model="k large"),
        EtaReport(np.array([0.0]), np.array([7]), 0.2, 0.35, "one sentence, certain"),
        EtaReport(np.array([-1e5, -1.0]), np.array([1, 10**6]), 0.2, 0.35, "far apart"),
    ],
    ids=lambda report: report.model,
)
def test_odd_corpora_are_drawn_and_summed_up(tmp_path: Path, report: EtaReport) -> None:
    statistics = write_figure(tmp_path / "eta.png", report)
    assert (tmp_path / "eta.png").stat().st_size > 10_000
    assert len(eta_summary(report, statistics)) >= 3


def test_rank_correlation_counts_a_pair_as_often_as_its_weight() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.integers(0, 6, (2, 40)).astype(float)
    weight = generator.integers(1, 5, 40)
    every = spearmanr(np.repeat(x, weight), np.repeat(y, weight)).statistic
    assert rank_correlation(x, y, weight.astype(float)) == pytest.approx(every)


def test_a_fit_to_shares_finds_their_numbers() -> None:
    log_p = -np.linspace(0.5, 30, 50)
    a, k = solve(log_p, np.arange(1, 51), 0.4 * np.exp(0.2 * log_p))
    assert (a, k) == pytest.approx((0.4, 0.2))
